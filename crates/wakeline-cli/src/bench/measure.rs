//! Measures one way of waiting, on nodes that run in this process.
//!
//! # Where it sits
//! In the designs a dispatcher waits on two queues. Here it is a parked pop on each of two queues,
//! so that the formulas of the designs apply unchanged.
//!
//! # Invariants
//! * A message is pushed only while all dispatchers are parked, and the next one when they are
//!   parked again, so that everything that is counted belongs to one message.
//! * Every wait has a timeout.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    GroupName, MessageId, PartitionName, QueueLine, QueueName, Selector, Subscription,
    TransactionId,
};
use wakeline_queue::{PopCommand, PopOutcome, QueueService, QueueServiceOptions};
use wakeline_store::{PushItem, Store};
use wakeline_wake::{AggressiveOn, LongPollConfig, Snapshot, WakeMode};

use super::temporary_store::TemporaryStore;
use super::ways::{ClusterShape, Way};

/// The queues that represent the queue of turns and the queue of activities.
const QUEUES: [&str; 2] = ["turns", "activities"];
/// Timeout of every step, each of which should take milliseconds.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// A wait that is longer than any benchmark, so that no pop returns because it timed out.
const LONG: Duration = Duration::from_secs(86_400);
/// The nodes are at rest if they made no claim for this long.
const REST: Duration = Duration::from_millis(20);
/// How often the nodes are checked before a measurement continues although they still claim.
const RESTS_MAX: usize = 25;
/// Nodes in one process on a busy machine react to hints late. That should show in the latencies,
/// and must not make the nodes poll.
const LATE: Duration = Duration::from_secs(2);
/// The longest idle measurement of an aggressive node: the minute of polling that a wake starts
/// must not end meanwhile.
const AGGRESSIVE_MAX: Duration = Duration::from_secs(50);
/// Adaptive polling makes empty claims 1, 3, 7 and 12 intervals after the last message, and every
/// five intervals from then on. It has slowed down after seven.
const SLOW_AFTER: u32 = 7;

/// How long and with how many messages each way is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct BenchPlan {
    /// Messages, one at a time; ways that poll get half of them.
    pub(super) pushes: u32,
    /// How long the nodes are left idle.
    pub(super) idle: Duration,
}

/// The measurement of one way, for one number of nodes and dispatchers.
pub(super) struct Measured {
    pub(super) way: Way,
    pub(super) shape: ClusterShape,
    /// `None` if no idle time was configured.
    pub(super) idle: Option<Idle>,
    /// Claims that all messages caused. Ways that poll claim all the time: for them, the claims
    /// until each message was received.
    claims: u64,
    /// Statements for one message, including its push. `None` for ways that poll.
    pub(super) statements_per_event: Option<f64>,
    /// Time from the commit of each message until a dispatcher has it, in microseconds, sorted.
    pub(super) pick_ups: Vec<u64>,
    /// Why a node was polling at the end although its mode does not poll.
    pub(super) degraded: Option<String>,
}

/// What the nodes did while there were no messages, per second.
pub(super) struct Idle {
    /// Claims and safety sweeps.
    pub(super) calls: f64,
    /// Statements, if the database counts them.
    pub(super) statements: Option<f64>,
    /// Processor time of this process for each node, in milliseconds.
    pub(super) processor_ms: f64,
}

impl Measured {
    pub(super) fn claims_per_event(&self) -> f64 {
        self.claims as f64 / self.pick_ups.len().max(1) as f64
    }

    /// A quantile of the pick-up latencies, in microseconds.
    pub(super) fn quantile(&self, quantile: f64) -> u64 {
        let index = (self.pick_ups.len() as f64 * quantile) as usize;
        let last = self.pick_ups.len().saturating_sub(1);
        self.pick_ups.get(index.min(last)).copied().unwrap_or(0)
    }
}

/// Starts the nodes, measures one way and stops them.
pub(super) async fn way(
    temporary: &TemporaryStore,
    way: Way,
    shape: ClusterShape,
    plan: BenchPlan,
) -> anyhow::Result<Measured> {
    let cluster = BenchCluster::start(temporary, way, shape).await?;
    let measured = cluster.measure(temporary, plan).await;
    cluster.stop().await;
    measured
}

/// Nodes whose dispatchers wait, and one that only pushes.
struct BenchCluster {
    way: Way,
    shape: ClusterShape,
    waiting: Vec<BenchNode>,
    pushing: BenchNode,
}

