//! `wakeline hook`: tools for receivers of webhooks.

mod client;
mod listen;

use std::process::ExitCode;

use clap::Subcommand;

/// Subcommands of `wakeline hook`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum HookCommand {
    /// Forward the events of an application to a URL on this machine, until ctrl-c
    Listen(listen::ListenArgs),
}

/// Runs `wakeline hook`.
pub(crate) fn run(command: HookCommand) -> anyhow::Result<ExitCode> {
    match command {
        HookCommand::Listen(args) => listen::run(args),
    }
}
