//! The tables of the flow benchmark.

use super::serial::{ACTIVITIES, EVENTS, Serial};
use super::side::SideName;
use super::{Cost, FIVE, FlowArgs, ONE, Outcome, Plan, STRESS_CLIENTS};
use crate::peers::{ABSURD_STEPS, LABEL};
use crate::table::{Table, count, median, met, met_in_rounds, millis};

/// The design's limit from a start to its completion on an idle system, in microseconds.
const P50_TARGET: u64 = 6_000;
/// The design's limit for one activity.
const COMMITS_TARGET: f64 = 4.0;
/// How many times the peers' rate is the target, with five activities.
const TIMES_TARGET: f64 = 10.0;

/// How many times Absurd's rate is the target, with one activity.
const ABSURD_TIMES: f64 = 5.0;

/// What was measured of all sides.
#[derive(Default)]
pub(super) struct Report {
    /// Rates, in the order of the rounds.
    pub(super) rates: Vec<(SideName, Plan, Outcome)>,
    /// Latencies one at a time.
    pub(super) latencies: Vec<(SideName, Outcome)>,
    /// Costs in PostgreSQL.
    pub(super) costs: Vec<(SideName, Cost)>,
    /// The stress set-up.
    pub(super) stress: Vec<(SideName, Outcome)>,
    /// Serial activities, round by round.
    pub(super) serial: Vec<(SideName, Vec<Serial>)>,
}

impl Report {
    /// Prints all tables.
    pub(super) fn print(&self, args: &FlowArgs) {
        self.print_rates(args.under_way.max(1));
        self.print_latencies();
        self.print_costs();
        self.print_stress(args.stress_seconds);
        self.print_serial();
        self.print_targets();
    }

    fn rounds(&self, name: SideName, plan: Plan) -> Vec<&Outcome> {
        let of = |(side, what, _): &&(SideName, Plan, Outcome)| *side == name && *what == plan;
        self.rates.iter().filter(of).map(|(_, _, outcome)| outcome).collect()
    }

    fn figures(&self, name: SideName, plan: Plan) -> Vec<f64> {
        self.rounds(name, plan).iter().map(|outcome| outcome.rate()).collect()
    }

    /// The rate of one of ours to that of a side, round by round.
    fn ratios(&self, own: SideName, other: SideName, plan: Plan) -> Vec<f64> {
        let (own, other) = (self.figures(own, plan), self.figures(other, plan));
        own.into_iter().zip(other).map(|(own, other)| own / other).collect()
    }

    fn print_rates(&self, under_way: usize) {
        let mut table = Table::new(&[
            "side",
            "activities",
            "orchestrations/s",
            "each round",
            "failed",
            "ours on PostgreSQL to it",
            "each round",
        ]);
        for plan in [ONE, FIVE] {
            for name in SideName::ALL {
                let figures = self.figures(name, plan);
                let ratios = self.ratios(SideName::Postgres, name, plan);
                let failed: u64 = self.rounds(name, plan).iter().map(|round| round.failed).sum();
                table.row(&[
                    name.text().to_owned(),
                    plan.activities.to_string(),
                    count(median(figures.clone())),
                    each(&figures, count),
                    failed.to_string(),
                    format!("{:.1}x", median(ratios.clone())),
                    each(&ratios, |ratio| format!("{ratio:.1}")),
                ]);
            }
        }
        table.print(&format!("Orchestrations a second, {under_way} under way"));
    }

    fn print_latencies(&self) {
        let mut table = Table::new(&[
            "side",
            "samples",
            "to the client's answer: p50",
            "p99",
            "to the end of the code: p50",
            "p99",
            "p50 to ours on PostgreSQL",
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
        table.print("From start to complete: one activity, one at a time, idle system");
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
        table.print("What a one-activity orchestration costs PostgreSQL, no client waiting");
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
            "ours on PostgreSQL to it",
        ]);
        let own = find(&self.stress, SideName::Postgres).map_or(f64::NAN, Outcome::rate);
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
            "Stress: {STRESS_CLIENTS} at once for {seconds} s, five activities of 10 ms"
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
        let mut table = Table::new(&["what", "figure", "target", ""]);
        for name in [SideName::Postgres, SideName::Sqlite] {
            let Some(outcome) = find(&self.latencies, name) else { continue };
            let p50 = at(&outcome.answered_us, 0.5);
            table.row(&[
                format!("{}: start to complete, idle, p50", name.text()),
                millis(p50),
                format!("below {}", millis(P50_TARGET)),
                met(p50 < P50_TARGET),
            ]);
        }
        let own = SideName::Postgres;
        for peer in SideName::PEERS {
            let ratios = self.ratios(own, peer, FIVE);
            table.row(&[
                format!("{}: five activities, to {}", own.text(), peer.text()),
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
                // Counted over many of them: the statistics of the server itself are in it.
                met(cost.commits < COMMITS_TARGET + 0.1),
            ]);
        }
        let rates = self.figures(own, ONE);
        let absurd = format!("Absurd's one step at {ABSURD_STEPS:.0}/s ({LABEL})");
        table.row(&[
            format!("{}: one activity, to {absurd}", own.text()),
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
        table.print("Distance to the targets");
    }
}

fn find<T>(figures: &[(SideName, T)], name: SideName) -> Option<&T> {
    figures.iter().find(|(side, _)| *side == name).map(|(_, figure)| figure)
}

fn each(figures: &[f64], text: impl Fn(f64) -> String) -> String {
    figures.iter().map(|figure| text(*figure)).collect::<Vec<_>>().join(" ")
}

/// A quantile of figures that are in order; 0 if there are none.
pub(crate) fn at(figures: &[u64], quantile: f64) -> u64 {
    let place = (figures.len() as f64 * quantile) as usize;
    figures.get(place.min(figures.len().saturating_sub(1))).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_figures() {
        let figures: Vec<u64> = (1..=100).collect();
        assert_eq!((at(&figures, 0.5), at(&figures, 0.99), at(&figures, 1.0)), (51, 100, 100));
        assert_eq!(at(&[], 0.5), 0);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let outcome = |completed| Outcome { completed, seconds: 1.0, ..Outcome::default() };
        let report = Report {
            rates: vec![
                (SideName::Postgres, FIVE, outcome(100)),
                (SideName::Pg, FIVE, outcome(10)),
                (SideName::Pg, FIVE, outcome(20)),
                (SideName::Postgres, FIVE, outcome(400)),
                (SideName::Postgres, ONE, outcome(7)),
            ],
            ..Report::default()
        };
        assert_eq!(report.ratios(SideName::Postgres, SideName::Pg, FIVE), [10.0, 20.0]);
    }
}
