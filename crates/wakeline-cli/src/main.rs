//! The binary `wakeline`: the server, its migrations, its OpenAPI document, tools for webhooks.
//!
//! # Where it sits
//! At the top: the only place that names a concrete store and puts the parts together.
//!
//! # Invariants
//! * Exit code 0 is success, 1 a failure at work, 2 a mistake in the command line or configuration.

mod access;
mod bench;
mod config;
mod dlq;
mod hook;
mod keys;
mod limits;
mod logs;
mod maintenance;
mod migrate;
mod queues;
mod rekey;
mod retention;
mod serve;
mod store;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use wakeline_store::StoreError;

use crate::access::{AuditArgs, KeyCommand};
use crate::bench::BenchCommand;
use crate::config::{ConfigMistake, ServeArgs};
use crate::dlq::DlqCommand;
use crate::hook::HookCommand;
use crate::maintenance::MaintenanceCommand;
use crate::migrate::MigrateCommand;
use crate::queues::QueuesArgs;
use crate::rekey::RekeyArgs;

/// Durable queues, workflows and webhooks on PostgreSQL or SQLite. Consumers are notified, without
/// polling.
#[derive(Parser)]
#[command(name = "wakeline", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "parsed once per process")]
enum Command {
    /// Run the server
    Serve(ServeArgs),
    /// Bring the store's schema up to date, or show which migrations are applied
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Print the OpenAPI document
    Openapi,
    /// Create, list, revoke and rotate API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// List audit events, newest first: who did what to which target
    Audit(AuditArgs),
    /// List queues with message counts (pending, processing, completed, dead, lost); configure one
    Queues(QueuesArgs),
    /// List, show, redrive and purge dead letters
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Hold or refuse pushes and pause pops, on all nodes of a store
    #[command(subcommand)]
    Maintenance(MaintenanceCommand),
    /// Measure wake modes on the PostgreSQL or the disk of a store, beside its data
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Tools for those who receive webhooks
    #[command(subcommand)]
    Hook(HookCommand),
    /// Print a new key for encryption at rest, for WAKELINE_ENCRYPTION_KEYS or a key file
    EncryptionKey {
        /// Its id: letters, digits, '-' and '_' [default: random]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
    },
    /// Re-encrypt all encrypted data with the first key
    Rekey(RekeyArgs),
}

fn main() -> ExitCode {
    let result = parse().and_then(|cli| check_environment().and_then(|()| run(cli.command)));
    match result {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(if is_mistake(&error) { 2 } else { 1 })
        }
    }
}

/// The command line. Help, and what is wrong with its form, is printed by the parser.
fn parse() -> anyhow::Result<Cli> {
    let line: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    Cli::try_parse().or_else(|error| match values::mistake(&Cli::command(), &error, &line) {
        Some(mistake) => Err(mistake.into()),
        None => error.exit(),
    })
}

fn check_environment() -> anyhow::Result<()> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    });
    Ok(config::check_environment(&Cli::command(), variables)?)
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Migrate(command) => migrate::run(command),
        Command::Openapi => Ok(print_openapi()),
        Command::Key(command) => access::run_key(command),
        Command::Audit(args) => access::run_audit(args),
        Command::Queues(args) => queues::run(args),
        Command::Dlq(command) => dlq::run(command),
        Command::Maintenance(command) => maintenance::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Hook(command) => hook::run(command),
        Command::EncryptionKey { id } => keys::print_new(id),
        Command::Rekey(args) => rekey::run(args),
    }
}

/// Whether the user's settings are to blame: some of them only a store can judge.
fn is_mistake(error: &anyhow::Error) -> bool {
    let blamed = |error: &StoreError| matches!(error, StoreError::Invalid { .. });
    error.is::<ConfigMistake>() || error.downcast_ref::<StoreError>().is_some_and(blamed)
}

fn print_openapi() -> ExitCode {
    say(wakeline_http::openapi().trim_end());
    ExitCode::SUCCESS
}

/// Prints a line for the user. A closed pipe is the reader's choice, not an error.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Reports a mistake or a failure on standard error. Unlike `eprintln`, it does not panic if that
/// is closed: the exit code still tells.
pub(crate) fn complain(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "wakeline: {text}");
}
