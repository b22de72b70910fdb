//! The tables of the hook benchmark.

use super::FAN_OUTS;
use super::latency::{Latencies, NEIGHBOUR_CASES};
use super::rate::{HookCost, Rate};
use crate::peers::{LABEL, SVIX_DELIVERIES};
use crate::table::{Table, count, median, met, met_in_rounds, millis};

/// The target, as a multiple of the rate of Svix.
const TIMES_TARGET: f64 = 7.0;
/// Limit of the design for the time from a creation to the request at the receiver on an idle
/// system, in microseconds.
const P50_TARGET: u64 = 3_000;
/// Limit of the design for the statements of one delivery under load.
const STATEMENTS_TARGET: f64 = 1.0;
/// The store whose costs are counted.
const POSTGRES: &str = "PostgreSQL";
const STORES: [&str; 2] = [POSTGRES, "SQLite"];

/// The results of the benchmark.
#[derive(Default)]
pub(super) struct HookReport {
    /// Rates by store and number of endpoints, in the order of the rounds.
    pub(super) rates: Vec<(&'static str, usize, Rate)>,
    /// Maximum rates of the receiver, in requests per second.
    pub(super) ceilings: Vec<f64>,
    /// Idle latencies by side.
    pub(super) latencies: Vec<(&'static str, Latencies)>,
    /// The costs of a single message.
    pub(super) cost_alone: Option<HookCost>,
    /// Statements per second of an idle server.
    pub(super) idle: Option<f64>,
    /// Latencies of the fast endpoint in each case, by store.
    pub(super) neighbours: Vec<(&'static str, Vec<Vec<u64>>)>,
}

impl HookReport {
    /// Prints all tables that have rows.
    pub(super) fn print(&self) {
        self.print_rates();
        self.print_latencies();
        self.print_costs();
        self.print_neighbours();
        self.print_targets();
    }

    fn rounds(&self, store: &str, endpoints: usize) -> Vec<&Rate> {
        let of = |(kind, fan, _): &&(&str, usize, Rate)| *kind == store && *fan == endpoints;
        self.rates.iter().filter(of).map(|(_, _, rate)| rate).collect()
    }

    fn median_of(&self, store: &str, endpoints: usize, value: impl Fn(&Rate) -> f64) -> f64 {
        median(self.rounds(store, endpoints).into_iter().map(value).collect())
    }

    fn print_rates(&self) {
        let mut table = Table::new(&[
            "store",
            "endpoints",
            "deliveries/s",
            "each round",
            "events/s",
            "ratio to the receiver's limit",
            "processor: server",
            "PostgreSQL",
        ]);
        let ceiling = median(self.ceilings.clone());
        for store in STORES {
            for fan in FAN_OUTS {
                let rounds = self.rounds(store, fan);
                if rounds.is_empty() {
                    continue;
                }
                let rate = self.median_of(store, fan, |rate| rate.deliveries);
                let each: Vec<_> = rounds.iter().map(|rate| count(rate.deliveries)).collect();
                let cpu = |of: fn(&Rate) -> f64| format!("{:.2}", self.median_of(store, fan, of));
                let postgres = cpu(|rate| rate.cpu.postgres);
                table.row(&[
                    store.to_owned(),
                    fan.to_string(),
                    count(rate),
                    each.join(" "),
                    count(rate / fan as f64),
                    format!("{:.2}", rate / ceiling),
                    cpu(|rate| rate.cpu.server),
                    if store == POSTGRES { postgres } else { "-".to_owned() },
                ]);
            }
        }
        if !table.is_empty() {
            let took = count(ceiling);
            table.print(&format!("Deliveries per second (the limit of the receiver is {took})"));
        }
    }

    fn print_latencies(&self) {
        let mut table = Table::new(&[
            "from the creation to the receiver",
            "p50",
            "p90",
            "p99",
            "max",
            "creation answered: p50",
            "p50, ratio to the bare loop",
        ]);
        let bare = self.latencies.iter().find(|(name, _)| *name == "bare");
        let bare = bare.map_or(0, |(_, latencies)| at(&latencies.received, 0.5));
        for (name, latencies) in &self.latencies {
            let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(|q| at(&latencies.received, q));
            let (name, answered) = match *name {
                "bare" => ("bare loop: INSERT, then POST", "-".to_owned()),
                name => (name, millis(at(&latencies.answered, 0.5))),
            };
            table.row(&[
                name.to_owned(),
                millis(p50),
                millis(p90),
                millis(p99),
                millis(max),
                answered,
                format!("{:.2}", p50 as f64 / bare as f64),
            ]);
        }
        if !table.is_empty() {
            table.print("One message at a time, idle system, durable");
        }
    }

    fn print_costs(&self) {
        let mut table = Table::new(&["what", "statements", "commits"]);
        let mut row = |what: String, cost: HookCost| {
            let values = [cost.statements, cost.commits].map(|value| format!("{value:.3}"));
            table.row(&[what, values[0].clone(), values[1].clone()]);
        };
        if let Some(cost) = self.cost_alone {
            row("a single delivery".to_owned(), cost);
        }
        for fan in FAN_OUTS {
            if self.rounds(POSTGRES, fan).is_empty() {
                continue;
            }
            let statements = self.median_of(POSTGRES, fan, |rate| rate.cost.statements);
            let commits = self.median_of(POSTGRES, fan, |rate| rate.cost.commits);
            row(
                format!("a delivery under load, {fan} endpoints"),
                HookCost { statements, commits },
            );
        }
        if !table.is_empty() {
            table.print("Costs of a delivery in PostgreSQL");
        }
    }

    fn print_neighbours(&self) {
        let quantiles = [0.5, 0.9, 0.99];
        let mut table = Table::new(&[
            "the fast endpoint",
            "samples",
            "p50",
            "p90",
            "p99",
            "max",
            "p50, p90, p99, ratio to alone",
        ]);
        for (store, sides) in &self.neighbours {
            for (case, latencies) in NEIGHBOUR_CASES.iter().zip(sides) {
                let mut cells =
                    vec![format!("{store}, {}", case.name), latencies.len().to_string()];
                cells.extend(quantiles.map(|q| millis(at(latencies, q))));
                cells.push(millis(at(latencies, 1.0)));
                let ratio = |q| at(latencies, q) as f64 / at(&sides[0], q).max(1) as f64;
                cells.push(quantiles.map(|q| format!("{:.2}", ratio(q))).join(" "));
                table.row(&cells);
            }
        }
        if !table.is_empty() {
            table.print("100 events per second to a fast endpoint, alone and with other endpoints");
        }
    }

    fn print_targets(&self) {
        let mut table = Table::new(&["what", "measured", "target", "result"]);
        let target = TIMES_TARGET * SVIX_DELIVERIES;
        for store in STORES {
            for fan in FAN_OUTS {
                let rounds = self.rounds(store, fan);
                if rounds.is_empty() {
                    continue;
                }
                let rates: Vec<f64> = rounds.iter().map(|rate| rate.deliveries).collect();
                table.row(&[
                    format!(
                        "{store}, {fan} endpoints: deliveries/s, ratio to Svix at \
                         {SVIX_DELIVERIES:.0}/s ({LABEL})"
                    ),
                    format!("{:.1}x", median(rates.clone()) / SVIX_DELIVERIES),
                    format!("{TIMES_TARGET:.0}x"),
                    met_in_rounds(&rates, |rate| rate >= target),
                ]);
            }
        }
        for (name, latencies) in self.latencies.iter().filter(|(name, _)| *name != "bare") {
            let p50 = at(&latencies.received, 0.5);
            table.row(&[
                format!("{name}: creation to the receiver, idle, p50"),
                millis(p50),
                format!("below {}", millis(P50_TARGET)),
                met(p50 < P50_TARGET),
            ]);
        }
        self.add_cost_targets(&mut table);
        if !table.is_empty() {
            table.print("Comparison with the targets");
        }
    }

    fn add_cost_targets(&self, table: &mut Table) {
        for fan in FAN_OUTS {
            let rounds = self.rounds(POSTGRES, fan);
            let values: Vec<f64> = rounds.iter().map(|rate| rate.cost.statements).collect();
            if values.is_empty() {
                continue;
            }
            table.row(&[
                format!("statements of a delivery under load, {fan} endpoints"),
                format!("{:.3}", median(values.clone())),
                format!("below {STATEMENTS_TARGET:.0}"),
                met_in_rounds(&values, |value| value < STATEMENTS_TARGET),
            ]);
        }
        if let Some(idle) = self.idle {
            let cells =
                ["idle statements per second", &format!("{idle:.2}"), "0", &met(idle == 0.0)];
            table.row(&cells.map(ToOwned::to_owned));
        }
    }
}

/// Returns a quantile of sorted values, or 0 if there are none.
fn at(values: &[u64], quantile: f64) -> u64 {
    let index = (values.len() as f64 * quantile) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_those_of_one_store_and_fan_out() {
        let rate = |deliveries| Rate {
            deliveries,
            cpu: crate::cpu::Usage::default(),
            cost: HookCost::default(),
        };
        let rates =
            vec![(POSTGRES, 1, rate(5.0)), ("SQLite", 1, rate(9.0)), (POSTGRES, 10, rate(7.0))];
        let report = HookReport { rates, ..HookReport::default() };
        assert!((report.median_of(POSTGRES, 1, |rate| rate.deliveries) - 5.0).abs() < f64::EPSILON);
        assert!(report.rounds("SQLite", 10).is_empty());
    }

    #[test]
    fn costs_are_those_of_each_without_a_server_that_does_nothing() {
        let read = |statements| HookCost { statements, commits: statements };
        let each = read(130.0).each(&read(100.0), &read(10.0), 4);
        assert!((each.statements - 5.0).abs() < f64::EPSILON);
    }
}
