//! The load generator: connections that push, or pop and ack, as fast as they are answered.
//!
//! # Where it sits
//! The queue and hints benchmarks describe a load and get figures back. It runs on the main
//! thread of this process alone, so that its share of the processor shows as its own.
//!
//! # Invariants
//! * All connections are open before the first request; what happens before the warm-up is over
//!   counts nowhere.
//! * An answer that is not the expected one ends the measurement as a failure.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::client::Connection;
use crate::cpu::{Meter, Usage};
use crate::table::{latencies, micros};
use crate::wire;

/// Partitions of every queue that is measured.
pub(crate) const PARTITIONS: usize = 64;
/// Messages in a request that fills a queue for pops.
const FILL_BATCH: usize = 100;
const FILL_CONNECTIONS: usize = 16;

/// Who is measured, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    /// Whose processor time is read.
    pub(crate) meter: Meter,
    /// How long to go before measuring.
    pub(crate) warm_up: Duration,
    /// How long to measure.
    pub(crate) window: Duration,
}

/// What to send.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// The queue.
    pub(crate) queue: String,
    /// Messages per request.
    pub(crate) batch: usize,
    /// Connections, each with one request at a time.
    pub(crate) connections: usize,
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Answered requests a second; for pops, answered pairs of a pop and an ack.
    pub(crate) requests: f64,
    /// Messages a second.
    pub(crate) messages: f64,
    /// Half of the requests took at most so many microseconds.
    pub(crate) p50: f64,
    /// 99 of 100 requests took at most so many microseconds.
    pub(crate) p99: f64,
    /// Processor time used, in seconds per second.
    pub(crate) cpu: Usage,
}

/// Pushes for a while.
pub(crate) async fn push(target: &Target, load: &Load) -> Result<Measured> {
    let requests: Vec<_> =
        (0..PARTITIONS).map(|partition| wire::push(&load.queue, partition, load.batch)).collect();
    let requests = Arc::new(requests);
    let tally = Arc::new(Tally::new());
    let mut tasks = Vec::with_capacity(load.connections);
    let connections = Connection::open_all(target.address, load.connections).await?;
    for (index, connection) in connections.into_iter().enumerate() {
        let (requests, tally, batch) = (Arc::clone(&requests), Arc::clone(&tally), load.batch);
        let pusher = Pusher { connection, requests, next: index, batch };
        tasks.push(tokio::spawn(async move { tally.guard(pusher.run(&tally).await) }));
    }
    tally.watch(target, tasks).await
}

/// Pushes for a while, each request to as many partitions as it has messages.
pub(crate) async fn push_spread(
    target: &Target,
    load: &Load,
    partitions: usize,
) -> Result<Measured> {
    let tally = Arc::new(Tally::new());
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::with_capacity(load.connections);
    for mut connection in Connection::open_all(target.address, load.connections).await? {
        let (tally, next, load) = (Arc::clone(&tally), Arc::clone(&next), load.clone());
        tasks.push(tokio::spawn(async move {
            let pushed = async {
                while tally.goes_on() {
                    let first = next.fetch_add(load.batch, Ordering::Relaxed);
                    let request = wire::push_spread(&load.queue, first, load.batch, partitions);
                    let sent = Instant::now();
                    connection.call(&request).await?.expect(201)?;
                    tally.count(load.batch, sent.elapsed());
                }
                Ok(())
            };
            tally.guard(pushed.await)
        }));
    }
    tally.watch(target, tasks).await
}

/// Pops and acks for a while, or until the backlog of so many messages is used up.
pub(crate) async fn pop(target: &Target, load: &Load, backlog: u64) -> Result<Measured> {
    let request = wire::pop(&load.queue, load.batch);
    let asks = vec![Ask { request, group: None }; load.connections];
    pop_as(target, asks, backlog).await
}

/// What a connection pops, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The request.
    pub(crate) request: Vec<u8>,
    /// The group, unless there is none.
    pub(crate) group: Option<String>,
}

/// Pops and acks for a while, a connection for each of `asks`, or until there were so many
/// deliveries.
pub(crate) async fn pop_as(target: &Target, asks: Vec<Ask>, backlog: u64) -> Result<Measured> {
    let tally = Arc::new(Tally::new());
    let mut tasks = Vec::with_capacity(asks.len());
    let connections = Connection::open_all(target.address, asks.len()).await?;
    for (connection, ask) in connections.into_iter().zip(asks) {
        let tally = Arc::clone(&tally);
        let popper = Popper { connection, ask, backlog };
        tasks.push(tokio::spawn(async move { tally.guard(popper.run(&tally).await) }));
    }
    tally.watch(target, tasks).await
}

/// Puts at least so many messages into a queue, evenly over its partitions. Returns how many.
pub(crate) async fn fill(address: SocketAddr, queue: &str, messages: u64) -> Result<u64> {
    let per_partition = messages.div_ceil((PARTITIONS * FILL_BATCH) as u64);
    let mut tasks = Vec::new();
    for (index, mut connection) in
        Connection::open_all(address, FILL_CONNECTIONS).await?.into_iter().enumerate()
    {
        let own = (index..PARTITIONS).step_by(FILL_CONNECTIONS);
        let requests: Vec<_> =
            own.map(|partition| wire::push(queue, partition, FILL_BATCH)).collect();
        tasks.push(tokio::spawn(async move {
            for _ in 0..per_partition {
                for request in &requests {
                    connection.call(request).await?.expect(201)?;
                }
            }
            Ok::<_, anyhow::Error>(())
        }));
    }
    for task in tasks {
        task.await.context("a filling task ended")??;
    }
    Ok(per_partition * (PARTITIONS * FILL_BATCH) as u64)
}

