//! How many deliveries a second reach the receiver, and what each costs PostgreSQL.
//!
//! # Invariants
//! * Creators stay a bounded number of deliveries ahead: what is measured is delivering, not
//!   storing.
//! * Costs are counted over the whole life of a server, less those of a server that did nothing.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use super::stage::{Place, Sink, creation};
use crate::client::{Connection, post};
use crate::cpu::{Meter, Usage};
use crate::setup::Setup;

/// Connections of the measurement of what the receiver can take.
const CEILING_CONNECTIONS: usize = 64;

/// What to measure.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// The application.
    pub(super) uid: String,
    /// How many endpoints it has.
    pub(super) endpoints: u64,
    /// How long to go before measuring.
    pub(super) warm_up: Duration,
    /// How long to measure.
    pub(super) window: Duration,
}

impl Load {
    fn connections(&self) -> u64 {
        (64 / self.endpoints).max(4)
    }

    /// Most deliveries that may be missing at the receiver.
    fn ahead_max(&self) -> u64 {
        (8 * self.endpoints).max(1_024)
    }
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Deliveries a second.
    pub(super) deliveries: f64,
    /// Processor time used, in seconds per second.
    pub(super) cpu: Usage,
    /// What a delivery costs PostgreSQL.
    pub(super) cost: Cost,
}

/// Statements and commits of something.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) statements: f64,
    pub(super) commits: f64,
}

impl Cost {
    /// What was used until now by those who have left.
    pub(super) async fn read(setup: &Setup) -> Result<Self> {
        setup.database.left().await.context("a server is still connected")?;
        let statements = setup.database.statements().await?.total as f64;
        Ok(Self { statements, commits: setup.database.commits().await? as f64 })
    }

    /// What came after an earlier reading, less something, for each of so many.
    pub(super) fn each(&self, earlier: &Self, less: &Self, count: u64) -> Self {
        let count = count.max(1) as f64;
        Self {
            statements: (self.statements - earlier.statements - less.statements) / count,
            commits: (self.commits - earlier.commits - less.commits) / count,
        }
    }

    /// What a server costs that is started and stopped again.
    pub(super) async fn of_nothing(setup: &Setup, place: &Place) -> Result<Self> {
        let before = Self::read(setup).await?;
        let node = place.start(&[])?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        node.stop()?;
        Ok(Self::read(setup).await?.each(&before, &Self::default(), 1))
    }
}

/// Creates as fast as it is delivered, for a while.
pub(super) async fn measure(
    setup: &Setup,
    (place, nothing): (&Place, &Cost),
    sink: &mut Sink,
    load: &Load,
) -> Result<Rate> {
    let before = Cost::read(setup).await?;
    let node = place.start(&[])?;
    let meter = Meter { server: node.pid(), postgres: setup.database.postmaster };
    let base = sink.count().await?;
    let (seen, watched) = watch::channel(Some(0));
    let creators = LocalSet::new();
    let created = Rc::new(std::cell::Cell::new(0));
    let mut tasks = JoinSet::new();
    for connection in Connection::open_all(node.address(), load.connections() as usize).await? {
        let creator = create(connection, load.clone(), Rc::clone(&created), watched.clone());
        tasks.spawn_local_on(creator, &creators);
    }
    let measured = async {
        watch_for(sink, &seen, (base, load.warm_up)).await?;
        let (first, began, used) = (sink.count().await?, Instant::now(), meter.read());
        watch_for(sink, &seen, (base, load.window)).await?;
        let (last, elapsed) = (sink.count().await?, began.elapsed().as_secs_f64());
        let cpu = meter.read().since(&used, elapsed);
        seen.send_replace(None);
        while let Some(done) = tasks.join_next().await {
            done.context("a creator ended")??;
        }
        Ok::<_, anyhow::Error>(((last - first) as f64 / elapsed, cpu))
    };
    let (deliveries, cpu) = creators.run_until(measured).await?;
    let all = created.get() * load.endpoints;
    sink.until(base + all).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    node.stop()?;
    let cost = Cost::read(setup).await?.each(&before, nothing, all);
    Ok(Rate { deliveries, cpu, cost })
}

/// Tells the creators how much has arrived, for a while.
async fn watch_for(
    sink: &mut Sink,
    seen: &watch::Sender<Option<u64>>,
    (base, time): (u64, Duration),
) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        seen.send_replace(Some(sink.count().await? - base));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn create(
    mut connection: Connection,
    load: Load,
    created: Rc<std::cell::Cell<u64>>,
    mut seen: watch::Receiver<Option<u64>>,
) -> Result<()> {
    loop {
        let Some(arrived) = *seen.borrow_and_update() else { return Ok(()) };
        if created.get() * load.endpoints >= arrived + load.ahead_max() {
            seen.changed().await?;
            continue;
        }
        created.set(created.get() + 1);
        connection.call(&creation(&load.uid)).await?.expect(202)?;
    }
}

/// What the receiver can take: requests a second straight from this program.
pub(super) async fn ceiling(sink: &mut Sink, window: Duration) -> Result<f64> {
    let until = Instant::now() + window;
    let mut tasks = JoinSet::new();
    let (before, began) = (sink.count().await?, Instant::now());
    for mut connection in Connection::open_all(sink.address(), CEILING_CONNECTIONS).await? {
        tasks.spawn(async move {
            let request = post("/fast/ceiling", &super::sink::payload());
            while Instant::now() < until {
                connection.call(&request).await?.expect(200)?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a connection's task ended")??;
    }
    let taken = sink.count().await? - before;
    sink.take("ceiling").await?;
    Ok(taken as f64 / began.elapsed().as_secs_f64())
}
