//! `wakeline bench wake`: what each wake mode costs and how soon it picks messages up, on the
//! machine and the database of the user.
//!
//! # Where it sits
//! Runs the queue service twice in this process, as two nodes would: consumers wait on one, and
//! messages are pushed to the other. It needs no server and no rights beyond those of a server.
//!
//! # Invariants
//! * Nothing is read from or written to an existing store: see [`place`].
//! * Claims and sweeps are counted by the service itself.

mod measure;
mod place;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use wakeline_wake::WakeMode;

use self::measure::Measured;
use self::place::Place;
use crate::access::{Common, print};
use crate::complain;
use crate::config::ConfigMistake;

/// What to measure.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BenchCommand {
    /// Idle claims, claims of a message and pick-up latency of each wake mode
    ///
    /// Works in a schema of its own on the PostgreSQL of --store (the role must be able to create
    /// schemas), or in a folder of its own beside the SQLite file, and removes it at the end. An
    /// existing store is neither read nor changed, but servers on the same machine are slowed
    /// down meanwhile.
    Wake(WakeArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WakeArgs {
    /// Only this mode: fused, compete, broadcast or poll; can be repeated [default: all]
    #[arg(long = "mode", value_name = "MODE")]
    modes: Vec<WakeMode>,
    /// Consumers that are parked on one queue
    #[arg(long, default_value = "100", value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Messages that are pushed in each mode, one at a time
    #[arg(long, default_value = "100", value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pushes: u32,
    /// Seconds for which each mode is left idle
    #[arg(long, default_value = "5", value_name = "SECONDS", allow_negative_numbers = true)]
    idle_seconds: f64,
    #[command(flatten)]
    common: Common,
}

impl WakeArgs {
    fn modes(&self) -> Vec<WakeMode> {
        let all = || {
            let names = ["fused", "compete", "broadcast", "poll"].into_iter();
            names.map(|name| name.parse().expect("the name of a mode")).collect()
        };
        if self.modes.is_empty() { all() } else { self.modes.clone() }
    }

    fn idle(&self) -> Result<Duration, ConfigMistake> {
        let wrong = || {
            let text = format!("--idle-seconds must be from 0 to 3600, not {}", self.idle_seconds);
            ConfigMistake(text)
        };
        let span = Duration::try_from_secs_f64(self.idle_seconds).map_err(|_| wrong())?;
        if span > Duration::from_secs(3600) { Err(wrong()) } else { Ok(span) }
    }
}

/// Runs a benchmark.
pub(crate) fn run(command: BenchCommand) -> anyhow::Result<ExitCode> {
    let BenchCommand::Wake(args) = command;
    let idle = args.idle()?;
    let choice = args.common.place.choice()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let place = Place::make(&choice)?;
        complain(&format!("works in {place}, which is removed at the end"));
        let measured = tokio::select! {
            measured = wake(&place, &args, idle) => measured,
            _ = terminate.recv() => Err(anyhow::anyhow!("interrupted")),
            _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
        };
        let removed = place.remove().await;
        // The first error counts.
        show(&args.common, &measured?);
        removed.map(|()| ExitCode::SUCCESS)
    })
}

async fn wake(place: &Place, args: &WakeArgs, idle: Duration) -> anyhow::Result<Vec<Measured>> {
    let mut all = Vec::new();
    for mode in args.modes() {
        all.push(measure::mode(place, mode, (args.clients, args.pushes, idle)).await?);
    }
    Ok(all)
}

fn show(common: &Common, all: &[Measured]) {
    let title = line(["MODE", "CLIENTS", "CLAIMS/S", "SWEEPS", "CLAIMS/PUSH", "P50", "P99", "MAX"]);
    let millis = |micros: u64| format!("{:.2}ms", micros as f64 / 1000.0);
    let lines = all.iter().map(|one| {
        let cells = [
            one.mode.name().to_owned(),
            one.clients.to_string(),
            format!("{:.2}", one.idle_claims_per_second()),
            one.idle_sweeps.to_string(),
            format!("{:.2}", one.claims_per_push()),
            millis(one.quantile(0.5)),
            millis(one.quantile(0.99)),
            millis(one.quantile(1.0)),
        ];
        line(cells.each_ref().map(String::as_str))
    });
    print(common, all.iter().map(value), std::iter::once(title).chain(lines));
    for one in all {
        if let Some(reason) = &one.degraded {
            complain(&format!("{} was degraded, and polled: {reason}", one.mode.name()));
        }
    }
}

fn line(cells: [&str; 8]) -> String {
    let [mode, rest @ ..] = cells;
    rest.iter().fold(format!("{mode:10}"), |line, cell| format!("{line} {cell:>11}"))
}

fn value(one: &Measured) -> Value {
    json!({
        "mode": one.mode.name(),
        "clients": one.clients,
        "idleSeconds": one.idle.as_secs_f64(),
        "idleClaims": one.idle_claims,
        "idleSweeps": one.idle_sweeps,
        "pushes": one.pick_ups.len(),
        "claims": one.claims,
        "degraded": one.degraded,
        "pickUpMicros": {
            "p50": one.quantile(0.5),
            "p99": one.quantile(0.99),
            "max": one.quantile(1.0),
        },
    })
}
