//! The tables of the hook benchmark.

use super::FANS;
use super::latency::{COMPANIES, Latencies};
use super::rate::{Cost, Rate};
use crate::peers::{LABEL, SVIX_DELIVERIES};
use crate::table::{Table, count, median, met, met_in_rounds, millis};

/// How many times Svix's rate is the target.
const TIMES_TARGET: f64 = 7.0;
/// The design's limit from a creation to the request at the receiver, idle, in microseconds.
const P50_TARGET: u64 = 3_000;
/// The design's limit for one delivery under load.
const STATEMENTS_TARGET: f64 = 1.0;
/// The server whose costs are counted.
const POSTGRES: &str = "PostgreSQL";
const STORES: [&str; 2] = [POSTGRES, "SQLite"];

/// What was measured.
#[derive(Default)]
pub(super) struct Report {
    /// By store and number of endpoints, in the order of the rounds.
    pub(super) rates: Vec<(&'static str, usize, Rate)>,
    /// Requests a second that the receiver took straight from the driver.
    pub(super) ceilings: Vec<f64>,
    /// Idle latencies by side.
    pub(super) latencies: Vec<(&'static str, Latencies)>,
    /// What a message costs that comes alone.
    pub(super) cost_alone: Option<Cost>,
    /// Statements a second of an idle server.
    pub(super) idle: Option<f64>,
    /// By store: the fast endpoint in each company.
    pub(super) neighbours: Vec<(&'static str, Vec<Vec<u64>>)>,
}

impl Report {
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

    fn middle(&self, store: &str, endpoints: usize, figure: impl Fn(&Rate) -> f64) -> f64 {
        median(self.rounds(store, endpoints).into_iter().map(figure).collect())
    }

    fn print_rates(&self) {
        let mut table = Table::new(&[
            "store",
            "endpoints",
            "deliveries/s",
            "each round",
            "events/s",
            "to the receiver's own limit",
            "processor: server",
            "PostgreSQL",
        ]);
        let ceiling = median(self.ceilings.clone());
        for store in STORES {
            for fan in FANS {
                let rounds = self.rounds(store, fan);
                if rounds.is_empty() {
                    continue;
                }
                let rate = self.middle(store, fan, |rate| rate.deliveries);
                let each: Vec<_> = rounds.iter().map(|rate| count(rate.deliveries)).collect();
                let cpu = |of: fn(&Rate) -> f64| format!("{:.2}", self.middle(store, fan, of));
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
            table.print(&format!("Deliveries a second (the receiver's own limit is {took})"));
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
            "p50 to the bare loop",
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
            table.print("One at a time, idle system, durable");
        }
    }

    fn print_costs(&self) {
        let mut table = Table::new(&["what", "statements", "commits"]);
        let mut row = |what: String, cost: Cost| {
            let figures = [cost.statements, cost.commits].map(|figure| format!("{figure:.3}"));
            table.row(&[what, figures[0].clone(), figures[1].clone()]);
        };
        if let Some(cost) = self.cost_alone {
            row("a delivery that comes alone".to_owned(), cost);
        }
        for fan in FANS {
            if self.rounds(POSTGRES, fan).is_empty() {
                continue;
            }
            let statements = self.middle(POSTGRES, fan, |rate| rate.cost.statements);
            let commits = self.middle(POSTGRES, fan, |rate| rate.cost.commits);
            row(format!("a delivery under load, {fan} endpoints"), Cost { statements, commits });
        }
        if !table.is_empty() {
            table.print("What a delivery costs PostgreSQL");
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
            "p50, p90, p99 to those alone",
        ]);
        for (store, sides) in &self.neighbours {
            for (company, latencies) in COMPANIES.iter().zip(sides) {
                let mut cells =
                    vec![format!("{store}, {}", company.name), latencies.len().to_string()];
                cells.extend(quantiles.map(|q| millis(at(latencies, q))));
                cells.push(millis(at(latencies, 1.0)));
                let ratio = |q| at(latencies, q) as f64 / at(&sides[0], q).max(1) as f64;
                cells.push(quantiles.map(|q| format!("{:.2}", ratio(q))).join(" "));
                table.row(&cells);
            }
        }
        if !table.is_empty() {
            table.print("100 events a second to a fast endpoint, alone and in company");
        }
    }

    fn print_targets(&self) {
        let mut table = Table::new(&["what", "figure", "target", ""]);
        let target = TIMES_TARGET * SVIX_DELIVERIES;
        for store in STORES {
            for fan in FANS {
                let rounds = self.rounds(store, fan);
                if rounds.is_empty() {
                    continue;
                }
                let rates: Vec<f64> = rounds.iter().map(|rate| rate.deliveries).collect();
                table.row(&[
                    format!(
                        "{store}, {fan} endpoints: deliveries/s, to Svix at \
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
            table.print("Distance to the targets");
        }
    }

    fn add_cost_targets(&self, table: &mut Table) {
        for fan in FANS {
            let rounds = self.rounds(POSTGRES, fan);
            let figures: Vec<f64> = rounds.iter().map(|rate| rate.cost.statements).collect();
            if figures.is_empty() {
                continue;
            }
            table.row(&[
                format!("statements of a delivery under load, {fan} endpoints"),
                format!("{:.3}", median(figures.clone())),
                format!("below {STATEMENTS_TARGET:.0}"),
                met_in_rounds(&figures, |figure| figure < STATEMENTS_TARGET),
            ]);
        }
        if let Some(idle) = self.idle {
            let cells = ["idle statements a second", &format!("{idle:.2}"), "0", &met(idle == 0.0)];
            table.row(&cells.map(ToOwned::to_owned));
        }
    }
}

/// A quantile of figures that are in order; 0 if there are none.
fn at(figures: &[u64], quantile: f64) -> u64 {
    let place = (figures.len() as f64 * quantile) as usize;
    figures.get(place.min(figures.len().saturating_sub(1))).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_those_of_one_store_and_fan_out() {
        let rate = |deliveries| Rate {
            deliveries,
            cpu: crate::cpu::Usage::default(),
            cost: Cost::default(),
        };
        let rates =
            vec![(POSTGRES, 1, rate(5.0)), ("SQLite", 1, rate(9.0)), (POSTGRES, 10, rate(7.0))];
        let report = Report { rates, ..Report::default() };
        assert!((report.middle(POSTGRES, 1, |rate| rate.deliveries) - 5.0).abs() < f64::EPSILON);
        assert!(report.rounds("SQLite", 10).is_empty());
    }

    #[test]
    fn costs_are_those_of_each_without_a_server_that_does_nothing() {
        let read = |statements| Cost { statements, commits: statements };
        let each = read(130.0).each(&read(100.0), &read(10.0), 4);
        assert!((each.statements - 5.0).abs() < f64::EPSILON);
    }
}
