//! The front end as a program of its own, without Python; see `lurcher::front`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(lurcher::front_process::main(std::env::args_os().skip(1).collect()))
}
