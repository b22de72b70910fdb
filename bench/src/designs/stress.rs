//! The stress test of the designs: 20 workflows at a time for 30 s, each with five activities of 10
//! ms, and four dispatchers of each kind.

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::flow::{DriveOutcome, Job, SLOW, STRESS_CLIENTS, outcome_of, quantile};
use crate::node::BenchStore;
use crate::setup::Setup;
use crate::table::{Table, count, met, millis, print_line};
use crate::wake::WakeBenchArgs;

const MODES: [&str; 4] = ["fused", "compete", "broadcast", "poll"];

/// Runs the test in all modes on PostgreSQL, and in the default mode on SQLite.
pub(super) async fn run(setup: &Setup, args: &WakeBenchArgs) -> Result<()> {
    let mut rows = Vec::new();
    for mode in MODES {
        let store = setup.postgres(&format!("stress_{mode}"));
        rows.push((mode, store.kind(), side(&store, mode, args.stress_seconds).await?));
    }
    let store = setup.sqlite("stress.db");
    rows.push((MODES[0], store.kind(), side(&store, MODES[0], args.stress_seconds).await?));
    print(&rows, args.stress_seconds);
    Ok(())
}

/// Runs one test in a separate process, as in the flow benchmark.
async fn side(store: &BenchStore, mode: &str, seconds: f64) -> Result<DriveOutcome> {
    let job = Job::Stress { plan: SLOW, clients: STRESS_CLIENTS, seconds };
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("flow-side").args(store.arguments()).arg(format!("--wake-mode={mode}"));
    command.arg(serde_json::to_string(&job)?);
    outcome_of(command).await
}

fn print(rows: &[(&str, &str, DriveOutcome)], seconds: f64) {
    let mut table = Table::new(&[
        "wake mode",
        "store",
        "completed",
        "failed",
        "predicted",
        "",
        "workflows/s",
        "p50",
        "p99",
    ]);
    for (mode, store, outcome) in rows {
        table.row(&[
            (*mode).to_owned(),
            (*store).to_owned(),
            count(outcome.completed as f64),
            outcome.failed.to_string(),
            "none failed, some completed".to_owned(),
            met(outcome.failed == 0 && outcome.completed > 0),
            format!("{:.1}", outcome.rate()),
            millis(quantile(&outcome.answered_us, 0.5)),
            millis(quantile(&outcome.answered_us, 0.99)),
        ]);
    }
    table.print(&format!(
        "Stress: {STRESS_CLIENTS} workflows at a time for {seconds} s, five activities of 10 ms"
    ));
    print_line(
        "\nThe set-up of Optimized Polling, with four dispatchers of workflows and four of \
         activities, which can do 80 workflows per second at most. Times are measured from a start \
         to the answer to the client. In poll mode each step waits for the next claim.",
    );
}
