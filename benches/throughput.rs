//! Requests a second through Lurcher, beside a bare libzmq echo on the same sockets in the same run.
//!
//! `cargo bench --bench throughput -- path/to/lurcher [seconds]` plays a front end that keeps a number of requests
//! outstanding, each on a connection of its own. What is compared is the ratio to the echo: machines differ and are noisy,
//! the ratio is steadier. It serves `examples/hello.py`. It is no test: nothing fails when it is slow.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

struct FrontEnd {
    push: zmq::Socket,
    sub: zmq::Socket,
    recv: String,
    send: String,
}

fn front_end(context: &zmq::Context) -> FrontEnd {
    let make = |kind| {
        let socket = context.socket(kind).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_sndtimeo(20_000).unwrap();
        socket.set_rcvtimeo(20_000).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        (socket, endpoint)
    };
    let (push, recv) = make(zmq::PUSH);
    let (sub, send) = make(zmq::SUB);
    sub.set_subscribe(b"").unwrap();
    FrontEnd { push, sub, recv, send }
}

impl FrontEnd {
    fn request(&self, id: u32) {
        const HEAD: &str = concat!(
            r#"{"PATH":"/","x-forwarded-for":"127.0.0.1","accept":"*/*","user-agent":"bench/1","#,
            r#""host":"localhost:6767","METHOD":"GET","VERSION":"HTTP/1.1","URI":"/","PATTERN":"/","#,
            r#""URL_SCHEME":"http","REMOTE_ADDR":"127.0.0.1"}"#
        );
        let message = format!("bench {id} / {}:{HEAD},0:,", HEAD.len());
        self.push.send(message.as_bytes(), 0).unwrap();
    }

    fn reply(&self) -> u32 {
        let reply = self.sub.recv_bytes(0).expect("an answer within 20 s");
        let id = reply[6..].split(|b| *b == b':').nth(1).unwrap();
        let id = id.split(|b| *b == b',').next().unwrap();
        std::str::from_utf8(id).unwrap().parse().unwrap()
    }

    /// Answers a second with `outstanding` requests under way, and the mean time of one in µs.
    fn measure(&self, outstanding: u32, time: Duration) -> (f64, f64) {
        while !self.push.get_events().unwrap().contains(zmq::POLLOUT) {
            // A SUB that nobody touches does not subscribe.
            self.sub.poll(zmq::POLLIN, 1).unwrap();
        }
        for id in 1..=outstanding {
            self.request(id);
        }
        // Until it is warm.
        let warm = Instant::now() + time / 4;
        while Instant::now() < warm {
            self.request(self.reply());
        }
        let (start, mut answers) = (Instant::now(), 0_u32);
        while start.elapsed() < time {
            self.request(self.reply());
            answers += 1;
        }
        let rate = f64::from(answers) / start.elapsed().as_secs_f64();
        for _ in 0..outstanding {
            self.reply();
        }
        (rate, f64::from(outstanding) * 1e6 / rate)
    }
}

/// The ceiling: takes a message, sends a ready-made reply.
fn echo(front: &FrontEnd, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (recv, send, stop) = (front.recv.clone(), front.send.clone(), Arc::clone(stop));
    let run = move || {
        let context = zmq::Context::new();
        let publish = context.socket(zmq::XPUB).unwrap();
        publish.connect(&send).unwrap();
        publish.recv_bytes(0).unwrap();
        let pull = context.socket(zmq::PULL).unwrap();
        pull.set_rcvtimeo(100).unwrap();
        pull.connect(&recv).unwrap();
        while !stop.load(Ordering::Relaxed) {
            let Ok(message) = pull.recv_bytes(0) else { continue };
            let id = message.split(|b| *b == b' ').nth(1).unwrap();
            let id = std::str::from_utf8(id).unwrap();
            let reply = format!(
                "bench {}:{id}, HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, world\n",
                id.len()
            );
            publish.send(reply.as_bytes(), 0).unwrap();
        }
    };
    std::thread::Builder::new().name("echo".to_owned()).spawn(run).unwrap()
}

fn lurcher(path: &str, front: &FrontEnd, workers: u32, threads: u32) -> Child {
    Command::new(path)
        .args(["--recv", &front.recv, "--send", &front.send])
        .args(["--wsgi-app", "hello:application", "--app-path", "examples"])
        .args(["--workers", &workers.to_string(), "--threads", &threads.to_string()])
        .args(["--log-level", "warning"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn main() {
    // Cargo adds `--bench`.
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let Some(path) = args.next() else {
        println!("nothing measured: say where lurcher is, as .venv/bin/lurcher");
        return;
    };
    let seconds = args.next().map_or(3, |text| text.parse().unwrap());
    let time = Duration::from_secs(seconds);
    println!("| what | outstanding | answers/s | µs each | of the echo |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for outstanding in [1, 32] {
        let context = zmq::Context::new();
        let front = front_end(&context);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = echo(&front, &stop);
        let (ceiling, each) = front.measure(outstanding, time);
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        println!("| libzmq echo | {outstanding} | {ceiling:.0} | {each:.0} | |");
        for (workers, threads) in [(1, 1), (1, 4), (2, 4)] {
            let front = front_end(&context);
            let mut child = lurcher(&path, &front, workers, threads);
            let (rate, each) = front.measure(outstanding, time);
            let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
            child.wait().unwrap();
            println!(
                "| lurcher, {workers} × {threads} | {outstanding} | {rate:.0} | {each:.0} | {:.0} % |",
                100.0 * rate / ceiling
            );
        }
    }
}