/// Puts at least so many messages into a queue, one after the other into each partition.
pub(crate) async fn fill_spread(
    address: SocketAddr,
    queue: &str,
    messages: u64,
    partitions: usize,
) -> Result<()> {
    let requests = usize::try_from(messages)?.div_ceil(FILL_BATCH);
    let mut tasks = Vec::new();
    for (index, mut connection) in
        Connection::open_all(address, FILL_CONNECTIONS).await?.into_iter().enumerate()
    {
        let queue = queue.to_owned();
        tasks.push(tokio::spawn(async move {
            for turn in (index..requests).step_by(FILL_CONNECTIONS) {
                let request = wire::push_spread(&queue, turn * FILL_BATCH, FILL_BATCH, partitions);
                connection.call(&request).await?.expect(201)?;
            }
            Ok::<_, anyhow::Error>(())
        }));
    }
    for task in tasks {
        task.await.context("a filling task ended")??;
    }
    Ok(())
}

struct Pusher {
    connection: Connection,
    requests: Arc<Vec<Vec<u8>>>,
    next: usize,
    batch: usize,
}

impl Pusher {
    async fn run(mut self, tally: &Tally) -> Result<()> {
        while tally.goes_on() {
            let request = &self.requests[self.next % PARTITIONS];
            // Neighbours stay apart: each connection walks the partitions from its own place.
            self.next += 1;
            let sent = Instant::now();
            self.connection.call(request).await?.expect(201)?;
            tally.count(self.batch, sent.elapsed());
        }
        Ok(())
    }
}

struct Popper {
    connection: Connection,
    ask: Ask,
    backlog: u64,
}

impl Popper {
    async fn run(mut self, tally: &Tally) -> Result<()> {
        while tally.goes_on() {
            let sent = Instant::now();
            let answer = self.connection.call(&self.ask.request).await?;
            if answer.status == 204 {
                self.rest(tally).await;
                continue;
            }
            let popped = wire::Popped::parse(answer.expect(200)?)?;
            let (len, ack) = (popped.len(), popped.ack_for(self.ask.group.as_deref()));
            let answer = self.connection.call(&ack).await?;
            ensure!(wire::all_acked(answer.expect(200)?), "an ack was refused");
            tally.count(len, sent.elapsed());
        }
        Ok(())
    }

    /// Nothing was there: near the end of the backlog that ends the measurement.
    async fn rest(&self, tally: &Tally) {
        let done = tally.messages.load(Ordering::Relaxed);
        if done >= self.backlog / 10 * 9 {
            tally.used_up.notify_one();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What the connections of one measurement count together.
pub(crate) struct Tally {
    stop: AtomicBool,
    measuring: AtomicBool,
    requests: AtomicU64,
    messages: AtomicU64,
    latencies: Mutex<Histogram<u64>>,
    used_up: Notify,
}

impl Tally {
    /// Nothing counted yet.
    pub(crate) fn new() -> Self {
        Self {
            stop: AtomicBool::new(false),
            measuring: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            latencies: Mutex::new(latencies()),
            used_up: Notify::new(),
        }
    }

    /// Whether to send another request.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// A connection that failed ends the measurement at once.
    pub(crate) fn guard(&self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.stop.store(true, Ordering::Relaxed);
            self.used_up.notify_one();
        }
        result
    }

    /// Counts an answered request.
    pub(crate) fn count(&self, messages: usize, latency: Duration) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.messages.fetch_add(messages as u64, Ordering::Relaxed);
        if self.measuring.load(Ordering::Relaxed) {
            let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
            latencies.saturating_record(micros(latency));
        }
    }

    /// Measures what the tasks count, then ends them.
    pub(crate) async fn watch(
        &self,
        target: &Target,
        tasks: Vec<JoinHandle<Result<()>>>,
    ) -> Result<Measured> {
        self.pass(target.warm_up).await;
        self.measuring.store(true, Ordering::Relaxed);
        let (before, began) = (self.reading(target), Instant::now());
        self.pass(target.window).await;
        let (after, elapsed) = (self.reading(target), began.elapsed().as_secs_f64());
        self.measuring.store(false, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.context("a connection's task ended")??;
        }
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Measured {
            requests: (after.requests - before.requests) as f64 / elapsed,
            messages: (after.messages - before.messages) as f64 / elapsed,
            p50: latencies.value_at_quantile(0.5) as f64,
            p99: latencies.value_at_quantile(0.99) as f64,
            cpu: after.cpu.since(&before.cpu, elapsed),
        })
    }

    async fn pass(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.used_up.notified() => {}
        }
    }

    fn reading(&self, target: &Target) -> Reading {
        Reading {
            requests: self.requests.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
            cpu: target.meter.read(),
        }
    }
}

struct Reading {
    requests: u64,
    messages: u64,
    cpu: Usage,
}
