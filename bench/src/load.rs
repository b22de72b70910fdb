//! The load generator: connections that push, or pop and ack, as fast as they are answered.
//!
//! # Where it sits
//! The queue and hints benchmarks describe a load and get the results. The generator runs only on
//! the main thread of this process, so that its processor time is measured separately.
//!
//! # Invariants
//! * All connections are opened before the first request, and requests during the warm-up are not
//!   counted.
//! * An unexpected answer ends the measurement with an error.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::client::BenchConnection;
use crate::cpu::{Meter, Usage};
use crate::table::{latencies, micros};
use crate::wire;

/// Number of partitions of every measured queue.
pub(crate) const PARTITIONS: usize = 64;
/// Number of messages in a request that fills a queue for pops.
const FILL_BATCH: usize = 100;
const FILL_CONNECTIONS: usize = 16;

/// The server that is measured, and the duration of the measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadTarget {
    /// The address of the server.
    pub(crate) address: SocketAddr,
    /// Reads the processor time.
    pub(crate) meter: Meter,
    /// Duration of the warm-up.
    pub(crate) warm_up: Duration,
    /// Duration of the measurement.
    pub(crate) window: Duration,
}

/// The requests to send.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// The queue.
    pub(crate) queue: String,
    /// Messages per request.
    pub(crate) batch: usize,
    /// Number of connections, each of which has one request in flight.
    pub(crate) connections: usize,
}

/// The results of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadMeasurement {
    /// Answered requests per second; for pops, answered pairs of a pop and an ack.
    pub(crate) requests: f64,
    /// Messages per second.
    pub(crate) messages: f64,
    /// Median latency of requests, in microseconds.
    pub(crate) p50: f64,
    /// 99th percentile of the latency of requests, in microseconds.
    pub(crate) p99: f64,
    /// Processor time used, in seconds per second.
    pub(crate) cpu: Usage,
}

/// Pushes for the duration of the target.
pub(crate) async fn push(target: &LoadTarget, load: &Load) -> Result<LoadMeasurement> {
    let requests: Vec<_> =
        (0..PARTITIONS).map(|partition| wire::push(&load.queue, partition, load.batch)).collect();
    let requests = Arc::new(requests);
    let counters = Arc::new(LoadCounters::new());
    let mut tasks = Vec::with_capacity(load.connections);
    let connections = BenchConnection::open_all(target.address, load.connections).await?;
    for (index, connection) in connections.into_iter().enumerate() {
        let (requests, counters, batch) =
            (Arc::clone(&requests), Arc::clone(&counters), load.batch);
        let pusher = Pusher { connection, requests, next: index, batch };
        tasks
            .push(tokio::spawn(async move { counters.stop_on_error(pusher.run(&counters).await) }));
    }
    counters.watch(target, tasks).await
}

/// Pushes for the duration of the target. Each request has one message for each of several
/// partitions.
pub(crate) async fn push_spread(
    target: &LoadTarget,
    load: &Load,
    partitions: usize,
) -> Result<LoadMeasurement> {
    let counters = Arc::new(LoadCounters::new());
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::with_capacity(load.connections);
    for mut connection in BenchConnection::open_all(target.address, load.connections).await? {
        let (counters, next, load) = (Arc::clone(&counters), Arc::clone(&next), load.clone());
        tasks.push(tokio::spawn(async move {
            let pushed = async {
                while counters.is_running() {
                    let first = next.fetch_add(load.batch, Ordering::Relaxed);
                    let request = wire::push_spread(&load.queue, first, load.batch, partitions);
                    let sent = Instant::now();
                    connection.call(&request).await?.expect(201)?;
                    counters.count(load.batch, sent.elapsed());
                }
                Ok(())
            };
            counters.stop_on_error(pushed.await)
        }));
    }
    counters.watch(target, tasks).await
}

/// Pops and acks for the duration of the target, or until the backlog is exhausted.
pub(crate) async fn pop(target: &LoadTarget, load: &Load, backlog: u64) -> Result<LoadMeasurement> {
    let bytes = wire::pop(&load.queue, load.batch);
    let requests = vec![BenchPop { bytes, group: None }; load.connections];
    pop_as(target, requests, backlog).await
}

/// The pop that a connection sends.
#[derive(Debug, Clone)]
pub(crate) struct BenchPop {
    /// The bytes of the request.
    pub(crate) bytes: Vec<u8>,
    /// The consumer group, if there is one.
    pub(crate) group: Option<String>,
}

