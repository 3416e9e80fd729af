//! The front end from its start to its end.

use std::future::Future;
use std::future::poll_fn;
use std::io::Read;
use std::rc::Rc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;
use std::time::Instant;

use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::task::LocalSet;
use tokio::task::spawn_local;

use super::conn;
use super::listen;
use super::listen::SocketFiles;
use super::parent::Parent;
use super::parent::Word;
use super::peer::serve_puller;
use super::publisher::serve_publisher;
use super::record::Record;
use super::shared::Shared;
use super::stream::Listener;
use super::stream::Stream;
use crate::config::Bind;
use crate::config::Front;
use crate::front::core::RouteId;
use crate::front::message::Form;
use crate::telemetry;
use crate::telemetry::access::AccessLog;

/// `EX_OSERR` of sysexits.h.
const EXIT_OS: u8 = 71;
/// `EX_CANTCREAT`: an address or a file cannot be used.
const EXIT_CANNOT: u8 = 73;

/// How often the clock is looked at: times are kept to this.
const TICK: Duration = Duration::from_millis(100);

/// The pause after a connection could not be accepted, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Runs a front end until a signal ends it; gives the exit code. `wait`: clients are accepted when a byte comes on standard
/// input, and it ends when that does.
pub fn run(config: Front, wait: bool) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            telemetry::error!("cannot start: {error}");
            return EXIT_OS;
        }
    };
    let local = LocalSet::new();
    let served = local.block_on(&runtime, serve(config, wait));
    match served {
        Ok(()) => 0,
        Err((code, text)) => {
            telemetry::error!("{text}");
            code
        }
    }
}

type Failure = (u8, String);

fn cannot(error: &impl ToString) -> Failure {
    (EXIT_CANNOT, error.to_string())
}

async fn serve(config: Front, wait: bool) -> Result<(), Failure> {
    raise_descriptor_limit(&config);
    let log = config.log.access_log.as_ref().map(AccessLog::open).transpose();
    let log = log.map_err(|error| cannot(&error))?;
    let ident = match &config.handlers.ident {
        Some(ident) => ident.clone(),
        None => new_ident().map_err(|error| (EXIT_OS, error.to_string()))?,
    };
    let first = first_conn().map_err(|error| (EXIT_OS, error.to_string()))?;
    let mut signals = Signals::new(wait).map_err(|error| (EXIT_OS, error.to_string()))?;
    let form = if config.handlers.tnetstrings { Form::Tnetstring } else { Form::Json };
    let shared = Rc::new(Shared::new(config, ident, form, Record::new(log), first));
    let mut files = SocketFiles::default();
    let mut bound = |at: &Bind| {
        let listeners = listen::bind(at).map_err(|error| cannot(&error))?;
        files.add(at);
        Ok::<_, Failure>(listeners)
    };
    let mut handlers = Vec::new();
    for (number, route) in shared.config.handlers.routes.iter().enumerate() {
        for (at, pulls) in [(&route.send, true), (&route.recv, false)] {
            for listener in bound(at)? {
                handlers.push((listener, RouteId(number), pulls));
            }
        }
    }
    for (listener, route, pulls) in handlers {
        let shared = Rc::clone(&shared);
        spawn_local(async move {
            loop {
                let stream = accept(&shared, &listener, true).await;
                let shared = Rc::clone(&shared);
                if pulls {
                    spawn_local(serve_puller(shared, route, stream));
                } else {
                    spawn_local(serve_publisher(shared, route, stream));
                }
            }
        });
    }
    if wait && !signals.may_go().await {
        return Ok(());
    }
    // Not before: a socket that does not listen yet is one that has ended, to epoll.
    let mut clients = Vec::new();
    for at in &shared.config.clients.bind {
        for listener in bound(at)? {
            let shown = listener.address().map_or_else(|| at.to_string(), |at| at.to_string());
            telemetry::info!("listening at {shown}");
            clients.push(listener);
        }
    }
    let accepting: Vec<_> = clients
        .into_iter()
        .map(|listener| spawn_local(accept_clients(Rc::clone(&shared), listener)))
        .collect();
    let clock = spawn_local(tick(Rc::clone(&shared)));
    signals.next().await;
    let (connections, requests) = (shared.connections(), shared.core.borrow().under_way());
    telemetry::info!("stopping: {connections} connections, {requests} requests");
    for task in accepting {
        task.abort();
    }
    shared.stop();
    wind_down(&shared, &mut signals).await;
    clock.abort();
    shared.record.flush();
    tell_counts(&shared);
    Ok(())
}

