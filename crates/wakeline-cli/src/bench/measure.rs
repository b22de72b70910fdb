//! One way of waiting, measured on some nodes of this process.
//!
//! # Where it sits
//! A dispatcher of the designs waits on two queues; here it is a parked pop on each of two queues,
//! so that their formulas hold as they stand.
//!
//! # Invariants
//! * A message is pushed when all dispatchers are parked, and the next one when they are again:
//!   what is counted belongs to one message.
//! * Every wait has an end.

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
use wakeline_queue::{Pop, Popped, QueueService, QueueServiceOptions};
use wakeline_store::{PushItem, Store};
use wakeline_wake::{AggressiveOn, LongPollConfig, Snapshot, WakeMode};

use super::place::Place;
use super::ways::{Shape, Way};

/// The queues that stand for those of turns and of activities.
const QUEUES: [&str; 2] = ["turns", "activities"];
/// The longest time for anything that should take milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a benchmark: no dispatcher comes back because its time is over.
const LONG: Duration = Duration::from_secs(86_400);
/// Time for what a message sets off to come to rest.
const REST: Duration = Duration::from_millis(20);
const RESTS_MAX: usize = 25;
/// Nodes in one process on a busy machine answer hints late. That is to be seen in the latencies,
/// and must not make them poll.
const LATE: Duration = Duration::from_secs(2);
/// The minute of polling that a wake starts must not end while it is watched.
const AGGRESSIVE_MAX: Duration = Duration::from_secs(50);
/// Empty claims come 1, 3, 7 and 12 intervals after the last message, and every five of them from
/// then on: the pace has become slow after seven.
const SLOW_AFTER: u32 = 7;

/// How much each way is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Messages, one at a time; half of it in ways that poll.
    pub(super) pushes: u32,
    /// Idle time.
    pub(super) idle: Duration,
}

/// What was measured of one way on so many nodes.
pub(super) struct Measured {
    pub(super) way: Way,
    pub(super) shape: Shape,
    /// If it was left idle.
    pub(super) idle: Option<Idle>,
    /// Claims of all messages; of ways that go by the clock, those until each was received.
    claims: u64,
    /// Statements of a message, with its push; not of ways that go by the clock.
    pub(super) statements_per_event: Option<f64>,
    /// From the commit of each message to its dispatcher, in microseconds and in order.
    pub(super) pick_ups: Vec<u64>,
    /// Why a node polled at the end although its mode does not.
    pub(super) degraded: Option<String>,
}

/// What happened while nothing did.
pub(super) struct Idle {
    /// Claims and safety sweeps a second.
    pub(super) calls: f64,
    /// Statements a second, if the database counts them.
    pub(super) statements: Option<f64>,
    /// Milliseconds of this process's processor time a second for each node.
    pub(super) processor_ms: f64,
}

impl Measured {
    pub(super) fn claims_per_event(&self) -> f64 {
        self.claims as f64 / self.pick_ups.len().max(1) as f64
    }

    /// A quantile of the pick-up latencies.
    pub(super) fn quantile(&self, quantile: f64) -> u64 {
        let place = (self.pick_ups.len() as f64 * quantile) as usize;
        let last = self.pick_ups.len().saturating_sub(1);
        self.pick_ups.get(place.min(last)).copied().unwrap_or(0)
    }
}

/// Measures one way.
pub(super) async fn way(
    place: &Place,
    (way, shape): (Way, Shape),
    plan: Plan,
) -> anyhow::Result<Measured> {
    let stage = Stage::start(place, way, shape).await?;
    let measured = stage.measure(place, plan).await;
    stage.stop().await;
    measured
}

/// Nodes whose dispatchers wait in one way, and one that pushes, on which nobody waits.
struct Stage {
    way: Way,
    shape: Shape,
    waiting: Vec<Node>,
    pushing: Node,
}

impl Stage {
    async fn start(place: &Place, way: Way, shape: Shape) -> anyhow::Result<Self> {
        let pushing = Node::start(place, WakeMode::Fused, LongPollConfig::default()).await?;
        let long_poll = LongPollConfig {
            max_wait_time: LONG,
            notify_delivery_timeout: LATE,
            intentions_max: shape.dispatchers * QUEUES.len(),
            aggressive_on: match way.aggressive {
                true => AggressiveOn::AnyWake,
                false => AggressiveOn::Degraded,
            },
            ..LongPollConfig::default()
        };
        let mut waiting = Vec::new();
        for _ in 0..shape.nodes {
            waiting.push(Node::start(place, way.mode, long_poll.clone()).await?);
        }
        Ok(Self { way, shape, waiting, pushing })
    }

