//! `wakeline-bench hints`: what telling other nodes costs the writers.
//!
//! One node takes pushes. A second one, which listens and has nothing parked, comes and goes: the
//! writers' rate with it and without it, in turn.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::client::Connection;
use crate::cpu::Meter;
use crate::load::{self, Load, Target};
use crate::node::Node;
use crate::setup::Setup;
use crate::table::{Table, count, median, met, spread};
use crate::wire;

const WRITERS: [usize; 2] = [16, 64];
const WARM_UP: Duration = Duration::from_millis(300);
/// Time for a node that came or went to be known.
const SETTLE: Duration = Duration::from_millis(700);
const COST_TARGET: f64 = 2.0;

/// Settings of the hints benchmark.
#[derive(Args)]
pub(crate) struct HintsArgs {
    /// Seconds of each single measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Times that both sides are measured, in turn
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// One round of one second: to see that it works
    #[arg(long)]
    quick: bool,
}

/// One measurement.
struct Figure {
    pushes: f64,
    notifies: f64,
}

#[derive(Default)]
struct Rounds {
    alone: Vec<Figure>,
    heard: Vec<Figure>,
}

/// Runs the benchmark.
pub(crate) async fn run(setup: &Setup, args: &HintsArgs) -> Result<()> {
    let (rounds, seconds) = if args.quick { (1, 1.0) } else { (args.rounds.max(1), args.seconds) };
    setup.introduce(
        "What hints cost the writers",
        &format!(
            "{rounds} rounds of {seconds} s per side, sides in turn, medians. Single pushes over \
             HTTP to one node on PostgreSQL, alone and while a second node listens."
        ),
    );
    let store = setup.postgres("hints");
    let node = Node::serve(&setup.server, &store, &[])?;
    let target = Target {
        address: node.address(),
        meter: Meter { server: node.pid(), postgres: setup.database.postmaster },
        warm_up: WARM_UP,
        window: Duration::try_from_secs_f64(seconds).context("seconds")?,
    };
    let mut figures: Vec<_> = WRITERS.iter().map(|_| Rounds::default()).collect();
    for round in 0..rounds {
        eprintln!("round {round}");
        // The order turns around from round to round: a, b, b, a.
        for turn in 0..2 {
            let heard = (round + turn) % 2 == 1;
            let listener =
                if heard { Some(Node::serve(&setup.server, &store, &[])?) } else { None };
            settle(&target).await?;
            for (writers, rounds) in WRITERS.into_iter().zip(&mut figures) {
                let figure = measure(setup, &target, writers).await?;
                if heard { rounds.heard.push(figure) } else { rounds.alone.push(figure) }
            }
            if let Some(listener) = listener {
                listener.stop()?;
            }
        }
    }
    print(&figures);
    Ok(())
}

/// Lets the node learn, by a push, who else is there.
async fn settle(target: &Target) -> Result<()> {
    let mut connection = Connection::open(target.address).await?;
    for _ in 0..2 {
        connection.call(&wire::push("settle", 0, 1)).await?.expect(201)?;
        tokio::time::sleep(SETTLE / 2).await;
    }
    Ok(())
}

async fn measure(setup: &Setup, target: &Target, writers: usize) -> Result<Figure> {
    let load = Load { queue: format!("hints-{writers}"), batch: 1, connections: writers };
    let before = setup.database.statements().await?;
    let measured = load::push(target, &load).await?;
    let notifies = setup.database.statements().await?.since(&before).notifies;
    let seconds = (target.warm_up + target.window).as_secs_f64();
    Ok(Figure { pushes: measured.requests, notifies: notifies as f64 / seconds })
}

impl Rounds {
    /// What listening cost in each round, in percent of the rate without it.
    fn costs(&self) -> Vec<f64> {
        let pairs = self.alone.iter().zip(&self.heard);
        pairs.map(|(alone, heard)| (1.0 - heard.pushes / alone.pushes) * 100.0).collect()
    }
}

/// A cost below the noise of the machine cannot be told from it.
fn verdict(costs: Vec<f64>) -> String {
    if costs.len() < 4 || spread(costs.clone()) > 2.0 * COST_TARGET {
        return "cannot tell: too noisy".to_owned();
    }
    met(median(costs) < COST_TARGET)
}

fn print(figures: &[Rounds]) {
    let mut table = Table::new(&[
        "writers",
        "alone, push/s",
        "second node listens, push/s",
        "notifications/s alone",
        "notifications/s heard",
        "cost, median of the rounds",
        "spread of the middle half",
        "cost, each round",
        "target",
        "",
    ]);
    for (writers, rounds) in WRITERS.into_iter().zip(figures) {
        let middle = |figures: &[Figure], figure: fn(&Figure) -> f64| {
            count(median(figures.iter().map(figure).collect()))
        };
        let cost = median(rounds.costs());
        table.row(&[
            writers.to_string(),
            middle(&rounds.alone, |figure| figure.pushes),
            middle(&rounds.heard, |figure| figure.pushes),
            middle(&rounds.alone, |figure| figure.notifies),
            middle(&rounds.heard, |figure| figure.notifies),
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
        assert_eq!(verdict(vec![-50.0, 20.0, 1.0, -13.0, 6.0]), "cannot tell: too noisy");
        assert_eq!(verdict(vec![0.5]), "cannot tell: too noisy");
    }
}
