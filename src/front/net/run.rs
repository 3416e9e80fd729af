//! The front end from its start to its end.

use std::future::Future;
use std::future::poll_fn;
use std::io::Read;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use std::time::Instant;

use tokio::task::JoinHandle;
use tokio::task::LocalSet;
use tokio::task::spawn_local;

use super::conn;
use super::listen;
use super::listen::SocketFiles;
use super::live;
use super::metrics;
use super::peer::serve_puller;
use super::publisher::serve_publisher;
use super::record::Outcome;
use super::record::Record;
use super::shared::Shared;
use super::signals::Signals;
use super::signals::Wish;
use super::stream::Listener;
use super::stream::Stream;
use crate::config::Bind;
use crate::config::Front;
use crate::config::FrontParent;
use crate::config::request_id_prefix;
use crate::front::core::RouteId;
use crate::front::host::Bound;
use crate::front::host::Host;
use crate::front::message::Form;
use crate::http::request_id::RequestIds;
use crate::telemetry;
use crate::telemetry::access::AccessLog;

/// `EX_OSERR` of sysexits.h.
const EXIT_OS: u8 = 71;
/// `EX_CANTCREAT`: an address or a file cannot be used.
const EXIT_CANNOT: u8 = 73;

/// How often the clock is looked at: times are kept to this.
const TICK: Duration = Duration::from_millis(100);

/// How old what `systemctl status` shows may be.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Runs a front end until a signal ends it; gives the exit code.
pub fn run(config: Front, parent: FrontParent, host: Rc<dyn Host>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            telemetry::error!("cannot start: {error}");
            return EXIT_OS;
        }
    };
    let local = LocalSet::new();
    let served = local.block_on(&runtime, serve(config, parent, host));
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

async fn serve(config: Front, parent: FrontParent, host: Rc<dyn Host>) -> Result<(), Failure> {
    raise_descriptor_limit(&config);
    let log = config.log.access_log.as_ref().map(AccessLog::open).transpose();
    let log = log.map_err(|error| cannot(&error))?;
    let header = config.log.request_id_header.as_deref();
    let ids = RequestIds::new(header, request_id_prefix());
    let ident = match &config.handlers.ident {
        Some(ident) => ident.clone(),
        None => new_ident().map_err(|error| (EXIT_OS, error.to_string()))?,
    };
    let first = first_conn().map_err(|error| (EXIT_OS, error.to_string()))?;
    let mut signals = Signals::new(parent.wait).map_err(|error| (EXIT_OS, error.to_string()))?;
    let form = if config.handlers.tnetstrings { Form::Tnetstring } else { Form::Json };
    let mut files = SocketFiles::default();
    let mut bind = |at: &Bind| {
        let bound = listen::bind(at).map_err(|error| cannot(&error))?;
        files.add(at);
        Ok::<_, Failure>(bound)
    };
    let mut handlers = Vec::new();
    for (number, route) in config.handlers.routes.iter().enumerate() {
        for (at, pulls) in [(&route.send, true), (&route.recv, false)] {
            handlers.push((bind(at)?, RouteId(number), pulls));
        }
    }
    let clients = config.clients.bind.iter().map(&mut bind).collect::<Result<Vec<_>, _>>()?;
    let collectors = config.metrics.as_ref().map(&mut bind).transpose()?;
    let access_log = log.as_ref().map(AsFd::as_fd);
    host.bound(&Bound { sockets: &files.paths(), access_log }).map_err(|text| (EXIT_OS, text))?;
    let record = Record::new(log, config.log.access_log_format, parent.own_lines, ids);
    let shared = Rc::new(Shared::new(config, ident, form, record, first));
    for (bound, route, pulls) in handlers {
        for listener in bound.listen().map_err(|error| cannot(&error))? {
            spawn_local(accept_handlers(Rc::clone(&shared), listener, route, pulls));
        }
    }
    if let Some(bound) = collectors {
        let at = bound.at().clone();
        for listener in bound.listen().map_err(|error| cannot(&error))? {
            metrics::opened(&at, &listener).map_err(|error| cannot(&error))?;
            let instance = parent.instance_metrics.clone();
            spawn_local(metrics::serve(Rc::clone(&shared), listener, instance));
        }
    }
    let mut doors = Doors { waiting: clients, accepting: Vec::new() };
    if !parent.wait {
        doors.open(&shared)?;
        host.serving();
    }
    let clock = spawn_local(tick(Rc::clone(&shared), Rc::clone(&host)));
    loop {
        match signals.next().await {
            Wish::End => break,
            Wish::Open => doors.open(&shared)?,
            Wish::Reload => live::reload(&shared, &*host),
            Wish::Reopen => live::reopen(&shared),
        }
    }
    host.stopping();
    let (connections, requests) = (shared.connections(), shared.core.borrow().under_way());
    telemetry::info!("stopping: {connections} connections, {requests} requests");
    drop(doors);
    shared.stop();
    wind_down(&shared, &mut signals).await;
    clock.abort();
    shared.record.flush();
    tell_counts(&shared);
    Ok(())
}

