//! The binary `wakeline`: the server, and commands that administer its store.
//!
//! # Where it sits
//! At the top: it reads the settings, opens a concrete store and composes the services on it.
//!
//! # Invariants
//! * The exit code is 0 for success, 1 for a failure and 2 for an error in the command line or the
//!   configuration.

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
use crate::config::{ServeArgs, UsageError};
use crate::dlq::DlqCommand;
use crate::hook::HookCommand;
use crate::maintenance::MaintenanceCommand;
use crate::migrate::MigrateCommand;
use crate::queues::QueuesArgs;
use crate::rekey::RekeyArgs;

/// Durable queues, workflows and webhooks on PostgreSQL or SQLite. Consumers are notified of new
/// messages and do not poll.
#[derive(Parser)]
#[command(name = "wakeline", version)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

/// The commands of the binary.
#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "parsed once per process")]
enum CliCommand {
    /// Run the server
    Serve(ServeArgs),
    /// Apply the migrations of the store's schema, or list them
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Print the OpenAPI document
    Openapi,
    /// Create, list, revoke and rotate API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// List audit events, newest first, with their actor, action and target
    Audit(AuditArgs),
    /// List queues with their message counts, or configure a queue
    Queues(QueuesArgs),
    /// List, show, redrive and purge dead letters
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Start, end and show maintenance, which suspends pushes or pops on all nodes of a store
    #[command(subcommand)]
    Maintenance(MaintenanceCommand),
    /// Benchmark the wake modes on the database of a store, without touching its data
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Tools for receivers of webhooks
    #[command(subcommand)]
    Hook(HookCommand),
    /// Print a new encryption key, for WAKELINE_ENCRYPTION_KEYS or an encryption key file
    EncryptionKey {
        /// Id of the key: letters, digits, '-' and '_' [default: random]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
    },
    /// Re-encrypt all encrypted data of a store with the first of the configured encryption keys
    Rekey(RekeyArgs),
}

fn main() -> ExitCode {
    let result = parse().and_then(|cli| check_environment().and_then(|()| run(cli.command)));
    match result {
        Ok(code) => code,
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::from(if is_usage_error(&error) { 2 } else { 1 })
        }
    }
}

/// Parses the command line. The parser itself prints help and syntax errors, and exits.
fn parse() -> anyhow::Result<Cli> {
    let line: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    Cli::try_parse().or_else(|error| match values::explain(&Cli::command(), &error, &line) {
        Some(explained) => Err(explained.into()),
        None => error.exit(),
    })
}

fn check_environment() -> anyhow::Result<()> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    });
    Ok(config::check_environment(&Cli::command(), variables)?)
}

fn run(command: CliCommand) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Serve(args) => serve::run(args),
        CliCommand::Migrate(command) => migrate::run(command),
        CliCommand::Openapi => Ok(print_openapi()),
        CliCommand::Key(command) => access::run_key(command),
        CliCommand::Audit(args) => access::run_audit(args),
        CliCommand::Queues(args) => queues::run(args),
        CliCommand::Dlq(command) => dlq::run(command),
        CliCommand::Maintenance(command) => maintenance::run(command),
        CliCommand::Bench(command) => bench::run(command),
        CliCommand::Hook(command) => hook::run(command),
        CliCommand::EncryptionKey { id } => keys::print_new(id),
        CliCommand::Rekey(args) => rekey::run(args),
    }
}

/// Whether the error is caused by the user's settings. Some of them only a store can check.
fn is_usage_error(error: &anyhow::Error) -> bool {
    let invalid = |error: &StoreError| matches!(error, StoreError::Invalid { .. });
    error.is::<UsageError>() || error.downcast_ref::<StoreError>().is_some_and(invalid)
}

fn print_openapi() -> ExitCode {
    print_line(wakeline_http::openapi().trim_end());
    ExitCode::SUCCESS
}

/// Prints a line for the user. A closed pipe is the reader's choice, not an error.
pub(crate) fn print_line(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints an error to standard error. Unlike `eprintln`, it does not panic if standard error is
/// closed: the exit code still reports the failure.
pub(crate) fn print_error(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "wakeline: {text}");
}
