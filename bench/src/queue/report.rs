//! The tables of the queue benchmark.

use crate::load::Measured;
use crate::peers::{self, Reference};
use crate::queue::{Case, LoadKind, Rounds};
use crate::table::{Table, count, median, met, met_in_rounds, millis};

/// The share of the bare handler's rate that the server should reach.
const RATIO_TARGET: f64 = 0.7;
/// Connections for which the design names that share.
const RATIO_CONNECTIONS: [usize; 2] = [64, 256];
/// Connections of the peers' figures.
const PEER_CONNECTIONS: usize = 32;

/// The cases of one store with their figures.
#[derive(Default)]
pub(crate) struct Report {
    cases: Vec<(Case, Rounds)>,
}

impl Report {
    /// Adds a case.
    pub(crate) fn add(&mut self, case: Case, rounds: Rounds) {
        self.cases.push((case, rounds));
    }

    /// Prints all tables, under headings that name the store.
    pub(crate) fn print(&self, store: &str) {
        self.print_rates(LoadKind::Push, &format!("{store}: push"));
        self.print_rates(LoadKind::Pop, &format!("{store}: pop and ack (latency of the pair)"));
        self.print_cpu(&format!("{store}: processor seconds per second, by process"));
        self.print_targets(&format!("{store}: distance to the targets"));
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
            let (own, bare) = (Middle::of(&rounds.server), Middle::of(&rounds.bare));
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
            for (side, figures) in [("wakeline", &rounds.server), ("bare", &rounds.bare)] {
                let middle = Middle::of(figures);
                table.row(&[
                    case.store.to_owned(),
                    case.load.name().to_owned(),
                    case.batch.to_string(),
                    case.connections.to_string(),
                    side.to_owned(),
                    format!("{:.2}", middle.cpu_load),
                    format!("{:.2}", middle.cpu_server),
                    format!("{:.2}", middle.cpu_postgres),
                    format!("{:.1}", middle.cpu_server / middle.messages * 1e6),
                ]);
            }
        }
        if !table.is_empty() {
            table.print(heading);
        }
    }

    fn print_targets(&self, heading: &str) {
        let mut table = Table::new(&["what", "figure", "target", ""]);
        for (case, rounds) in &self.cases {
            let aimed = case.load == LoadKind::Push
                && case.batch == 1
                && RATIO_CONNECTIONS.contains(&case.connections);
            if aimed {
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
                format!("PostgreSQL: pop + ack, batch 100, against PGMQ's pop ({})", peers::LABEL),
                format!("{}/s", count(messages)),
                format!("{}/s", count(peers::PGMQ_POP)),
                met(messages > peers::PGMQ_POP),
            ]);
        }
        if !table.is_empty() {
            table.print(heading);
        }
    }

    /// Compares with the figures of Queen.
    fn compare(&self, table: &mut Table, load: LoadKind, references: &[Reference]) {
        for reference in references {
            let Some(messages) = self.on_postgres(load, reference.batch) else { continue };
            let times = messages / reference.messages;
            table.row(&[
                format!(
                    "PostgreSQL: {}, batch {}, {PEER_CONNECTIONS} connections, against Queen 0.15 \
                     at {}/s ({})",
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
        let wanted = |case: &Case| {
            case.store == "PostgreSQL"
                && case.load == load
                && case.batch == batch
                && case.connections == PEER_CONNECTIONS
        };
        let (_, rounds) = self.cases.iter().find(|(case, _)| wanted(case))?;
        Some(Middle::of(&rounds.server).messages)
    }
}

impl LoadKind {
    fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pop => "pop + ack",
            Self::Raw => "push beside raw insertion",
            Self::Groups => "groups",
            Self::Partitions => "partitions",
        }
    }
}

impl Rounds {
    /// The server's rate as a share of the bare handler's, round by round.
    fn ratios(&self) -> Vec<f64> {
        self.server.iter().zip(&self.bare).map(|(own, bare)| own.messages / bare.messages).collect()
    }

    fn ratio(&self) -> f64 {
        median(self.ratios())
    }
}

/// The medians of some rounds.
struct Middle {
    requests: f64,
    messages: f64,
    p50: f64,
    p99: f64,
    cpu_load: f64,
    cpu_server: f64,
    cpu_postgres: f64,
}

impl Middle {
    fn of(rounds: &[Measured]) -> Self {
        let middle = |figure: fn(&Measured) -> f64| median(rounds.iter().map(figure).collect());
        Self {
            requests: middle(|round| round.requests),
            messages: middle(|round| round.messages),
            p50: middle(|round| round.p50),
            p99: middle(|round| round.p99),
            cpu_load: middle(|round| round.cpu.load),
            cpu_server: middle(|round| round.cpu.server),
            cpu_postgres: middle(|round| round.cpu.postgres),
        }
    }
}
