//! `lurcher serve`: a front end and an instance with one application, started and ended together.
//!
//! HTTP ends in a process of its own, and the application runs in others; this one has neither. It binds the addresses,
//! makes a private directory in which the two meet, opens the addresses when the instance says that the application is
//! loaded, and ends in that order: no new clients, the requests that are there, the workers. It takes what a front end's
//! and an instance's command line take, and refuses to be anything more than whoever types both.

mod child;
mod listen;
mod live;
mod news;
mod place;
mod policy;
mod run;
mod shared;

use std::ffi::OsString;
use std::io;
use std::io::IsTerminal;
use std::io::Write;

use nix::sys::stat::Mode;
use nix::sys::stat::umask;

use crate::cli;
use crate::cli::Both;
use crate::cli::Order;
use crate::cli::ParsedServe;
use crate::config::Config;
use crate::supervisor::Exit;
use crate::supervisor::Interpreter;
use crate::system;
use crate::system::LogFile;
use crate::system::Notify;
use crate::system::PidFile;
use crate::telemetry;

use listen::Listener;
use place::Place;
use run::Held;
use run::Serve;

/// Does what `lurcher serve` says, and gives the exit code. Blocks until all has ended.
pub fn serve(order: Order, interpreter: Interpreter) -> u8 {
    let mut both = match cli::serve(order, environment) {
        ParsedServe::Run(both) => *both,
        ParsedServe::Exit { code, stdout, stderr } => {
            // A reader that has gone away does not want to know.
            let _ = io::stdout().write_all(stdout.as_bytes());
            let _ = io::stderr().write_all(stderr.as_bytes());
            return code;
        }
    };
    let config = &both.config;
    if config.process.daemon {
        let _ =
            io::stderr().write_all(b"lurcher: serve stays in the foreground: daemon must be off\n");
        return cli::EXIT_USAGE;
    }
    // Whatever standard error becomes: the end of a terminal that has started us is our end.
    let terminal = io::stderr().is_terminal();
    if let Err((what, error)) = begin_log(config) {
        let _ = writeln!(io::stderr(), "lurcher: {what}: {error}");
        return Exit::Failed.code();
    }
    for warning in &both.warnings {
        telemetry::warn!("{warning}");
    }
    if let Some(path) = &config.log.log_file {
        // It is open by then, and may be where only root can open it; this is for USR1.
        let mut word = OsString::from("--log-file=");
        word.push(path);
        both.front_words.push(word);
    }
    match start(both, terminal, interpreter) {
        Ok(serve) => serve.run(),
        Err((what, why)) => {
            telemetry::error!("{what}: {why}");
            Exit::Failed.code()
        }
    }
}

type Fault = (String, String);

/// Makes the log what it is to be, for this process and all that it starts.
fn begin_log(config: &Config) -> Result<(), (String, io::Error)> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error| (what, error)
    };
    if let Some(mask) = config.process.umask {
        umask(Mode::from_bits_truncate(mask));
    }
    if let Some(path) = &config.log.log_file {
        let cannot = format!("cannot write to the log file {}", path.display());
        let log = LogFile::open(path, config.process.identity.as_ref());
        log.and_then(|log| log.take_output(false)).map_err(failed(&cannot))?;
    }
    system::set_title(
        &format!("lurcher: serve ({})", config.application.wsgi_app),
        "lurcher-serve",
    );
    if let Some(path) = &config.log.syslog {
        telemetry::to_syslog(path).map_err(failed("cannot make a socket for the log service"))?;
    }
    telemetry::init("lurcher-serve", config.log.log_level, config.log.log_format);
    Ok(())
}

fn start(mut both: Both, terminal: bool, interpreter: Interpreter) -> Result<Serve, Fault> {
    let config = &both.config;
    let pid_file = config.process.pid_file.as_deref().map(PidFile::take).transpose();
    let pid_file = pid_file.map_err(|e| ("cannot have the pid file".to_owned(), e.to_string()))?;
    let pid_file = pid_file.map(|(pid_file, old)| {
        if let Some(old) = old {
            telemetry::info!("the pid file was left behind by pid {old}; taken over");
        }
        pid_file
    });
    let fault = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| (what, error.to_string())
    };
    let mut listeners = Vec::new();
    for address in &both.front.clients.bind {
        let bound = Listener::bind(address).map_err(fault(&format!("cannot bind {address}")))?;
        listeners.extend(bound);
    }
    // What only root can bind is bound by now, and there is no second thread yet.
    if let Some(identity) = &config.process.identity {
        for socket in listeners.iter().filter_map(Listener::file) {
            let what = format!("cannot give {} to another user", socket.display());
            system::give_socket(socket, identity).map_err(fault(&what))?;
        }
        system::become_identity(identity)
            .map_err(|error| ("cannot become another user".to_owned(), error.to_string()))?;
    }
    let place = Place::make(environment).map_err(fault("cannot make a private directory"))?;
    let what = match &both.config.admin.metrics {
        Some(at) => format!("--metrics {at}"),
        None => "metrics".to_owned(),
    };
    shared::share(&mut both, &place, io::stdout().is_terminal()).map_err(fault(&what))?;
    let above =
        Notify::from_environment(environment).map_err(fault("NOTIFY_SOCKET cannot be used"))?;
    Serve::start(both, listeners, Held { pid_file, place, above, terminal }, interpreter)
        .map_err(fault("cannot start the processes"))
}

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
