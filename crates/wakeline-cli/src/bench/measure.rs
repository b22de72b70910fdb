//! One wake mode, measured on two nodes of this process.
//!
//! # Invariants
//! * A message is pushed when all consumers are parked, and the next one when it was had: what is
//!   counted belongs to one message.
//! * Every wait has an end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    GroupName, MessageId, PartitionName, QueueLine, QueueName, Selector, Subscription,
    TransactionId,
};
use wakeline_queue::{Pop, Popped, QueueService, QueueServiceOptions};
use wakeline_store::{PushItem, Store};
use wakeline_wake::{LongPollConfig, WakeMode};

use super::place::Place;

/// The longest time for anything that should take milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a benchmark: no consumer comes back because its time is over.
const LONG: Duration = Duration::from_secs(86_400);
/// Time for what a message sets off to come to rest.
const REST: Duration = Duration::from_millis(20);
const RESTS_MAX: usize = 25;

/// What was measured of one mode.
pub(super) struct Measured {
    pub(super) mode: WakeMode,
    pub(super) clients: u32,
    pub(super) idle: Duration,
    pub(super) idle_claims: u64,
    pub(super) idle_sweeps: u64,
    /// Claims of all messages; of a mode that polls, those until each was had.
    pub(super) claims: u64,
    /// From the commit of each message to its consumer, in microseconds and in order.
    pub(super) pick_ups: Vec<u64>,
    /// Why the node polled at the end although its mode does not.
    pub(super) degraded: Option<String>,
}

impl Measured {
    fn new(mode: WakeMode, clients: u32) -> Self {
        let (idle, pick_ups) = (Duration::ZERO, Vec::new());
        let (idle_claims, idle_sweeps, claims, degraded) = (0, 0, 0, None);
        Self { mode, clients, idle, idle_claims, idle_sweeps, claims, pick_ups, degraded }
    }

    pub(super) fn idle_claims_per_second(&self) -> f64 {
        let seconds = self.idle.as_secs_f64();
        if seconds > 0.0 { self.idle_claims as f64 / seconds } else { 0.0 }
    }

    pub(super) fn claims_per_push(&self) -> f64 {
        self.claims as f64 / self.pick_ups.len().max(1) as f64
    }

    /// A quantile of the pick-up latencies.
    pub(super) fn quantile(&self, quantile: f64) -> u64 {
        let place = (self.pick_ups.len() as f64 * quantile) as usize;
        let last = self.pick_ups.len().saturating_sub(1);
        self.pick_ups.get(place.min(last)).copied().unwrap_or(0)
    }
}

/// Measures one mode with so many consumers and messages.
pub(super) async fn mode(
    place: &Place,
    mode: WakeMode,
    (clients, pushes, idle): (u32, u32, Duration),
) -> anyhow::Result<Measured> {
    let waiting = Node::start(place, mode, clients).await?;
    let pushing = Node::start(place, WakeMode::Fused, 1).await?;
    let measured = async {
        let mut measured = Measured::new(mode, clients);
        let mut consumers = Consumers::park(&waiting, clients).await?;
        // The first message makes the queue, and shows that hints arrive.
        consumers.one(&pushing, (&mut measured, 0)).await?;
        consumers.quiet().await;
        let before = waiting.service.wake_snapshot().counters;
        tokio::time::sleep(idle).await;
        let after = waiting.service.wake_snapshot().counters;
        measured = Measured {
            idle,
            idle_claims: after.claims.total() - before.claims.total(),
            idle_sweeps: after.sweeps - before.sweeps,
            ..Measured::new(mode, clients)
        };
        for push in 0..pushes {
            consumers.one(&pushing, (&mut measured, push)).await?;
        }
        let degraded = waiting.service.wake_snapshot().degraded;
        measured.degraded = degraded.map(|degraded| degraded.reason);
        measured.pick_ups.sort_unstable();
        Ok(measured)
    }
    .await;
    pushing.stop().await;
    waiting.stop().await;
    measured
}

/// A queue service over a store that was opened for it, which hears of the other one.
struct Node {
    store: Arc<dyn Store>,
    service: QueueService,
    listening: CancellationToken,
}

