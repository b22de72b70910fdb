//! `wakeline hook`: tools for those who receive webhooks.

mod client;
mod listen;

use std::process::ExitCode;

use clap::Subcommand;

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum HookCommand {
    /// Fetch an application's events and post each to a URL of this machine, until ctrl-c
    Listen(listen::ListenArgs),
}

/// Runs a command.
pub(crate) fn run(command: HookCommand) -> anyhow::Result<ExitCode> {
    match command {
        HookCommand::Listen(args) => listen::run(args),
    }
}
