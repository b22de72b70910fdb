//! The tables of the flow benchmark.

use super::serial::{ACTIVITIES, EVENTS, Serial};
use super::side::SideName;
use super::{DriveOutcome, FIVE, FlowArgs, FlowCost, ONE, Plan, STRESS_CLIENTS};
use crate::peers::{ABSURD_STEPS, LABEL};
use crate::table::{Table, count, median, met, met_in_rounds, millis};

/// Limit of the design for the time from a start to its completion on an idle system, in
/// microseconds.
const P50_TARGET: u64 = 6_000;
/// Limit of the design for the commits of an orchestration with one activity.
const COMMITS_TARGET: f64 = 4.0;
/// The target with five activities, as a multiple of the rate of the peers.
const TIMES_TARGET: f64 = 10.0;

/// The target with one activity, as a multiple of the rate of Absurd.
const ABSURD_TIMES: f64 = 5.0;

/// The results of all sides.
#[derive(Default)]
pub(super) struct FlowReport {
    /// Rates by side and plan, in the order of the rounds.
    pub(super) rates: Vec<(SideName, Plan, DriveOutcome)>,
    /// Latencies of single orchestrations.
    pub(super) latencies: Vec<(SideName, DriveOutcome)>,
    /// Costs in PostgreSQL.
    pub(super) costs: Vec<(SideName, FlowCost)>,
    /// Results of the stress test.
    pub(super) stress: Vec<(SideName, DriveOutcome)>,
    /// Serial activities, round by round.
    pub(super) serial: Vec<(SideName, Vec<Serial>)>,
}

impl FlowReport {
    /// Prints all tables.
    pub(super) fn print(&self, args: &FlowArgs) {
        self.print_rates(args.concurrent.max(1));
        self.print_latencies();
        self.print_costs();
        self.print_stress(args.stress_seconds);
        self.print_serial();
        self.print_targets();
    }

    fn rounds(&self, name: SideName, plan: Plan) -> Vec<&DriveOutcome> {
        let of = |(side, what, _): &&(SideName, Plan, DriveOutcome)| *side == name && *what == plan;
        self.rates.iter().filter(of).map(|(_, _, outcome)| outcome).collect()
    }

    fn values(&self, name: SideName, plan: Plan) -> Vec<f64> {
        self.rounds(name, plan).iter().map(|outcome| outcome.rate()).collect()
    }

    /// The ratio of the rate of one side to that of another, for each round.
    fn ratios(&self, own: SideName, other: SideName, plan: Plan) -> Vec<f64> {
        let (own, other) = (self.values(own, plan), self.values(other, plan));
        own.into_iter().zip(other).map(|(own, other)| own / other).collect()
    }

    fn print_rates(&self, concurrent: usize) {
        let mut table = Table::new(&[
            "side",
            "activities",
            "orchestrations/s",
            "each round",
            "failed",
            "ratio of wakeline, PostgreSQL, to it",
            "each round",
        ]);
        for plan in [ONE, FIVE] {
            for name in SideName::ALL {
                let values = self.values(name, plan);
                let ratios = self.ratios(SideName::Postgres, name, plan);
                let failed: u64 = self.rounds(name, plan).iter().map(|round| round.failed).sum();
                table.row(&[
                    name.text().to_owned(),
                    plan.activities.to_string(),
                    count(median(values.clone())),
                    each(&values, count),
                    failed.to_string(),
                    format!("{:.1}x", median(ratios.clone())),
                    each(&ratios, |ratio| format!("{ratio:.1}")),
                ]);
            }
        }
        table.print(&format!("Orchestrations per second, {concurrent} at a time"));
    }

    fn print_latencies(&self) {
        let mut table = Table::new(&[
            "side",
            "samples",
            "to the answer to the client: p50",
            "p99",
            "to the end of the code: p50",
            "p99",
            "p50, ratio to wakeline, PostgreSQL",
        ]);
        let own = find(&self.latencies, SideName::Postgres);
        let own = own.map_or(0, |outcome| at(&outcome.answered_us, 0.5));
        for (name, outcome) in &self.latencies {
            table.row(&[
                name.text().to_owned(),
                outcome.completed.to_string(),
                millis(at(&outcome.answered_us, 0.5)),
                millis(at(&outcome.answered_us, 0.99)),
                millis(at(&outcome.ended_us, 0.5)),
                millis(at(&outcome.ended_us, 0.99)),
                format!("{:.1}x", at(&outcome.answered_us, 0.5) as f64 / own as f64),
            ]);
        }
        table.print(
            "From start to completion: one activity, one orchestration at a time, idle system",
        );
    }

    fn print_costs(&self) {
        let mut table = Table::new(&["side", "commits", "statements"]);
        for (name, cost) in &self.costs {
            table.row(&[
                name.text().to_owned(),
                format!("{:.2}", cost.commits),
                format!("{:.2}", cost.statements),
            ]);
        }
        table.print(
            "Costs in PostgreSQL of an orchestration with one activity, without a waiting client",
        );
    }