/// Pops and acks for the duration of the target, with one connection for each request, or until
/// there were `backlog` deliveries.
pub(crate) async fn pop_as(
    target: &LoadTarget,
    requests: Vec<BenchPop>,
    backlog: u64,
) -> Result<LoadMeasurement> {
    let counters = Arc::new(LoadCounters::new());
    let mut tasks = Vec::with_capacity(requests.len());
    let connections = BenchConnection::open_all(target.address, requests.len()).await?;
    for (connection, request) in connections.into_iter().zip(requests) {
        let counters = Arc::clone(&counters);
        let popper = Popper { connection, request, backlog };
        tasks
            .push(tokio::spawn(async move { counters.stop_on_error(popper.run(&counters).await) }));
    }
    counters.watch(target, tasks).await
}

/// Pushes at least this many messages to a queue, evenly distributed over its partitions. Returns
/// their number.
pub(crate) async fn fill(address: SocketAddr, queue: &str, messages: u64) -> Result<u64> {
    let per_partition = messages.div_ceil((PARTITIONS * FILL_BATCH) as u64);
    let mut tasks = Vec::new();
    for (index, mut connection) in
        BenchConnection::open_all(address, FILL_CONNECTIONS).await?.into_iter().enumerate()
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

/// Pushes at least this many messages to a queue, one after the other to each partition.
pub(crate) async fn fill_spread(
    address: SocketAddr,
    queue: &str,
    messages: u64,
    partitions: usize,
) -> Result<()> {
    let requests = usize::try_from(messages)?.div_ceil(FILL_BATCH);
    let mut tasks = Vec::new();
    for (index, mut connection) in
        BenchConnection::open_all(address, FILL_CONNECTIONS).await?.into_iter().enumerate()
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

/// A connection that pushes.
struct Pusher {
    connection: BenchConnection,
    requests: Arc<Vec<Vec<u8>>>,
    next: usize,
    batch: usize,
}

impl Pusher {
    async fn run(mut self, counters: &LoadCounters) -> Result<()> {
        while counters.is_running() {
            let request = &self.requests[self.next % PARTITIONS];
            // Each connection goes through the partitions from a different start, so that they
            // rarely use the same partition.
            self.next += 1;
            let sent = Instant::now();
            self.connection.call(request).await?.expect(201)?;
            counters.count(self.batch, sent.elapsed());
        }
        Ok(())
    }
}

/// A connection that pops and acks.
struct Popper {
    connection: BenchConnection,
    request: BenchPop,
    backlog: u64,
}

impl Popper {
    async fn run(mut self, counters: &LoadCounters) -> Result<()> {
        while counters.is_running() {
            let sent = Instant::now();
            let answer = self.connection.call(&self.request.bytes).await?;
            if answer.status == 204 {
                self.handle_empty(counters).await;
                continue;
            }
            let popped = wire::Popped::parse(answer.expect(200)?)?;
            let (len, ack) = (popped.len(), popped.ack_for(self.request.group.as_deref()));
            let answer = self.connection.call(&ack).await?;
            ensure!(wire::all_acked(answer.expect(200)?), "an ack was refused");
            counters.count(len, sent.elapsed());
        }
        Ok(())
    }

    /// Handles an empty pop. Near the end of the backlog it ends the measurement.
    async fn handle_empty(&self, counters: &LoadCounters) {
        let done = counters.messages.load(Ordering::Relaxed);
        if done >= self.backlog / 10 * 9 {
            counters.exhausted.notify_one();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The counters that the connections of one measurement share.
pub(crate) struct LoadCounters {
    stop: AtomicBool,
    measuring: AtomicBool,
    requests: AtomicU64,
    messages: AtomicU64,
    latencies: Mutex<Histogram<u64>>,
    exhausted: Notify,
}

impl LoadCounters {
    /// Creates counters that are 0.
    pub(crate) fn new() -> Self {
        Self {
            stop: AtomicBool::new(false),
            measuring: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            latencies: Mutex::new(latencies()),
            exhausted: Notify::new(),
        }
    }

    /// Whether connections send further requests.
    pub(crate) fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Ends the measurement if a connection failed.
    pub(crate) fn stop_on_error(&self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.stop.store(true, Ordering::Relaxed);
            self.exhausted.notify_one();
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

    /// Measures the requests that the tasks count, and ends the tasks.
    pub(crate) async fn watch(
        &self,
        target: &LoadTarget,
        tasks: Vec<JoinHandle<Result<()>>>,
    ) -> Result<LoadMeasurement> {
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
        Ok(LoadMeasurement {
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
            () = self.exhausted.notified() => {}
        }
    }

    fn reading(&self, target: &LoadTarget) -> LoadReading {
        LoadReading {
            requests: self.requests.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
            cpu: target.meter.read(),
        }
    }
}

/// The counters at one point in time.
struct LoadReading {
    requests: u64,
    messages: u64,
    cpu: Usage,
}