/// Lets requests end, for as long as they may; a second signal ends them at once.
async fn wind_down(shared: &Shared, signals: &mut Signals) {
    let until = Instant::now() + shared.config.graceful_timeout;
    let mut again = std::pin::pin!(signals.next());
    let ended = async {
        while shared.connections() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let mut ended = std::pin::pin!(ended);
    poll_fn(|cx| match again.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => ended.as_mut().poll(cx),
    })
    .await;
    if shared.connections() > 0 {
        telemetry::warn!("{} connections are cut off", shared.connections());
        shared.cut();
        // A turn for their tasks, which tell handlers.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The last line of the log.
fn tell_counts(shared: &Shared) {
    let [refused, broken, bad_replies] = shared.record.counts();
    let core = shared.core.borrow().counters();
    telemetry::info!(
        "ended: {} requests, {} waited, {} found no room, {} waited too long, {} moved, {} repeated, {} lost; \
         {refused} refused, {broken} broken responses, {bad_replies} bad replies",
        core.requests,
        core.queued,
        core.refused,
        core.timed_out,
        core.moved,
        core.retried,
        core.lost,
    );
}

/// The next connection; when there are no descriptors left, the next one that can be had.
async fn accept(shared: &Shared, listener: &Listener, handler: bool) -> Stream {
    loop {
        let accepted =
            if handler { listener.accept_handler().await } else { listener.accept().await };
        match accepted {
            Ok(stream) => return stream,
            Err(error) => {
                shared.complain(|| format!("cannot accept a connection: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept_clients(shared: Rc<Shared>, listener: Listener) {
    loop {
        let stream = accept(&shared, &listener, false).await;
        spawn_local(conn::serve(Rc::clone(&shared), stream));
        while shared.connections() >= shared.config.clients.max_connections {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

async fn tick(shared: Rc<Shared>) {
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(TICK).await;
        let now = Instant::now();
        shared.tick(now, now.saturating_duration_since(last));
        last = now;
    }
}

/// What ends us: TERM, INT, and the end of who started us, if that is to count.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<Parent>,
}

impl Signals {
    fn new(with_parent: bool) -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            parent: with_parent.then(Parent::of_stdin).transpose()?,
        })
    }

    async fn next(&mut self) {
        poll_fn(|cx| {
            let signalled = self.poll_signal(cx);
            let gone = self.parent.as_mut().map(|parent| parent.poll_word(cx));
            if gone == Some(Poll::Ready(Word::Gone)) {
                self.parent = None;
                return Poll::Ready(());
            }
            signalled
        })
        .await;
    }

    /// Waits for the word to go; false when the end comes first.
    async fn may_go(&mut self) -> bool {
        poll_fn(|cx| {
            if self.poll_signal(cx).is_ready() {
                return Poll::Ready(false);
            }
            let Some(parent) = &mut self.parent else { return Poll::Ready(true) };
            parent.poll_word(cx).map(|word| word == Word::Go)
        })
        .await
    }

    fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ready =
            self.terminate.poll_recv(cx).is_ready() || self.interrupt.poll_recv(cx).is_ready();
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A name that no other front end has.
fn new_ident() -> std::io::Result<String> {
    use std::fmt::Write;
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().enumerate().fold(String::new(), |mut text, (at, byte)| {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Where the ids of connections begin: with a fixed name it differs from run to run, so that late replies miss.
fn first_conn() -> std::io::Result<u32> {
    random().map(u32::from_le_bytes)
}

/// Lets us have as many descriptors as the system allows, as each connection needs one.
fn raise_descriptor_limit(config: &Front) {
    use nix::sys::resource::Resource;
    use nix::sys::resource::getrlimit;
    use nix::sys::resource::setrlimit;
    let wanted = config.clients.max_connections as u64 + 128;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft >= wanted {
        return;
    }
    let most = wanted.min(hard);
    if setrlimit(Resource::RLIMIT_NOFILE, most, hard).is_err() || most < wanted {
        telemetry::warn!("the limit of {most} descriptors is too low for --max-connections");
    }
}