    fn print_stress(&self, seconds: f64) {
        let mut table = Table::new(&[
            "side",
            "completed",
            "failed",
            "orchestrations/s",
            "activities/s",
            "p50",
            "p99",
            "ratio of wakeline, PostgreSQL, to it",
        ]);
        let own = find(&self.stress, SideName::Postgres).map_or(f64::NAN, DriveOutcome::rate);
        for (name, outcome) in &self.stress {
            table.row(&[
                name.text().to_owned(),
                outcome.completed.to_string(),
                outcome.failed.to_string(),
                count(outcome.rate()),
                count(outcome.rate() * 5.0),
                millis(at(&outcome.answered_us, 0.5)),
                millis(at(&outcome.answered_us, 0.99)),
                format!("{:.1}x", own / outcome.rate()),
            ]);
        }
        table.print(&format!(
            "Stress: {STRESS_CLIENTS} orchestrations at a time for {seconds} s, five activities of \
             10 ms"
        ));
    }

    fn print_serial(&self) {
        let after = format!("after {EVENTS} events");
        let mut table = Table::new(&["side", "fresh", &after, "ratio", "each round"]);
        for (name, rounds) in &self.serial {
            let fresh = median(rounds.iter().map(|round| round.fresh).collect());
            let long = median(rounds.iter().map(|round| round.after_events).collect());
            let ratios: Vec<f64> =
                rounds.iter().map(|round| round.after_events / round.fresh).collect();
            table.row(&[
                name.text().to_owned(),
                format!("{:.0} ms", fresh * 1e3),
                format!("{:.0} ms", long * 1e3),
                format!("{:.2}", median(ratios.clone())),
                each(&ratios, |ratio| format!("{ratio:.2}")),
            ]);
        }
        table.print(&format!("{ACTIVITIES} activities, one after the other"));
    }

    fn print_targets(&self) {
        let mut table = Table::new(&["what", "measured", "target", "result"]);
        for name in [SideName::Postgres, SideName::Sqlite] {
            let Some(outcome) = find(&self.latencies, name) else { continue };
            let p50 = at(&outcome.answered_us, 0.5);
            table.row(&[
                format!("{}: start to completion, idle, p50", name.text()),
                millis(p50),
                format!("below {}", millis(P50_TARGET)),
                met(p50 < P50_TARGET),
            ]);
        }
        let own = SideName::Postgres;
        for peer in SideName::PEERS {
            let ratios = self.ratios(own, peer, FIVE);
            table.row(&[
                format!("{}: five activities, ratio to {}", own.text(), peer.text()),
                format!("{:.1}x", median(ratios.clone())),
                format!("{TIMES_TARGET:.0}x"),
                met_in_rounds(&ratios, |ratio| ratio >= TIMES_TARGET),
            ]);
        }
        if let Some(cost) = find(&self.costs, SideName::Postgres) {
            table.row(&[
                "commits of a one-activity orchestration".to_owned(),
                format!("{:.2}", cost.commits),
                format!("at most {COMMITS_TARGET:.0}"),
                // The count over many orchestrations includes the commits for the statistics of the
                // server.
                met(cost.commits < COMMITS_TARGET + 0.1),
            ]);
        }
        let rates = self.values(own, ONE);
        let absurd = format!("Absurd with one step at {ABSURD_STEPS:.0}/s ({LABEL})");
        table.row(&[
            format!("{}: one activity, ratio to {absurd}", own.text()),
            format!("{:.1}x", median(rates.clone()) / ABSURD_STEPS),
            format!("{ABSURD_TIMES:.0}x"),
            met_in_rounds(&rates, |rate| rate >= ABSURD_TIMES * ABSURD_STEPS),
        ]);
        for (name, outcome) in &self.stress {
            if SideName::PEERS.contains(name) {
                continue;
            }
            table.row(&[
                format!("{}: failed under stress", name.text()),
                outcome.failed.to_string(),
                "none".to_owned(),
                met(outcome.failed == 0 && outcome.completed > 0),
            ]);
        }
        table.print("Comparison with the targets");
    }
}

fn find<T>(values: &[(SideName, T)], name: SideName) -> Option<&T> {
    values.iter().find(|(side, _)| *side == name).map(|(_, value)| value)
}

fn each(values: &[f64], text: impl Fn(f64) -> String) -> String {
    values.iter().map(|value| text(*value)).collect::<Vec<_>>().join(" ")
}

/// Returns a quantile of sorted values, or 0 if there are none.
pub(crate) fn at(values: &[u64], quantile: f64) -> u64 {
    let index = (values.len() as f64 * quantile) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!((at(&values, 0.5), at(&values, 0.99), at(&values, 1.0)), (51, 100, 100));
        assert_eq!(at(&[], 0.5), 0);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let outcome =
            |completed| DriveOutcome { completed, seconds: 1.0, ..DriveOutcome::default() };
        let report = FlowReport {
            rates: vec![
                (SideName::Postgres, FIVE, outcome(100)),
                (SideName::Pg, FIVE, outcome(10)),
                (SideName::Pg, FIVE, outcome(20)),
                (SideName::Postgres, FIVE, outcome(400)),
                (SideName::Postgres, ONE, outcome(7)),
            ],
            ..FlowReport::default()
        };
        assert_eq!(report.ratios(SideName::Postgres, SideName::Pg, FIVE), [10.0, 20.0]);
    }
}
