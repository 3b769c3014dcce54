//! The entry point of the `rejoin` binary: TLS, command line, exit code. The rest is in the library.
use std::process::ExitCode;

use clap::Parser;
use rejoin_cli::args::{Cli, Command};
use rejoin_cli::exit::Exit;
#[cfg(feature = "sqlite")]
use rejoin_data_sources::sqlite::child;
use rejoin_egress::watchdog;

/// Many small allocations on several threads: glibc's allocator took a quarter of the API's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A child of an API or worker that runs SQLite within limits: nothing else of this program may run in it.
    #[cfg(feature = "sqlite")]
    if std::env::args_os().nth(1).is_some_and(|verb| verb == child::VERB) {
        return child::main();
    }
    // A child of `rejoin dev` or a worker: the watchdog of their other children.
    if let Some(code) = watchdog::child::main_if_asked() {
        return code;
    }
    let cli = Cli::parse();
    // `top -H` and profilers show what a thread belongs to.
    let threads = match cli.command {
        Command::Api(_) => "rejoin-api",
        Command::Worker(_) => "rejoin-worker",
        _ => "rejoin",
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(threads)
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => {
            eprintln!("rejoin: starting threads failed: {error}");
            Exit::Failed.into()
        }
    }
}

async fn run(cli: Cli) -> ExitCode {
    // Before any use of TLS: with two providers linked in and none chosen, rustls panics at its first use.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("rejoin: another TLS provider is already installed");
        return Exit::Failed.into();
    }
    match rejoin_cli::run(cli).await {
        Ok(exit) => exit.into(),
        // `rejoin … | head`: the reader has closed the pipe.
        Err(error) if reader_left(&error) => Exit::Done.into(),
        Err(error) => {
            eprintln!("rejoin: {error:#}");
            Exit::of(&error).into()
        }
    }
}

/// Our stdout was closed: only [`rejoin_cli::out`] returns a bare broken pipe; those of connections are wrapped.
fn reader_left(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
