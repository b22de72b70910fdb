//! The tables of the queue benchmark.

use crate::load::LoadMeasurement;
use crate::peers::{self, Reference};
use crate::queue::{LoadKind, QueueCase, QueueRounds};
use crate::table::{Table, count, median, met, met_in_rounds, millis};

/// The target for the rate of the server, as a share of the rate of the bare handler.
const RATIO_TARGET: f64 = 0.7;
/// Numbers of connections for which the design has this target.
const RATIO_CONNECTIONS: [usize; 2] = [64, 256];
/// Number of connections in the results of the peers.
const PEER_CONNECTIONS: usize = 32;

/// The cases of one store with their results.
#[derive(Default)]
pub(crate) struct QueueReport {
    cases: Vec<(QueueCase, QueueRounds)>,
}

impl QueueReport {
    /// Adds a case.
    pub(crate) fn add(&mut self, case: QueueCase, rounds: QueueRounds) {
        self.cases.push((case, rounds));
    }

    /// Prints all tables, under headings that name the store.
    pub(crate) fn print(&self, store: &str) {
        self.print_rates(LoadKind::Push, &format!("{store}: push"));
        self.print_rates(LoadKind::Pop, &format!("{store}: pop and ack (latency of the pair)"));
        self.print_cpu(&format!("{store}: processor seconds per second, by process"));
        self.print_targets(&format!("{store}: comparison with the targets"));
    }

    fn print_rates(&self, load: LoadKind, heading: &str) {
        let mut table = Table::new(&[
            "store",
            "batch",
            "connections",
            "requests/s",
            "messages/s",
            "p50",
            "p99",
            "bare messages/s",
            "bare p50",
            "bare p99",
            "ratio to bare",
            "ratio, each round",
        ]);
        for (case, rounds) in self.cases.iter().filter(|(case, _)| case.load == load) {
            let (own, bare) = (Medians::of(&rounds.server), Medians::of(&rounds.bare));
            table.row(&[
                case.store.to_owned(),
                case.batch.to_string(),
                case.connections.to_string(),
                count(own.requests),
                count(own.messages),
                millis(own.p50 as u64),
                millis(own.p99 as u64),
                count(bare.messages),
                millis(bare.p50 as u64),
                millis(bare.p99 as u64),
                format!("{:.2}", rounds.ratio()),
                rounds.ratios().iter().map(|r| format!("{r:.2}")).collect::<Vec<_>>().join(" "),
            ]);
        }
        if !table.is_empty() {
            table.print(heading);
        }
    }

    fn print_cpu(&self, heading: &str) {
        let mut table = Table::new(&[
            "store",
            "load",
            "batch",
            "connections",
            "side",
            "load generator",
            "server",
            "PostgreSQL",
            "server us per message",
        ]);
        for (case, rounds) in &self.cases {
            for (side, measured) in [("wakeline", &rounds.server), ("bare", &rounds.bare)] {
                let medians = Medians::of(measured);
                table.row(&[
                    case.store.to_owned(),
                    case.load.name().to_owned(),
                    case.batch.to_string(),
                    case.connections.to_string(),
                    side.to_owned(),
                    format!("{:.2}", medians.cpu_load),
                    format!("{:.2}", medians.cpu_server),
                    format!("{:.2}", medians.cpu_postgres),
                    format!("{:.1}", medians.cpu_server / medians.messages * 1e6),
                ]);
            }
        }
        if !table.is_empty() {
            table.print(heading);
        }
    }

    fn print_targets(&self, heading: &str) {
        let mut table = Table::new(&["what", "measured", "target", "result"]);
        for (case, rounds) in &self.cases {
            let has_target = case.load == LoadKind::Push
                && case.batch == 1
                && RATIO_CONNECTIONS.contains(&case.connections);
            if has_target {
                let ratio = rounds.ratio();
                table.row(&[
                    format!("{}: single pushes, {} connections", case.store, case.connections),
                    format!("{ratio:.2} of bare"),
                    format!("{RATIO_TARGET} of bare"),
                    met_in_rounds(&rounds.ratios(), |ratio| ratio >= RATIO_TARGET),
                ]);
            }
        }
        self.compare(&mut table, LoadKind::Push, &peers::QUEEN_PUSH);
        self.compare(&mut table, LoadKind::Pop, &peers::QUEEN_POP);
        if let Some(messages) = self.on_postgres(LoadKind::Pop, 100) {
            table.row(&[
                format!(
                    "PostgreSQL: pop + ack, batch 100, compared with pop of PGMQ ({})",
                    peers::LABEL
                ),
                format!("{}/s", count(messages)),
                format!("{}/s", count(peers::PGMQ_POP)),
                met(messages > peers::PGMQ_POP),
            ]);
        }
        if !table.is_empty() {
            table.print(heading);
        }
    }

    /// Adds rows that compare with the results of Queen.
    fn compare(&self, table: &mut Table, load: LoadKind, references: &[Reference]) {
        for reference in references {
            let Some(messages) = self.on_postgres(load, reference.batch) else { continue };
            let times = messages / reference.messages;
            table.row(&[
                format!(
                    "PostgreSQL: {}, batch {}, {PEER_CONNECTIONS} connections, compared with Queen \
                     0.15 at {}/s ({})",
                    load.name(),
                    reference.batch,
                    count(reference.messages),
                    peers::LABEL
                ),
                format!("{times:.1}x ({}/s)", count(messages)),
                format!("{:.0}x ({}/s)", reference.times, count(reference.target())),
                met(times >= reference.times),
            ]);
        }
    }

    fn on_postgres(&self, load: LoadKind, batch: usize) -> Option<f64> {
        let wanted = |case: &QueueCase| {
            case.store == "PostgreSQL"
                && case.load == load
                && case.batch == batch
                && case.connections == PEER_CONNECTIONS
        };
        let (_, rounds) = self.cases.iter().find(|(case, _)| wanted(case))?;
        Some(Medians::of(&rounds.server).messages)
    }
}

impl LoadKind {
    fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pop => "pop + ack",
            Self::Raw => "push and raw insertion",
            Self::Groups => "groups",
            Self::Partitions => "partitions",
        }
    }
}

impl QueueRounds {
    /// The ratio of the rate of the server to that of the bare handler, for each round.
    fn ratios(&self) -> Vec<f64> {
        self.server.iter().zip(&self.bare).map(|(own, bare)| own.messages / bare.messages).collect()
    }

    fn ratio(&self) -> f64 {
        median(self.ratios())
    }
}

/// The medians of several rounds.
struct Medians {
    requests: f64,
    messages: f64,
    p50: f64,
    p99: f64,
    cpu_load: f64,
    cpu_server: f64,
    cpu_postgres: f64,
}

impl Medians {
    fn of(rounds: &[LoadMeasurement]) -> Self {
        let median_of =
            |value: fn(&LoadMeasurement) -> f64| median(rounds.iter().map(value).collect());
        Self {
            requests: median_of(|round| round.requests),
            messages: median_of(|round| round.messages),
            p50: median_of(|round| round.p50),
            p99: median_of(|round| round.p99),
            cpu_load: median_of(|round| round.cpu.load),
            cpu_server: median_of(|round| round.cpu.server),
            cpu_postgres: median_of(|round| round.cpu.postgres),
        }
    }
}