/// Where clients come in.
struct Doors {
    waiting: Vec<listen::Bound>,
    accepting: Vec<JoinHandle<()>>,
}

impl Doors {
    /// Lets clients come.
    fn open(&mut self, shared: &Rc<Shared>) -> Result<(), Failure> {
        for bound in self.waiting.drain(..) {
            let at = bound.at().to_string();
            for listener in bound.listen().map_err(|error| cannot(&error))? {
                let shown = listener.address().map_or_else(|| at.clone(), |at| at.to_string());
                telemetry::info!("listening at {shown}");
                let accepting = accept_clients(Rc::clone(shared), listener);
                self.accepting.push(spawn_local(accepting));
            }
        }
        Ok(())
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        for task in &self.accepting {
            task.abort();
        }
    }
}

/// Lets requests end, for as long as they may; another wish to end ends them at once.
async fn wind_down(shared: &Shared, signals: &mut Signals) {
    let until = Instant::now() + shared.config().graceful_timeout;
    let again = async {
        loop {
            match signals.next().await {
                Wish::End => return,
                Wish::Reopen => live::reopen(shared),
                Wish::Open | Wish::Reload => {}
            }
        }
    };
    let mut again = std::pin::pin!(again);
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
    let counts = shared.record.counts();
    let [refused, broken] = [Outcome::Refused, Outcome::BrokenResponse].map(|end| counts.of(end));
    let bad_replies = counts.bad_replies;
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
pub(super) async fn accept(shared: &Shared, listener: &Listener, handler: bool) -> Stream {
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

async fn accept_handlers(shared: Rc<Shared>, listener: Listener, route: RouteId, pulls: bool) {
    loop {
        let stream = accept(&shared, &listener, true).await;
        let shared = Rc::clone(&shared);
        if pulls {
            spawn_local(serve_puller(shared, route, stream));
        } else {
            spawn_local(serve_publisher(shared, route, stream));
        }
    }
}

async fn accept_clients(shared: Rc<Shared>, listener: Listener) {
    loop {
        let stream = accept(&shared, &listener, false).await;
        spawn_local(conn::serve(Rc::clone(&shared), stream));
        while shared.connections() >= shared.config().clients.max_connections {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

async fn tick(shared: Rc<Shared>, host: Rc<dyn Host>) {
    let every = host.patience().map(|patience| STATUS_EVERY.min(patience / 2));
    let mut next = every.map(|_| Instant::now());
    let mut last = Instant::now();
    loop {
        let now = Instant::now();
        if let (Some(at), Some(every)) = (next, every)
            && at <= now
        {
            host.alive(&shared.status());
            next = Some(now + every);
        }
        tokio::time::sleep(TICK).await;
        let now = Instant::now();
        shared.tick(now, now.saturating_duration_since(last));
        last = now;
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
pub(super) fn raise_descriptor_limit(config: &Front) {
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