impl Node {
    async fn start(place: &Place, mode: WakeMode, clients: u32) -> anyhow::Result<Self> {
        let store = place.open().await?;
        let long_poll = LongPollConfig {
            max_wait_time: LONG,
            intentions_max: clients as usize + 1,
            ..LongPollConfig::default()
        };
        let options = QueueServiceOptions { mode, long_poll, figures_kept: None };
        let service = QueueService::start(Arc::clone(&store), options);
        let listening = CancellationToken::new();
        let (listener, stop) = (service.clone(), listening.clone());
        tokio::spawn(async move { listener.listen(stop).await });
        Ok(Self { store, service, listening })
    }

    async fn push(&self) -> anyhow::Result<()> {
        let item = PushItem {
            queue: queue(),
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

fn queue() -> QueueName {
    QueueName::new("bench").expect("a valid name")
}

fn pop() -> Pop {
    Pop {
        line: QueueLine { selector: Selector::Queue(queue()), group: GroupName::queue_mode() },
        subscription: Subscription::All,
        batch_len_max: 1,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: true,
        worker: None,
        wait: Some(LONG),
    }
}

/// Consumers that wait again and again.
struct Consumers<'a> {
    node: &'a Node,
    clients: u32,
    tasks: JoinSet<anyhow::Result<()>>,
    had: mpsc::UnboundedReceiver<Instant>,
}

impl<'a> Consumers<'a> {
    async fn park(node: &'a Node, clients: u32) -> anyhow::Result<Self> {
        let (having, had) = mpsc::unbounded_channel();
        let mut consumers = Self { node, clients, tasks: JoinSet::new(), had };
        for _ in 0..clients {
            let (service, having) = (node.service.clone(), having.clone());
            consumers.tasks.spawn(async move {
                loop {
                    match service.pop(pop()).await? {
                        Popped::Granted(_) if having.send(Instant::now()).is_ok() => (),
                        Popped::Empty | Popped::Paused => (),
                        Popped::Granted(_) | Popped::Drained => return Ok(()),
                    }
                }
            });
        }
        consumers.parked().await?;
        Ok(consumers)
    }

    /// Waits until all are parked.
    async fn parked(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.node.service.wake_snapshot().waiters < self.clients as usize {
            if began.elapsed() > PATIENCE {
                bail!("the consumers are not parked after {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(REST).await;
        Ok(())
    }

    /// Waits until nothing is claimed any more, unless the mode polls; not for ever.
    async fn quiet(&self) {
        let claims = || self.node.service.wake_snapshot().counters.claims.total();
        for _ in 0..RESTS_MAX {
            let before = claims();
            tokio::time::sleep(REST * 10).await;
            if !self.node.service.uses_hints() || claims() == before {
                return;
            }
        }
    }

    /// Pushes one message, waits until it was had and all are parked again.
    async fn one(
        &mut self,
        pushing: &Node,
        (measured, push): (&mut Measured, u32),
    ) -> anyhow::Result<()> {
        if let WakeMode::Poll(poll) = measured.mode {
            // At moments that are spread evenly over an interval.
            let part = (f64::from(push) * 0.618_034).fract();
            tokio::time::sleep(poll.interval.mul_f64(part)).await;
        }
        let claims = || self.node.service.wake_snapshot().counters.claims.total();
        let before = claims();
        pushing.push().await?;
        let pushed = Instant::now();
        let had = tokio::select! {
            had = self.had.recv() => had.context("no consumer is left")?,
            ended = self.tasks.join_next() => {
                ended.context("no consumer is left")???;
                bail!("a consumer ended");
            }
            () = tokio::time::sleep(PATIENCE) => {
                bail!("a message was not picked up in {} s", PATIENCE.as_secs())
            }
        };
        let until_had = claims();
        let pick_up = had.saturating_duration_since(pushed).as_micros();
        measured.pick_ups.push(u64::try_from(pick_up).unwrap_or(u64::MAX));
        self.parked().await?;
        let claims = self.node.service.wake_snapshot().counters.claims.total();
        measured.claims += if measured.mode.uses_hints() { claims } else { until_had } - before;
        Ok(())
    }
}
