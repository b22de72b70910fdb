//! Benchmarks that compare Wakeline with other implementations, measured in the same run.
//!
//! # Where it sits
//! Beside the product. Starts `wakeline serve` and the implementations to compare with as
//! processes, sends them requests over HTTP and prints Markdown tables;
//! `docs/reference/benchmarks.md` explains how to read them.
//!
//! # Invariants
//! * The sides of a comparison are measured in turn, and ratios are computed within a round, so
//!   that a slow phase of the machine affects both sides.
//! * No benchmark fails because a side is slow: results are printed beside their targets.

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

/// Benchmarks of Wakeline, each compared with another implementation in the same run.
#[derive(Parser)]
#[command(name = "wakeline-bench", version, about)]
struct BenchCli {
    #[command(subcommand)]
    command: BenchSubcommand,
}

#[derive(Subcommand)]
enum BenchSubcommand {
    /// Push, and pop with ack, over HTTP on both stores, compared with a bare handler
    Queue {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: queue::QueueBenchArgs,
    },
    /// How soon a parked pop is answered, compared with a hand-written loop; and the costs of each
    /// way of waiting, compared with the predictions of its design
    Wake {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: wake::WakeBenchArgs,
    },
    /// How much the notification of other nodes slows writers down
    Hints {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: hints::HintsArgs,
    },
    /// Orchestrations on both stores, compared with duroxide-pg and duroxide-pg-opt
    Flow {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: flow::FlowArgs,
    },
    /// Run the Wakeline side of the flow benchmark (started by that benchmark)
    FlowSide(flow::ours::SideArgs),
    /// Webhooks on both stores, to a local receiver
    Hook {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: hook::HookBenchArgs,
    },
    /// Run the receiver of webhooks (started by the hook benchmark)
    HookSink,
    /// A constant load with retention, and the sizes of both stores meanwhile
    Soak {
        #[command(flatten)]
        setup: SetupArgs,
        #[command(flatten)]
        args: soak::SoakArgs,
    },
    /// Run the bare handler (started by the queue benchmark)
    Bare(bare::BareArgs),
}

fn main() -> ExitCode {
    match run(BenchCli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wakeline-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: BenchSubcommand) -> Result<()> {
    match &command {
        BenchSubcommand::Bare(args) => return bare::run(args),
        BenchSubcommand::FlowSide(args) => return flow::ours::run(args),
        BenchSubcommand::HookSink => return hook::sink::run(),
        _ => (),
    }
    // The load generator has one thread: on a machine that is shared with the servers, work
    // stealing between threads costs more than it gains.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(bench(command))
}

async fn bench(command: BenchSubcommand) -> Result<()> {
    let setup = match &command {
        BenchSubcommand::Queue { setup, .. }
        | BenchSubcommand::Wake { setup, .. }
        | BenchSubcommand::Hints { setup, .. }
        | BenchSubcommand::Flow { setup, .. }
        | BenchSubcommand::Hook { setup, .. }
        | BenchSubcommand::Soak { setup, .. } => setup,
        BenchSubcommand::Bare(_) | BenchSubcommand::FlowSide(_) | BenchSubcommand::HookSink => {
            bail!("this command has a runtime of its own")
        }
    };
    let setup = Setup::create(setup).await?;
    let measured = tokio::select! {
        measured = measure(&setup, &command) => measured,
        ended = wait_for_signal() => ended.and(Err(anyhow::anyhow!("interrupted"))),
    };
    setup.remove().await?;
    measured
}

/// Waits for a signal that ends the run. The database of the run is removed all the same.
async fn wait_for_signal() -> Result<()> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn measure(setup: &Setup, command: &BenchSubcommand) -> Result<()> {
    match command {
        BenchSubcommand::Queue { args, .. } => queue::run(setup, args).await,
        BenchSubcommand::Wake { args, .. } => wake::run(setup, args).await,
        BenchSubcommand::Hints { args, .. } => hints::run(setup, args).await,
        BenchSubcommand::Flow { args, .. } => flow::run(setup, args).await,
        BenchSubcommand::Hook { args, .. } => hook::run(setup, args).await,
        BenchSubcommand::Soak { args, .. } => soak::run(setup, args).await,
        BenchSubcommand::Bare(_) | BenchSubcommand::FlowSide(_) | BenchSubcommand::HookSink => {
            Ok(())
        }
    }
}