impl BenchCluster {
    async fn start(
        temporary: &TemporaryStore,
        way: Way,
        shape: ClusterShape,
    ) -> anyhow::Result<Self> {
        let pushing =
            BenchNode::start(temporary, WakeMode::Fused, LongPollConfig::default()).await?;
        let long_poll = LongPollConfig {
            max_wait_time: LONG,
            notify_delivery_timeout: LATE,
            waiters_max: shape.dispatchers * QUEUES.len(),
            aggressive_on: if way.aggressive {
                AggressiveOn::AnyWake
            } else {
                AggressiveOn::Degraded
            },
            ..LongPollConfig::default()
        };
        let mut waiting = Vec::new();
        for _ in 0..shape.nodes {
            waiting.push(BenchNode::start(temporary, way.mode, long_poll.clone()).await?);
        }
        Ok(Self { way, shape, waiting, pushing })
    }

    async fn measure(
        &self,
        temporary: &TemporaryStore,
        plan: BenchPlan,
    ) -> anyhow::Result<Measured> {
        let mut dispatchers = Dispatchers::park(self).await?;
        // The first message creates the queue, shows that hints arrive, and with the aggressive
        // way starts the polling that is to be measured.
        dispatchers.one(self).await?;
        let idle = self.idle(temporary, plan.idle).await;
        let polls = !self.way.mode.uses_hints();
        let pushes = if polls { plan.pushes.div_ceil(2) } else { plan.pushes };
        let before = temporary.statements().await;
        let (mut claims, mut pick_ups) = (0, Vec::new());
        for push in 0..pushes {
            self.wait_within_interval(push).await;
            let (claimed, pick_up) = dispatchers.one(self).await?;
            claims += claimed;
            pick_ups.push(u64::try_from(pick_up.as_micros()).unwrap_or(u64::MAX));
        }
        let statements = difference(before, temporary.statements().await);
        let statements = statements.filter(|_| !self.way.claims_regularly());
        pick_ups.sort_unstable();
        let degraded = self.snapshots().find_map(|node| node.degraded);
        let degraded = degraded.filter(|_| !self.way.aggressive).map(|degraded| degraded.reason);
        Ok(Measured {
            way: self.way,
            shape: self.shape,
            idle,
            claims,
            statements_per_event: statements.map(|count| count / f64::from(pushes.max(1))),
            pick_ups,
            degraded,
        })
    }

    /// Measures the nodes while there are no messages.
    async fn idle(&self, temporary: &TemporaryStore, window: Duration) -> Option<Idle> {
        if window.is_zero() {
            return None;
        }
        if let WakeMode::Poll(poll) = self.way.mode
            && poll.adaptive
        {
            tokio::time::sleep(poll.interval * SLOW_AFTER).await;
        }
        let calls = || -> u64 {
            let counters = self.snapshots().map(|node| node.counters);
            counters.map(|counters| counters.claims.total() + counters.sweeps).sum()
        };
        let statements = temporary.statements().await;
        let (before, processor, began) = (calls(), processor_time(), Instant::now());
        let window = if self.way.aggressive { window.min(AGGRESSIVE_MAX) } else { window };
        tokio::time::sleep(window).await;
        let (calls, processor) = (calls() - before, processor_time().saturating_sub(processor));
        let seconds = began.elapsed().as_secs_f64();
        let statements = difference(statements, temporary.statements().await);
        let nodes = self.waiting.len().max(1) as f64;
        Some(Idle {
            calls: calls as f64 / seconds,
            statements: statements.map(|count| count / seconds),
            processor_ms: processor.as_secs_f64() * 1000.0 / seconds / nodes,
        })
    }

    /// For ways that poll, waits for an arbitrary point within a polling interval. Adaptive polling
    /// gets time to slow down first.
    async fn wait_within_interval(&self, push: u32) {
        let WakeMode::Poll(poll) = self.way.mode else { return };
        let (least, intervals) = if poll.adaptive { (SLOW_AFTER, 5) } else { (0, 1) };
        // Steps of the golden ratio are evenly spread and do not follow the polling interval.
        let part = (f64::from(push) * 0.618_034).fract();
        tokio::time::sleep(poll.interval * least + (poll.interval * intervals).mul_f64(part)).await;
    }

    fn snapshots(&self) -> impl Iterator<Item = Snapshot> {
        self.waiting.iter().map(|node| node.service.wake_snapshot())
    }

    fn claims(&self) -> u64 {
        self.snapshots().map(|node| node.counters.claims.total()).sum()
    }

    /// Waits until no node claims any more, for a limited time. Ways that poll always claim, so
    /// that it returns at once for them.
    async fn at_rest(&self) {
        if self.way.claims_regularly() {
            return;
        }
        for _ in 0..RESTS_MAX {
            let before = self.claims();
            tokio::time::sleep(REST).await;
            let busy = self.snapshots().any(|node| node.claims_in_flight + node.claims_queued > 0);
            if !busy && self.claims() == before {
                return;
            }
        }
    }

