//! The actors of the load test: what they do, and what they record of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wakeline_core::{GroupName, LeaseId, QueueName, Verdict};
use wakeline_postgres::PostgresStore;
use wakeline_store::{
    ClaimedPartition, Delivered, PushOutcome, QueueStore, SettleItem, SettleOutcome,
    TransactCommand, TransactOutcome,
};
use wakeline_testkit::conformance::{ClaimSpec, item};
use wakeline_testkit::history::{
    CallOutcome, ClientHistory, Extend, Push, SeenDelivery, SeenMessage, Settle, Span,
};

use super::{GROUPS, PARTITIONS};

/// A small and fast random generator, deterministic for a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The state that all actors share.
pub(super) struct Stage {
    pub(super) nodes: Vec<PostgresStore>,
    pub(super) queue: QueueName,
    pub(super) began: Instant,
    pub(super) history: Mutex<ClientHistory>,
    pub(super) pushing: AtomicBool,
    pub(super) running: AtomicBool,
    /// The next number for a transaction id; numbers are never reused.
    pub(super) next: AtomicU64,
}

impl Stage {
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn node(&self, actor: u64) -> &PostgresStore {
        &self.nodes[usize::try_from(actor).expect("few actors") % self.nodes.len()]
    }

    fn partition(&self, dice: &mut Dice) -> String {
        // Half of the load goes to few partitions, so that there is contention.
        let below = if dice.roll(2) == 0 { 4 } else { PARTITIONS };
        format!("p{}", dice.roll(below))
    }

    pub(super) async fn push(&self, actor: u64, dice: &mut Dice) {
        let len = [1, 1, 3, 20][usize::try_from(dice.roll(4)).expect("small")];
        let items: Vec<_> = (0..len)
            .map(|_| {
                let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
                item(&self.queue, &self.partition(dice), &id)
            })
            .collect();
        let from = self.now();
        let reply = self.node(actor).push(items.clone()).await.expect("pushed");
        let span = Span { from, to: self.now() };
        let pushes = items.iter().zip(&reply.outcomes).map(|(item, outcome)| {
            assert!(matches!(outcome, PushOutcome::Queued { .. }), "{outcome:?}");
            pushed(item, span)
        });
        self.history.lock().pushes.extend(pushes);
        // Sometimes the same items are pushed again, by either node: nothing new may be stored.
        if dice.roll(10) == 0 {
            let again = self.node(actor + 1).push(items).await.expect("pushed");
            for outcome in again.outcomes {
                assert!(matches!(outcome, PushOutcome::Duplicate { .. }), "{outcome:?}");
            }
        }
    }

    pub(super) async fn consume(
        &self,
        actor: u64,
        dice: &mut Dice,
        zombies: &mut Vec<(Duration, Held)>,
    ) {
        let group = GroupName::new(GROUPS[usize::try_from(dice.roll(2)).expect("small")]);
        let group = group.expect("valid");
        let draining = !self.pushing.load(Ordering::Relaxed);
        let batch = if draining { 50 } else { [1, 5, 30][dice.roll(3) as usize] };
        let partitions = [1, 1, 3][dice.roll(3) as usize];
        let spec = ClaimSpec::queue(&self.queue).group(&group).batch(batch).partitions(partitions);
        let requests = 1 + usize::try_from(dice.roll(3)).expect("small");
        let from = self.now();
        let node = self.node(actor);
        let outcome = node.claim(vec![spec.line_claim(requests)]).await.expect("claimed").remove(0);
        let span = Span { from, to: self.now() };
        let mut idle = true;
        for result in outcome.results.into_iter().flatten() {
            idle = false;
            let lease = result.lease.expect("leased");
            for claimed in result.partitions {
                let held = Held { group: group.clone(), lease: lease.clone(), claimed };
                self.history.lock().deliveries.push(held.delivery(span, result.lease_for));
                zombies.extend(self.treat(actor, dice, held, draining).await);
            }
        }
        let now = self.now();
        let (due, rest) = zombies.drain(..).partition(|(at, _)| *at <= now);
        *zombies = rest;
        let due: Vec<(Duration, Held)> = due;
        for (_, held) in due {
            self.settle(actor, &held, held.items(Verdict::Completed)).await;
        }
        if idle {
            let wait = outcome.next_due.unwrap_or(Duration::from_millis(20));
            tokio::time::sleep(wait.min(Duration::from_millis(20))).await;
        }
    }

    /// Processes a delivery as consumers do. If the consumer crashes, returns the delivery and the
    /// time at which the consumer settles it after all.
    async fn treat(
        &self,
        actor: u64,
        dice: &mut Dice,
        held: Held,
        draining: bool,
    ) -> Option<(Duration, Held)> {
        let fate = if draining { 100 } else { dice.roll(100) };
        match fate {
            // The consumer crashes and returns after its lease has ended.
            0..2 => return Some((self.now() + Duration::from_millis(1100), held)),
            2..8 => {
                let half = held.items(Verdict::Completed).into_iter().step_by(2).collect();
                self.settle(actor, &held, half).await;
                if dice.roll(2) == 0 {
                    self.release(actor, &held).await;
                } else {
                    self.settle(actor, &held, held.items(Verdict::Completed)).await;
                }
            }
            8..14 => {
                let mut items = held.items(Verdict::Completed);
                for item in items.iter_mut().step_by(3) {
                    item.verdict = [Verdict::Failed, Verdict::Retry][dice.roll(2) as usize];
                }
                self.settle(actor, &held, items).await;
            }
            14..17 => self.release(actor, &held).await,
            17..20 => {
                self.extend(actor, &held).await;
                self.settle(actor, &held, held.items(Verdict::Completed)).await;
            }
            20..28 => self.transact(actor, dice, &held).await,
            _ => self.settle(actor + dice.roll(2), &held, held.items(Verdict::Completed)).await,
        }
        None
    }

