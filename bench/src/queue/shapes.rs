//! The costs of consumer groups that read the same messages and of partitions, and a comparison of
//! pushes with the raw insertion of the same data.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::client::BenchConnection;
use crate::load::{self, BenchPop, Load, LoadMeasurement, LoadTarget};
use crate::node::Node;
use crate::queue::{BATCHES, StoreKind, WARM_UP, raw};
use crate::setup::Setup;
use crate::table::{Table, count, median, millis};

const GROUPS: [usize; 3] = [1, 5, 10];
const PARTITIONS: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Number of connections, which is divisible by every number of groups.
const CONNECTIONS: usize = 30;
const BATCH: usize = 10;
/// Number of deliveries that must be available for each second of popping.
const BACKLOG_PER_SEC: f64 = 60_000.0;

/// Measures these tables on one server.
pub(crate) struct Shapes<'a> {
    /// The setup of the run.
    pub(crate) setup: &'a Setup,
    /// The kind of the store.
    pub(crate) kind: StoreKind,
    /// The store's name.
    pub(crate) store: &'static str,
    /// The server.
    pub(crate) server: &'a Node,
    /// The main process of PostgreSQL.
    pub(crate) postmaster: Option<u32>,
    /// Number of rounds.
    pub(crate) rounds: usize,
    /// Duration of each measurement.
    pub(crate) window: Duration,
}

impl Shapes<'_> {
    fn target(&self) -> LoadTarget {
        let meter = crate::cpu::Meter { server: self.server.pid(), postgres: self.postmaster };
        let address = self.server.address();
        LoadTarget { address, meter, warm_up: WARM_UP, window: self.window }
    }

    /// Compares pushes with the raw insertion of the same messages, with the sides in turn.
    pub(crate) async fn print_raw(&self) -> Result<()> {
        let mut table = Table::new(&[
            "store",
            "batch",
            "push messages/s",
            "push p50",
            "inserted messages/s",
            "insertion p50",
            "ratio",
            "ratio, each round",
            "PostgreSQL us per message, push / insertion",
        ]);
        for batch in BATCHES {
            let (mut pushed, mut inserted) = (Vec::new(), Vec::new());
            for round in 0..self.rounds {
                let queue = format!("raw-{batch}-{round}");
                let load = Load { queue, batch, connections: CONNECTIONS };
                let target = self.target();
                pushed.push(load::push(&target, &load).await?);
                inserted.push(match self.kind {
                    StoreKind::Postgres => raw::postgres(self.setup, &target, &load).await?,
                    StoreKind::Sqlite => {
                        raw::sqlite(&self.setup.file("raw.db"), &target, &load).await?
                    }
                });
            }
            let ratios: Vec<f64> = pushed
                .iter()
                .zip(&inserted)
                .map(|(own, raw)| own.messages / raw.messages)
                .collect();
            let each = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>();
            table.row(&[
                self.store.to_owned(),
                batch.to_string(),
                count(median_of(&pushed, |round| round.messages)),
                millis(median_of(&pushed, |round| round.p50) as u64),
                count(median_of(&inserted, |round| round.messages)),
                millis(median_of(&inserted, |round| round.p50) as u64),
                format!("{:.2}", median(ratios)),
                each.join(" "),
                format!(
                    "{:.1} / {:.1}",
                    median_of(&pushed, |round| round.cpu.postgres / round.messages * 1e6),
                    median_of(&inserted, |round| round.cpu.postgres / round.messages * 1e6),
                ),
            ]);
        }
        table.print(&format!("{}: push compared with raw insertion", self.store));
        Ok(())
    }

    /// Measures groups that each read all messages.
    pub(crate) async fn print_groups(&self) -> Result<()> {
        let mut table = self.table("groups", "deliveries/s");
        for groups in GROUPS {
            let mut measured = Vec::new();
            for round in 0..self.rounds {
                let queue = format!("groups-{groups}-{round}");
                let wanted = self.backlog() / groups as u64;
                let filled = load::fill(self.server.address(), &queue, wanted).await?;
                let request_of = |index: usize| {
                    let group = format!("g{}", index % groups);
                    let bytes = crate::wire::pop_of(&queue, BATCH, 1, Some(&group));
                    BenchPop { bytes, group: Some(group) }
                };
                let requests = (0..CONNECTIONS).map(request_of).collect();
                let deliveries = filled * groups as u64;
                measured.push(load::pop_as(&self.target(), requests, deliveries).await?);
            }
            self.row(&mut table, groups, "pop + ack", &measured)?;
        }
        table.print(&format!("{}: the same messages to several groups, batch {BATCH}", self.store));
        Ok(())
    }

    /// Measures queues with few and with many partitions.
    pub(crate) async fn print_partitions(&self) -> Result<()> {
        let mut table = self.table("partitions", "messages/s");
        for partitions in PARTITIONS {
            let queue = format!("partitions-{partitions}");
            let load = Load { queue: queue.clone(), batch: BATCH, connections: CONNECTIONS };
            let (mut pushed, mut popped) = (Vec::new(), Vec::new());
            // Every partition and the group exist before the measurement.
            self.visit_all(&queue, partitions).await?;
            for _ in 0..self.rounds {
                pushed.push(load::push_spread(&self.target(), &load, partitions).await?);
                let backlog = self.backlog();
                load::fill_spread(self.server.address(), &queue, backlog, partitions).await?;
                let bytes = crate::wire::pop_of(&queue, BATCH, BATCH, None);
                let requests = vec![BenchPop { bytes, group: None }; CONNECTIONS];
                popped.push(load::pop_as(&self.target(), requests, backlog).await?);
            }
            self.row(&mut table, partitions, "push", &pushed)?;
            self.row(&mut table, partitions, "pop + ack", &popped)?;
        }
        let how = "each request to ten partitions, batch 10";
        table.print(&format!("{}: few and many partitions, {how}", self.store));
        Ok(())
    }

    async fn visit_all(&self, queue: &str, partitions: usize) -> Result<()> {
        let address = self.server.address();
        load::fill_spread(address, queue, partitions as u64, partitions).await?;
        let mut connection = BenchConnection::open(address).await?;
        connection.call(&crate::wire::pop_of(queue, BATCH, BATCH, None)).await?.expect(200)?;
        Ok(())
    }

    fn backlog(&self) -> u64 {
        (BACKLOG_PER_SEC * (WARM_UP + self.window).as_secs_f64()) as u64
    }

    fn table(&self, shape: &str, rate: &str) -> Table {
        Table::new(&[
            "store",
            shape,
            "load",
            rate,
            "p50",
            "p99",
            "server processor",
            "PostgreSQL processor",
            "server memory",
        ])
    }

    fn row(
        &self,
        table: &mut Table,
        size: usize,
        load: &str,
        rounds: &[LoadMeasurement],
    ) -> Result<()> {
        table.row(&[
            self.store.to_owned(),
            count(size as f64),
            load.to_owned(),
            count(median_of(rounds, |round| round.messages)),
            millis(median_of(rounds, |round| round.p50) as u64),
            millis(median_of(rounds, |round| round.p99) as u64),
            format!("{:.2}", median_of(rounds, |round| round.cpu.server)),
            format!("{:.2}", median_of(rounds, |round| round.cpu.postgres)),
            format!("{:.0} MB", resident(self.server.pid())? / 1e6),
        ]);
        Ok(())
    }
}

fn median_of(rounds: &[LoadMeasurement], value: fn(&LoadMeasurement) -> f64) -> f64 {
    median(rounds.iter().map(value).collect())
}

/// Returns the resident memory of a process, in bytes.
fn resident(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.context("the memory of the process is unknown")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024.0)
}
