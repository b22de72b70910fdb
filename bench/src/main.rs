//! Benchmarks: every figure beside its rival, measured in the same run.
//!
//! # Where it sits
//! Beside the product. Starts `wakeline serve` and its rivals as processes, drives them over HTTP
//! and prints Markdown tables; `docs/reference/benchmarks.md` says how to read them.
//!
//! # Invariants
//! * Sides are interleaved, and ratios are taken within a round: a slow moment of the machine
//!   meets both.
//! * Nothing fails because it is slow: figures are printed beside their targets.

mod bare;
mod client;
mod cpu;
mod database;
mod designs;
mod flow;
mod handloop;
mod hints;
mod hook;
mod load;
mod node;
mod peers;
mod plot;
mod queue;
mod setup;
mod soak;
mod table;
mod wake;
mod wire;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::setup::{Setup, SetupArgs};

/// Benchmarks of Wakeline, each beside a rival in the same run.
#[derive(Parser)]
#[command(name = "wakeline-bench", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Push, and pop with ack, over HTTP on both stores, beside a bare handler
    Queue {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: queue::QueueArgs,
    },
    /// How soon a parked pop is answered, beside a hand-written loop; and what each way of waiting
    /// costs, beside what the designs that it is from predict
    Wake {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: wake::WakeArgs,
    },
    /// What telling other nodes costs the writers
    Hints {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: hints::HintsArgs,
    },
    /// Orchestrations on both stores, beside duroxide-pg and duroxide-pg-opt
    Flow {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: flow::FlowArgs,
    },
    /// Run our side of the flow benchmark (it starts it by itself)
    FlowSide(flow::ours::SideArgs),
    /// Webhooks on both stores, to a local receiver
    Hook {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: hook::HookArgs,
    },
    /// Run the receiver of webhooks (the hook benchmark starts it by itself)
    HookSink,
    /// A steady load with retention, and how large both stores are meanwhile
    Soak {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: soak::SoakArgs,
    },
    /// Run the bare handler (the queue benchmark starts it by itself)
    Bare(bare::BareArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wakeline-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match &command {
        Command::Bare(args) => return bare::run(args),
        Command::FlowSide(args) => return flow::ours::run(args),
        Command::HookSink => return hook::sink::run(),
        _ => (),
    }
    // One thread: on a machine that is shared with the servers, a load generator that steals work
    // between threads costs more than it brings.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(bench(command))
}

async fn bench(command: Command) -> Result<()> {
    let setup = match &command {
        Command::Queue { setup, .. }
        | Command::Wake { setup, .. }
        | Command::Hints { setup, .. }
        | Command::Flow { setup, .. }
        | Command::Hook { setup, .. }
        | Command::Soak { setup, .. } => setup,
        Command::Bare(_) | Command::FlowSide(_) | Command::HookSink => {
            bail!("it has a runtime of its own")
        }
    };
    let setup = Setup::make(setup).await?;
    let measured = tokio::select! {
        measured = measure(&setup, &command) => measured,
        ended = told_to_end() => ended.and(Err(anyhow::anyhow!("interrupted"))),
    };
    setup.remove().await?;
    measured
}

/// Waits for a signal that ends the run: what it made is removed all the same.
async fn told_to_end() -> Result<()> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn measure(setup: &Setup, command: &Command) -> Result<()> {
    match command {
        Command::Queue { args, .. } => queue::run(setup, args).await,
        Command::Wake { args, .. } => wake::run(setup, args).await,
        Command::Hints { args, .. } => hints::run(setup, args).await,
        Command::Flow { args, .. } => flow::run(setup, args).await,
        Command::Hook { args, .. } => hook::run(setup, args).await,
        Command::Soak { args, .. } => soak::run(setup, args).await,
        Command::Bare(_) | Command::FlowSide(_) | Command::HookSink => Ok(()),
    }
}
