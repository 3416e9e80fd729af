//! `lurcher serve`: a front end and an instance with one application, started and ended together.
//!
//! HTTP ends in a process of its own, and the application runs in others; this one has neither. It binds the addresses,
//! makes a private directory in which the two meet, opens the addresses when the instance says that the application is
//! loaded, and ends in that order: no new clients, the requests that are there, the workers. It takes what a front end's
//! and an instance's command line take, and refuses to be anything more than whoever types both.

mod child;
mod listen;
mod place;
mod policy;
mod run;
mod shared;

use std::io;
use std::io::IsTerminal;
use std::io::Write;

use crate::cli;
use crate::cli::Both;
use crate::cli::Order;
use crate::supervisor::Exit;
use crate::supervisor::Interpreter;
use crate::system;
use crate::system::Notify;
use crate::telemetry;

use listen::Listener;
use place::Place;
use run::Serve;

/// Does what `lurcher serve` says, and gives the exit code. Blocks until all has ended.
pub fn serve(order: Order, interpreter: Interpreter) -> u8 {
    let both = match cli::serve(order, |name| std::env::var_os(name)) {
        Ok(both) => both,
        Err(said) => {
            // A reader that has gone away does not want to know.
            let _ = io::stderr().write_all(said.as_bytes());
            return cli::EXIT_USAGE;
        }
    };
    let config = &both.config;
    if config.process.daemon {
        let _ =
            io::stderr().write_all(b"lurcher: serve stays in the foreground: daemon must be off\n");
        return cli::EXIT_USAGE;
    }
    system::set_title(&format!("lurcher: serve ({})", config.application.wsgi_app), "lurcher");
    if let Some(path) = &config.log.syslog
        && let Err(error) = telemetry::to_syslog(path)
    {
        let _ = writeln!(io::stderr(), "lurcher: no socket for the log service: {error}");
        return Exit::Failed.code();
    }
    telemetry::init("lurcher-serve", config.log.log_level, config.log.log_format);
    match start(both, interpreter) {
        Ok(serve) => serve.run(),
        Err((what, why)) => {
            telemetry::error!("{what}: {why}");
            Exit::Failed.code()
        }
    }
}

type Fault = (String, String);

fn start(mut both: Both, interpreter: Interpreter) -> Result<Serve, Fault> {
    let config = &both.config;
    let fault = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| (what, error.to_string())
    };
    let mut listeners = Vec::new();
    for address in &both.front.clients.bind {
        let bound = Listener::bind(address).map_err(fault(&format!("cannot bind {address}")))?;
        listeners.push(bound);
    }
    // What only root can bind is bound by now, and there is no second thread yet.
    if let Some(identity) = &config.process.identity {
        system::become_identity(identity)
            .map_err(|error| ("cannot become another user".to_owned(), error.to_string()))?;
    }
    let place = Place::make(|name| std::env::var_os(name))
        .map_err(fault("cannot make a private directory"))?;
    let what = match &both.config.admin.metrics {
        Some(at) => format!("--metrics {at}"),
        None => "metrics".to_owned(),
    };
    shared::share(&mut both, &place, io::stdout().is_terminal()).map_err(fault(&what))?;
    let above = Notify::from_environment(|name| std::env::var_os(name))
        .map_err(fault("NOTIFY_SOCKET cannot be used"))?;
    Serve::start(both, listeners, place, above, interpreter)
        .map_err(fault("cannot start the processes"))
}