    async fn settle(&self, actor: u64, held: &Held, items: Vec<SettleItem>) {
        let from = self.now();
        let reply = self.node(actor).settle(items.clone()).await.expect("settled");
        let span = Span { from, to: self.now() };
        let settles = items.iter().zip(&reply.outcomes);
        let settles = settles.map(|(item, outcome)| held.settled(item, outcome, span));
        self.history.lock().settles.extend(settles);
    }

    async fn release(&self, actor: u64, held: &Held) {
        let mut lease = held.lease.clone();
        lease.cursors.retain(|cursor| cursor.partition == held.claimed.partition_id);
        let from = self.now();
        self.node(actor).release(vec![lease]).await.expect("released");
        let settle = Settle {
            group: held.group.to_string(),
            partition: held.claimed.partition.to_string(),
            lease: held.lease.token.to_string(),
            what: None,
            span: Span { from, to: self.now() },
            // The call does not report whether the lease was still live.
            answer: CallOutcome::Unknown,
        };
        self.history.lock().settles.push(settle);
    }

    async fn extend(&self, actor: u64, held: &Held) {
        let lease_for = Duration::from_secs(1);
        let from = self.now();
        let extension = self.node(actor).extend(held.lease.clone(), lease_for).await;
        let extension = extension.expect("extended");
        let kept = extension.held.contains(&held.claimed.partition_id);
        let extend = Extend {
            partition: held.claimed.partition.to_string(),
            lease: held.lease.token.to_string(),
            lease_for,
            span: Span { from, to: self.now() },
            answer: if kept { CallOutcome::Ok } else { CallOutcome::Refused },
        };
        self.history.lock().extends.push(extend);
    }

    /// Completes all held messages and pushes as many, in one transaction.
    async fn transact(&self, actor: u64, dice: &mut Dice, held: &Held) {
        let pushes: Vec<_> = (0..2)
            .map(|_| {
                let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
                item(&self.queue, &self.partition(dice), &id)
            })
            .collect();
        let settles = held.items(Verdict::Completed);
        let from = self.now();
        let command = TransactCommand {
            pushes: pushes.clone(),
            settles: settles.clone(),
            ..TransactCommand::default()
        };
        let reply = self.node(actor).transact(command).await.expect("answered");
        let span = Span { from, to: self.now() };
        let mut history = self.history.lock();
        match reply.outcome {
            TransactOutcome::Committed(transacted) => {
                history.pushes.extend(pushes.iter().map(|item| pushed(item, span)));
                let settles = settles.iter().zip(&transacted.settles);
                let settles = settles.map(|(item, outcome)| held.settled(item, outcome, span));
                history.settles.extend(settles);
            }
            TransactOutcome::Refused(_) => {
                history.pushes.extend(
                    pushes
                        .iter()
                        .map(|item| Push { answer: CallOutcome::Refused, ..pushed(item, span) }),
                );
            }
        }
    }
}

/// The messages of one partition that a consumer holds.
pub(super) struct Held {
    group: GroupName,
    lease: LeaseId,
    claimed: ClaimedPartition,
}

impl Held {
    fn items(&self, verdict: Verdict) -> Vec<SettleItem> {
        let item = |message: &Delivered| SettleItem {
            partition: self.claimed.partition_id,
            group: self.group.clone(),
            token: Some(self.lease.token),
            transaction_id: message.transaction_id.clone(),
            verdict,
            error: None,
        };
        self.claimed.messages.iter().map(item).collect()
    }

    fn delivery(&self, span: Span, lease_for: Duration) -> SeenDelivery {
        let seen = |message: &Delivered| SeenMessage {
            message: message.transaction_id.to_string(),
            offset: message.offset,
        };
        SeenDelivery {
            group: self.group.to_string(),
            partition: self.claimed.partition.to_string(),
            lease: Some(self.lease.token.to_string()),
            lease_for,
            span,
            messages: self.claimed.messages.iter().map(seen).collect(),
        }
    }

    fn settled(&self, item: &SettleItem, outcome: &SettleOutcome, span: Span) -> Settle {
        Settle {
            group: self.group.to_string(),
            partition: self.claimed.partition.to_string(),
            lease: self.lease.token.to_string(),
            what: Some((item.transaction_id.to_string(), item.verdict)),
            span,
            answer: match outcome {
                SettleOutcome::Settled { .. } => CallOutcome::Ok,
                _ => CallOutcome::Refused,
            },
        }
    }
}

fn pushed(item: &wakeline_store::PushItem, span: Span) -> Push {
    Push {
        partition: item.partition.to_string(),
        message: item.transaction_id.to_string(),
        span,
        answer: CallOutcome::Ok,
    }
}