    async fn measure(&self, place: &Place, plan: Plan) -> anyhow::Result<Measured> {
        let mut dispatchers = Dispatchers::park(self).await?;
        // The first message makes the queue, shows that hints arrive, and in the aggressive way
        // starts the polling that is to be seen.
        dispatchers.one(self).await?;
        let idle = self.idle(place, plan.idle).await;
        let polls = !self.way.mode.uses_hints();
        let pushes = if polls { plan.pushes.div_ceil(2) } else { plan.pushes };
        let before = place.statements().await;
        let (mut claims, mut pick_ups) = (0, Vec::new());
        for push in 0..pushes {
            self.some_moment(push).await;
            let (claimed, pick_up) = dispatchers.one(self).await?;
            claims += claimed;
            pick_ups.push(u64::try_from(pick_up.as_micros()).unwrap_or(u64::MAX));
        }
        let statements = difference(before, place.statements().await);
        let statements = statements.filter(|_| !self.way.is_by_the_clock());
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

    /// What happens while nothing does.
    async fn idle(&self, place: &Place, window: Duration) -> Option<Idle> {
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
        let statements = place.statements().await;
        let (before, processor, began) = (calls(), processor_time(), Instant::now());
        let window = if self.way.aggressive { window.min(AGGRESSIVE_MAX) } else { window };
        tokio::time::sleep(window).await;
        let (calls, processor) = (calls() - before, processor_time().saturating_sub(processor));
        let seconds = began.elapsed().as_secs_f64();
        let statements = difference(statements, place.statements().await);
        let nodes = self.waiting.len().max(1) as f64;
        Some(Idle {
            calls: calls as f64 / seconds,
            statements: statements.map(|count| count / seconds),
            processor_ms: processor.as_secs_f64() * 1000.0 / seconds / nodes,
        })
    }

    /// Ways that poll: waits for some moment of an interval, after so long a quiet time that a pace
    /// that adapts has become slow.
    async fn some_moment(&self, push: u32) {
        let WakeMode::Poll(poll) = self.way.mode else { return };
        let (least, intervals) = if poll.adaptive { (SLOW_AFTER, 5) } else { (0, 1) };
        // Evenly spread, in an order without a rhythm.
        let part = (f64::from(push) * 0.618_034).fract();
        tokio::time::sleep(poll.interval * least + (poll.interval * intervals).mul_f64(part)).await;
    }

    fn snapshots(&self) -> impl Iterator<Item = Snapshot> {
        self.waiting.iter().map(|node| node.service.wake_snapshot())
    }

    fn claims(&self) -> u64 {
        self.snapshots().map(|node| node.counters.claims.total()).sum()
    }

    /// Waits until nothing is claimed any more, unless it is by the clock; not for ever.
    async fn at_rest(&self) {
        if self.way.is_by_the_clock() {
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

    /// Waits until all are parked.
    async fn parked(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let all = self.shape.dispatchers * QUEUES.len();
        while self.snapshots().any(|node| node.waiters < all) {
            if began.elapsed() > PATIENCE {
                bail!("the dispatchers are not parked after {} s", PATIENCE.as_secs());
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

/// How many came between two counts.
fn difference(before: Option<u64>, after: Option<u64>) -> Option<f64> {
    Some(after?.saturating_sub(before?) as f64)
}

/// The processor time of this process, in which all nodes are.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

/// A queue service over a store that was opened for it, which hears of the other ones.
struct Node {
    store: Arc<dyn Store>,
    service: QueueService,
    listening: CancellationToken,
}

impl Node {
    async fn start(
        place: &Place,
        mode: WakeMode,
        long_poll: LongPollConfig,
    ) -> anyhow::Result<Self> {
        let store = place.open().await?;
        let options = QueueServiceOptions { mode, long_poll, figures_kept: None };
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
        let _ = tokio::time::timeout(PATIENCE, self.service.settled()).await;
        self.listening.cancel();
        self.store.close().await;
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a valid name")
}

fn pop(name: &str) -> Pop {
    Pop {
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

/// Those who wait: until they get something, and then until they may go on.
struct Dispatchers {
    tasks: JoinSet<anyhow::Result<()>>,
    had: mpsc::UnboundedReceiver<Instant>,
    go_on: Arc<Notify>,
}

impl Dispatchers {
    async fn park(stage: &Stage) -> anyhow::Result<Self> {
        let (having, had) = mpsc::unbounded_channel();
        let (mut tasks, go_on) = (JoinSet::new(), Arc::new(Notify::new()));
        for node in &stage.waiting {
            for index in 0..stage.shape.dispatchers * QUEUES.len() {
                let pop = pop(QUEUES[index % QUEUES.len()]);
                let (service, having) = (node.service.clone(), having.clone());
                tasks.spawn(dispatch(service, pop, (having, Arc::clone(&go_on))));
            }
        }
        stage.parked().await?;
        Ok(Self { tasks, had, go_on })
    }

    /// Pushes one message, and waits until it was received and all are parked again. Returns what
    /// it took in claims, and how soon it was received.
    async fn one(&mut self, stage: &Stage) -> anyhow::Result<(u64, Duration)> {
        let before = stage.claims();
        stage.pushing.push().await?;
        let pushed = Instant::now();
        let had = tokio::select! {
            had = self.had.recv() => had.context("no dispatcher is left")?,
            ended = self.tasks.join_next() => {
                ended.context("no dispatcher is left")???;
                bail!("a dispatcher ended");
            }
            () = tokio::time::sleep(PATIENCE) => {
                bail!("a message was not picked up in {} s", PATIENCE.as_secs())
            }
        };
        stage.at_rest().await;
        let claims = stage.claims() - before;
        self.go_on.notify_one();
        stage.parked().await?;
        Ok((claims, had.saturating_duration_since(pushed)))
    }
}

async fn dispatch(
    service: QueueService,
    pop: Pop,
    (having, go_on): (mpsc::UnboundedSender<Instant>, Arc<Notify>),
) -> anyhow::Result<()> {
    loop {
        match service.pop(pop.clone()).await? {
            Popped::Granted(_) if having.send(Instant::now()).is_ok() => go_on.notified().await,
            Popped::Empty | Popped::Paused => (),
            Popped::Granted(_) | Popped::Drained => return Ok(()),
        }
    }
}
