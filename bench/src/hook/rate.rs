//! The number of deliveries per second that reach the receiver, and the costs of each in
//! PostgreSQL.
//!
//! # Invariants
//! * Creators stay a bounded number of deliveries ahead: what is measured is delivering, not
//!   storing.
//! * Costs are counted over the whole lifetime of a server, and those of an idle server are
//!   subtracted.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use super::server::{Sink, WebhookServer, create_message_request};
use crate::client::{BenchConnection, post};
use crate::cpu::{Meter, Usage};
use crate::setup::Setup;

/// Number of connections for measuring the maximum rate of the receiver.
const CEILING_CONNECTIONS: usize = 64;

/// A load of the measurement.
#[derive(Debug, Clone)]
pub(super) struct HookLoad {
    /// The uid of the application.
    pub(super) uid: String,
    /// Number of endpoints of the application.
    pub(super) endpoints: u64,
    /// Duration of the warm-up.
    pub(super) warm_up: Duration,
    /// Duration of the measurement.
    pub(super) window: Duration,
}

impl HookLoad {
    fn connections(&self) -> u64 {
        (64 / self.endpoints).max(4)
    }

    /// Maximum number of deliveries that the receiver may lack.
    fn ahead_max(&self) -> u64 {
        (8 * self.endpoints).max(1_024)
    }
}

/// The results of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Deliveries per second.
    pub(super) deliveries: f64,
    /// Processor time used, in seconds per second.
    pub(super) cpu: Usage,
    /// The costs of a delivery in PostgreSQL.
    pub(super) cost: HookCost,
}

/// Numbers of statements and commits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HookCost {
    pub(super) statements: f64,
    pub(super) commits: f64,
}

impl HookCost {
    /// Reads the costs of all closed connections until now.
    pub(super) async fn read(setup: &Setup) -> Result<Self> {
        setup.database.wait_until_unused().await.context("a server is still connected")?;
        let statements = setup.database.statements().await?.total as f64;
        Ok(Self { statements, commits: setup.database.commits().await? as f64 })
    }

    /// Returns the costs since an earlier reading, minus `less`, divided by `count`.
    pub(super) fn each(&self, earlier: &Self, less: &Self, count: u64) -> Self {
        let count = count.max(1) as f64;
        Self {
            statements: (self.statements - earlier.statements - less.statements) / count,
            commits: (self.commits - earlier.commits - less.commits) / count,
        }
    }

    /// Measures the costs of starting and stopping a server.
    pub(super) async fn of_idle_server(setup: &Setup, server: &WebhookServer) -> Result<Self> {
        let before = Self::read(setup).await?;
        let node = server.start(&[])?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        node.stop()?;
        Ok(Self::read(setup).await?.each(&before, &Self::default(), 1))
    }
}

/// A server, and the cost of starting and stopping it, which is subtracted from other costs.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) server: &'a WebhookServer,
    pub(super) idle_cost: &'a HookCost,
}

/// Creates messages as fast as they are delivered, for the duration of the load.
pub(super) async fn measure(
    setup: &Setup,
    subject: &Subject<'_>,
    sink: &mut Sink,
    load: &HookLoad,
) -> Result<Rate> {
    let Subject { server, idle_cost } = *subject;
    let before = HookCost::read(setup).await?;
    let node = server.start(&[])?;
    let meter = Meter { server: node.pid(), postgres: setup.database.postmaster };
    let base = sink.count().await?;
    let (seen, watched) = watch::channel(Some(0));
    let creators = LocalSet::new();
    let created = Rc::new(std::cell::Cell::new(0));
    let mut tasks = JoinSet::new();
    for connection in BenchConnection::open_all(node.address(), load.connections() as usize).await?
    {
        let creator = create(connection, load.clone(), Rc::clone(&created), watched.clone());
        tasks.spawn_local_on(creator, &creators);
    }
    let measured = async {
        watch_for(sink, &seen, base, load.warm_up).await?;
        let (first, began, used) = (sink.count().await?, Instant::now(), meter.read());
        watch_for(sink, &seen, base, load.window).await?;
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
    let cost = HookCost::read(setup).await?.each(&before, idle_cost, all);
    Ok(Rate { deliveries, cpu, cost })
}

/// Reports to the creators how many deliveries have arrived, for a time.
async fn watch_for(
    sink: &mut Sink,
    seen: &watch::Sender<Option<u64>>,
    base: u64,
    time: Duration,
) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        seen.send_replace(Some(sink.count().await? - base));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn create(
    mut connection: BenchConnection,
    load: HookLoad,
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
        connection.call(&create_message_request(&load.uid)).await?.expect(202)?;
    }
}

/// Measures the maximum rate of the receiver, in requests per second directly from this program.
pub(super) async fn ceiling(sink: &mut Sink, window: Duration) -> Result<f64> {
    let until = Instant::now() + window;
    let mut tasks = JoinSet::new();
    let (before, began) = (sink.count().await?, Instant::now());
    for mut connection in BenchConnection::open_all(sink.address(), CEILING_CONNECTIONS).await? {
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
