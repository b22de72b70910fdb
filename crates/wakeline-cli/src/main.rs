//! The binary `wakeline`: the server, its migrations, its OpenAPI document.
//!
//! # Where it sits
//! At the top: the only place that names a concrete store and puts the parts together.
//!
//! # Invariants
//! * Exit code 0 is success, 1 a failure at work, 2 a mistake in the command line or configuration.

mod config;
mod limits;
mod logs;
mod migrate;
mod serve;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{ConfigMistake, ServeArgs};
use crate::migrate::MigrateCommand;

/// Durable queues on PostgreSQL or SQLite, with consumers that wait without polling.
#[derive(Parser)]
#[command(name = "wakeline", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "parsed once per process")]
enum Command {
    /// Run the server
    Serve(ServeArgs),
    /// Bring the store's schema up to date, or say how it stands
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Print the OpenAPI document
    Openapi,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Migrate(command) => migrate::run(command),
        Command::Openapi => print_openapi(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let mistake = error.downcast_ref::<ConfigMistake>().is_some();
            eprintln!("wakeline: {error:#}");
            ExitCode::from(if mistake { 2 } else { 1 })
        }
    }
}

fn print_openapi() -> anyhow::Result<ExitCode> {
    let document = serde_json::to_string_pretty(&wakeline_http::openapi())?;
    say(&document);
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for the user. A closed pipe is the reader's choice, not an error.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{line}");
}