    /// Waits until all dispatchers are parked.
    async fn parked(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let all = self.shape.dispatchers * QUEUES.len();
        while self.snapshots().any(|node| node.waiters < all) {
            if began.elapsed() > STEP_TIMEOUT {
                bail!("not all dispatchers wait for messages after {} s", STEP_TIMEOUT.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.at_rest().await;
        Ok(())
    }

    async fn stop(self) {
        for node in self.waiting.into_iter().chain([self.pushing]) {
            node.stop().await;
        }
    }
}

/// The difference of two counts, if both are known.
fn difference(before: Option<u64>, after: Option<u64>) -> Option<f64> {
    Some(after?.saturating_sub(before?) as f64)
}

/// The processor time of this process, which all nodes run in.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

/// A queue service on a store of its own, which receives the hints of the other nodes.
struct BenchNode {
    store: Arc<dyn Store>,
    service: QueueService,
    listening: CancellationToken,
}

impl BenchNode {
    async fn start(
        temporary: &TemporaryStore,
        mode: WakeMode,
        long_poll: LongPollConfig,
    ) -> anyhow::Result<Self> {
        let store = temporary.open().await?;
        let options = QueueServiceOptions { mode, long_poll, statistics_kept: None };
        let service = QueueService::start(Arc::clone(&store), options);
        let listening = CancellationToken::new();
        let (listener, stop) = (service.clone(), listening.clone());
        tokio::spawn(async move { listener.listen(stop).await });
        Ok(Self { store, service, listening })
    }

    async fn push(&self) -> anyhow::Result<()> {
        let item = PushItem {
            queue: queue(QUEUES[0]),
            partition: PartitionName::default_partition(),
            id: MessageId::generate(),
            transaction_id: TransactionId::generate(),
            trace_id: None,
            payload: Bytes::from_static(b"{}"),
            producer: None,
        };
        self.service.push(vec![item]).await?;
        Ok(())
    }

    async fn stop(self) {
        self.service.drain();
        let _ = tokio::time::timeout(STEP_TIMEOUT, self.service.wait_for_claims()).await;
        self.listening.cancel();
        self.store.close().await;
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a valid name")
}

fn pop(name: &str) -> PopCommand {
    PopCommand {
        line: QueueLine { selector: Selector::Queue(queue(name)), group: GroupName::queue_mode() },
        subscription: Subscription::All,
        batch_len_max: 1,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: true,
        worker: None,
        wait: Some(LONG),
    }
}

/// Tasks that pop in a loop. Each reports when it got a message, and waits for `go_on` before it
/// pops again.
struct Dispatchers {
    tasks: JoinSet<anyhow::Result<()>>,
    received: mpsc::UnboundedReceiver<Instant>,
    go_on: Arc<Notify>,
}

impl Dispatchers {
    async fn park(cluster: &BenchCluster) -> anyhow::Result<Self> {
        let (report, received) = mpsc::unbounded_channel();
        let (mut tasks, go_on) = (JoinSet::new(), Arc::new(Notify::new()));
        for node in &cluster.waiting {
            for index in 0..cluster.shape.dispatchers * QUEUES.len() {
                let pop = pop(QUEUES[index % QUEUES.len()]);
                let (service, report) = (node.service.clone(), report.clone());
                tasks.spawn(dispatch(service, pop, report, Arc::clone(&go_on)));
            }
        }
        cluster.parked().await?;
        Ok(Self { tasks, received, go_on })
    }

    /// Pushes one message, and waits until it was received and all dispatchers are parked again.
    /// Returns the number of claims, and the time until the message was received.
    async fn one(&mut self, cluster: &BenchCluster) -> anyhow::Result<(u64, Duration)> {
        let before = cluster.claims();
        cluster.pushing.push().await?;
        let pushed = Instant::now();
        let received = tokio::select! {
            received = self.received.recv() => received.context("no dispatcher is left")?,
            ended = self.tasks.join_next() => {
                ended.context("no dispatcher is left")???;
                bail!("a dispatcher ended");
            }
            () = tokio::time::sleep(STEP_TIMEOUT) => {
                bail!("a message was not picked up in {} s", STEP_TIMEOUT.as_secs())
            }
        };
        cluster.at_rest().await;
        let claims = cluster.claims() - before;
        self.go_on.notify_one();
        cluster.parked().await?;
        Ok((claims, received.saturating_duration_since(pushed)))
    }
}

/// Pops in a loop until the node drains, and reports each message that it receives.
async fn dispatch(
    service: QueueService,
    pop: PopCommand,
    report: mpsc::UnboundedSender<Instant>,
    go_on: Arc<Notify>,
) -> anyhow::Result<()> {
    loop {
        match service.pop(pop.clone()).await? {
            PopOutcome::Claimed(_) if report.send(Instant::now()).is_ok() => go_on.notified().await,
            PopOutcome::Empty | PopOutcome::Paused => (),
            PopOutcome::Claimed(_) | PopOutcome::Drained => return Ok(()),
        }
    }
}
