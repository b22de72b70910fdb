//! What the shape of a queue costs: groups that read the same messages, and partitions; and
//! pushes beside the raw insertion of the same data.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::client::Connection;
use crate::load::{self, Ask, Load, Measured, Target};
use crate::node::Node;
use crate::queue::{BATCHES, StoreKind, WARM_UP, raw};
use crate::setup::Setup;
use crate::table::{Table, count, median, millis};

const GROUPS: [usize; 3] = [1, 5, 10];
const PARTITIONS: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Divisible by every number of groups.
const CONNECTIONS: usize = 30;
const BATCH: usize = 10;
/// Deliveries that a second of popping may use up.
const BACKLOG_PER_SEC: f64 = 60_000.0;

/// One server, as the tables of shapes see it.
pub(crate) struct Shapes<'a> {
    /// What everything runs with.
    pub(crate) setup: &'a Setup,
    /// Its kind of store.
    pub(crate) kind: StoreKind,
    /// The store's name.
    pub(crate) store: &'static str,
    /// The server.
    pub(crate) server: &'a Node,
    /// PostgreSQL's first process.
    pub(crate) postmaster: Option<u32>,
    /// How often, and how long.
    pub(crate) rounds: (usize, Duration),
}

impl Shapes<'_> {
    fn target(&self) -> Target {
        let meter = crate::cpu::Meter { server: self.server.pid(), postgres: self.postmaster };
        let address = self.server.address();
        Target { address, meter, warm_up: WARM_UP, window: self.rounds.1 }
    }

    /// Pushes beside the raw insertion of the same messages, sides in turn.
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
            for round in 0..self.rounds.0 {
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
                count(middle(&pushed, |round| round.messages)),
                millis(middle(&pushed, |round| round.p50) as u64),
                count(middle(&inserted, |round| round.messages)),
                millis(middle(&inserted, |round| round.p50) as u64),
                format!("{:.2}", median(ratios)),
                each.join(" "),
                format!(
                    "{:.1} / {:.1}",
                    middle(&pushed, |round| round.cpu.postgres / round.messages * 1e6),
                    middle(&inserted, |round| round.cpu.postgres / round.messages * 1e6),
                ),
            ]);
        }
        table.print(&format!("{}: push beside raw insertion", self.store));
        Ok(())
    }

    /// Groups that each read everything.
    pub(crate) async fn print_groups(&self) -> Result<()> {
        let mut table = self.table("groups", "deliveries/s");
        for groups in GROUPS {
            let mut figures = Vec::new();
            for round in 0..self.rounds.0 {
                let queue = format!("groups-{groups}-{round}");
                let wanted = self.backlog() / groups as u64;
                let filled = load::fill(self.server.address(), &queue, wanted).await?;
                let ask = |index: usize| {
                    let group = format!("g{}", index % groups);
                    let request = crate::wire::pop_of(&queue, BATCH, 1, Some(&group));
                    Ask { request, group: Some(group) }
                };
                let asks = (0..CONNECTIONS).map(ask).collect();
                let deliveries = filled * groups as u64;
                figures.push(load::pop_as(&self.target(), asks, deliveries).await?);
            }
            self.row(&mut table, groups, ("pop + ack", &figures))?;
        }
        table.print(&format!("{}: the same messages to several groups, batch {BATCH}", self.store));
        Ok(())
    }

    /// Queues of few and of many partitions.
    pub(crate) async fn print_partitions(&self) -> Result<()> {
        let mut table = self.table("partitions", "messages/s");
        for partitions in PARTITIONS {
            let queue = format!("partitions-{partitions}");
            let load = Load { queue: queue.clone(), batch: BATCH, connections: CONNECTIONS };
            let (mut pushed, mut popped) = (Vec::new(), Vec::new());
            // Every partition is there before anything is measured, and the group has begun.
            self.visit_all(&queue, partitions).await?;
            for _ in 0..self.rounds.0 {
                pushed.push(load::push_spread(&self.target(), &load, partitions).await?);
                let backlog = self.backlog();
                load::fill_spread(self.server.address(), &queue, backlog, partitions).await?;
                let request = crate::wire::pop_of(&queue, BATCH, BATCH, None);
                let asks = vec![Ask { request, group: None }; CONNECTIONS];
                popped.push(load::pop_as(&self.target(), asks, backlog).await?);
            }
            self.row(&mut table, partitions, ("push", &pushed))?;
            self.row(&mut table, partitions, ("pop + ack", &popped))?;
        }
        let how = "each request to ten partitions, batch 10";
        table.print(&format!("{}: few partitions and many, {how}", self.store));
        Ok(())
    }

    async fn visit_all(&self, queue: &str, partitions: usize) -> Result<()> {
        let address = self.server.address();
        load::fill_spread(address, queue, partitions as u64, partitions).await?;
        let mut connection = Connection::open(address).await?;
        connection.call(&crate::wire::pop_of(queue, BATCH, BATCH, None)).await?.expect(200)?;
        Ok(())
    }

    fn backlog(&self) -> u64 {
        (BACKLOG_PER_SEC * (WARM_UP + self.rounds.1).as_secs_f64()) as u64
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
        (load, rounds): (&str, &[Measured]),
    ) -> Result<()> {
        table.row(&[
            self.store.to_owned(),
            count(size as f64),
            load.to_owned(),
            count(middle(rounds, |round| round.messages)),
            millis(middle(rounds, |round| round.p50) as u64),
            millis(middle(rounds, |round| round.p99) as u64),
            format!("{:.2}", middle(rounds, |round| round.cpu.server)),
            format!("{:.2}", middle(rounds, |round| round.cpu.postgres)),
            format!("{:.0} MB", resident(self.server.pid())? / 1e6),
        ]);
        Ok(())
    }
}

fn middle(rounds: &[Measured], figure: fn(&Measured) -> f64) -> f64 {
    median(rounds.iter().map(figure).collect())
}

/// Bytes of memory that a process has now.
fn resident(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.context("the system does not tell the memory of a process")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024.0)
}
