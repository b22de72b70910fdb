//! `wakeline-bench hints`: how much the notification of other nodes slows writers down.
//!
//! One node accepts pushes. A second node, which listens without parked pops, is started and
//! stopped. The rate of the writers is measured with it and without it, in turn.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::client::BenchConnection;
use crate::cpu::Meter;
use crate::load::{self, Load, LoadTarget};
use crate::node::Node;
use crate::setup::Setup;
use crate::table::{Table, count, median, met, spread};
use crate::wire;

const WRITERS: [usize; 2] = [16, 64];
const WARM_UP: Duration = Duration::from_millis(300);
/// Time until the first node knows that the second node was started or stopped.
const SETTLE: Duration = Duration::from_millis(700);
const COST_TARGET: f64 = 2.0;

/// Settings of the hints benchmark.
#[derive(Args)]
pub(crate) struct HintsArgs {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Number of measurements of both sides, in turn
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Measure one round of one second, to check that the benchmark works
    #[arg(long)]
    quick: bool,
}

/// The result of one measurement, per second.
struct Measurement {
    pushes: f64,
    notifies: f64,
}

/// The measurements of all rounds.
#[derive(Default)]
struct HintRounds {
    alone: Vec<Measurement>,
    listening: Vec<Measurement>,
}

/// Runs the benchmark.
pub(crate) async fn run(setup: &Setup, args: &HintsArgs) -> Result<()> {
    let (rounds, seconds) = if args.quick { (1, 1.0) } else { (args.rounds.max(1), args.seconds) };
    setup.print_introduction(
        "Cost of hints for writers",
        &format!(
            "{rounds} rounds of {seconds} s per side, sides in turn, medians. Single pushes over \
             HTTP to one node on PostgreSQL, alone and while a second node listens."
        ),
    );
    let store = setup.postgres("hints");
    let node = Node::serve(&setup.server, &store, &[])?;
    let target = LoadTarget {
        address: node.address(),
        meter: Meter { server: node.pid(), postgres: setup.database.postmaster },
        warm_up: WARM_UP,
        window: Duration::try_from_secs_f64(seconds).context("seconds")?,
    };
    let mut results: Vec<_> = WRITERS.iter().map(|_| HintRounds::default()).collect();
    for round in 0..rounds {
        eprintln!("round {round}");
        // The order of the sides is reversed with each round: a, b, b, a.
        for turn in 0..2 {
            let listening = (round + turn) % 2 == 1;
            let listener =
                if listening { Some(Node::serve(&setup.server, &store, &[])?) } else { None };
            settle(&target).await?;
            for (writers, rounds) in WRITERS.into_iter().zip(&mut results) {
                let measurement = measure(setup, &target, writers).await?;
                if listening {
                    rounds.listening.push(measurement)
                } else {
                    rounds.alone.push(measurement)
                }
            }
            if let Some(listener) = listener {
                listener.stop()?;
            }
        }
    }
    print(&results);
    Ok(())
}

/// Pushes messages so that the node notices which other nodes exist.
async fn settle(target: &LoadTarget) -> Result<()> {
    let mut connection = BenchConnection::open(target.address).await?;
    for _ in 0..2 {
        connection.call(&wire::push("settle", 0, 1)).await?.expect(201)?;
        tokio::time::sleep(SETTLE / 2).await;
    }
    Ok(())
}

async fn measure(setup: &Setup, target: &LoadTarget, writers: usize) -> Result<Measurement> {
    let load = Load { queue: format!("hints-{writers}"), batch: 1, connections: writers };
    let before = setup.database.statements().await?;
    let measured = load::push(target, &load).await?;
    let notifies = setup.database.statements().await?.since(&before).notifies;
    let seconds = (target.warm_up + target.window).as_secs_f64();
    Ok(Measurement { pushes: measured.requests, notifies: notifies as f64 / seconds })
}

impl HintRounds {
    /// The loss of push rate in each round because of the second node, in percent.
    fn costs(&self) -> Vec<f64> {
        let pairs = self.alone.iter().zip(&self.listening);
        pairs.map(|(alone, listening)| (1.0 - listening.pushes / alone.pushes) * 100.0).collect()
    }
}

/// Judges the costs. Costs below the noise of the machine cannot be judged.
fn verdict(costs: Vec<f64>) -> String {
    if costs.len() < 4 || spread(costs.clone()) > 2.0 * COST_TARGET {
        return "unknown: too noisy".to_owned();
    }
    met(median(costs) < COST_TARGET)
}

fn print(results: &[HintRounds]) {
    let mut table = Table::new(&[
        "writers",
        "alone, push/s",
        "second node listens, push/s",
        "notifications/s alone",
        "notifications/s with a listener",
        "cost, median of the rounds",
        "spread of the middle half",
        "cost, each round",
        "target",
        "",
    ]);
    for (writers, rounds) in WRITERS.into_iter().zip(results) {
        let median_of = |measurements: &[Measurement], value: fn(&Measurement) -> f64| {
            count(median(measurements.iter().map(value).collect()))
        };
        let cost = median(rounds.costs());
        table.row(&[
            writers.to_string(),
            median_of(&rounds.alone, |measurement| measurement.pushes),
            median_of(&rounds.listening, |measurement| measurement.pushes),
            median_of(&rounds.alone, |measurement| measurement.notifies),
            median_of(&rounds.listening, |measurement| measurement.notifies),
            format!("{cost:.1} %"),
            format!("{:.1}", spread(rounds.costs())),
            rounds.costs().iter().map(|c| format!("{c:.1}")).collect::<Vec<_>>().join(" "),
            format!("under {COST_TARGET} %"),
            verdict(rounds.costs()),
        ]);
    }
    table.print("Cost of hints");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_not_taken_for_a_verdict() {
        assert_eq!(verdict(vec![0.5, 1.0, 0.8, 1.5, 0.2]), "met");
        assert_eq!(verdict(vec![4.5, 5.0, 4.8, 5.5, 4.2]), "not met");
        assert_eq!(verdict(vec![-50.0, 20.0, 1.0, -13.0, 6.0]), "unknown: too noisy");
        assert_eq!(verdict(vec![0.5]), "unknown: too noisy");
    }
}
