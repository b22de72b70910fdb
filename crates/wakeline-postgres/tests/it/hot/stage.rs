//! What the actors of the hot run do, and what they write down of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wakeline_core::{GroupName, LeaseId, QueueName, Verdict};
use wakeline_postgres::PostgresStore;
use wakeline_store::{
    Delivered, GrantedPartition, PushOutcome, QueueStore, SettleItem, SettleOutcome,
    TransactCommand, TransactOutcome,
};
use wakeline_testkit::conformance::{Ask, item};
use wakeline_testkit::history::{Answer, Delivery, Extend, History, Push, Seen, Settle, Span};

use super::{GROUPS, PARTITIONS};

/// Small, fast, and the same for the same seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// What all actors share.
pub(super) struct Stage {
    pub(super) nodes: Vec<PostgresStore>,
    pub(super) queue: QueueName,
    pub(super) began: Instant,
    pub(super) history: Mutex<History>,
    pub(super) pushing: AtomicBool,
    pub(super) running: AtomicBool,
    /// Numbers for transaction ids, never used twice.
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
        // Half of the load goes to a few partitions, so that they are contended.
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
        // Sometimes the same again: nothing new may be stored, by whichever node.
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
        let ask = Ask::queue(&self.queue).group(&group).batch(batch).partitions(partitions);
        let requests = 1 + usize::try_from(dice.roll(3)).expect("small");
        let from = self.now();
        let node = self.node(actor);
        let outcome = node.claim(vec![ask.line_claim(requests)]).await.expect("claimed").remove(0);
        let span = Span { from, to: self.now() };
        let mut idle = true;
        for grant in outcome.grants.into_iter().flatten() {
            idle = false;
            let lease = grant.lease.expect("leased");
            for granted in grant.partitions {
                let held = Held { group: group.clone(), lease: lease.clone(), granted };
                self.history.lock().deliveries.push(held.delivery(span, grant.lease_for));
                self.treat(actor, dice, held, (draining, zombies)).await;
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

    /// Does with a delivery what consumers do.
    async fn treat(
        &self,
        actor: u64,
        dice: &mut Dice,
        held: Held,
        (draining, zombies): (bool, &mut Vec<(Duration, Held)>),
    ) {
        let fate = if draining { 100 } else { dice.roll(100) };
        match fate {
            // Crashes; comes back when its lease is over.
            0..2 => zombies.push((self.now() + Duration::from_millis(1100), held)),
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
        lease.cursors.retain(|cursor| cursor.partition == held.granted.partition_id);
        let from = self.now();
        self.node(actor).release(vec![lease]).await.expect("released");
        let settle = Settle {
            group: held.group.to_string(),
            partition: held.granted.partition.to_string(),
            lease: held.lease.token.to_string(),
            what: None,
            span: Span { from, to: self.now() },
            // Whether it was still live is not told.
            answer: Answer::Unknown,
        };
        self.history.lock().settles.push(settle);
    }

    async fn extend(&self, actor: u64, held: &Held) {
        let lease_for = Duration::from_secs(1);
        let from = self.now();
        let extension = self.node(actor).extend(held.lease.clone(), lease_for).await;
        let extension = extension.expect("extended");
        let kept = extension.held.contains(&held.granted.partition_id);
        let extend = Extend {
            partition: held.granted.partition.to_string(),
            lease: held.lease.token.to_string(),
            lease_for,
            span: Span { from, to: self.now() },
            answer: if kept { Answer::Ok } else { Answer::Refused },
        };
        self.history.lock().extends.push(extend);
    }

    /// Completes all that is held and pushes as much, at once.
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
                        .map(|item| Push { answer: Answer::Refused, ..pushed(item, span) }),
                );
            }
        }
    }
}

/// What a consumer holds of one partition.
pub(super) struct Held {
    group: GroupName,
    lease: LeaseId,
    granted: GrantedPartition,
}

impl Held {
    fn items(&self, verdict: Verdict) -> Vec<SettleItem> {
        let item = |message: &Delivered| SettleItem {
            partition: self.granted.partition_id,
            group: self.group.clone(),
            token: Some(self.lease.token),
            transaction_id: message.transaction_id.clone(),
            verdict,
            error: None,
        };
        self.granted.messages.iter().map(item).collect()
    }

    fn delivery(&self, span: Span, lease_for: Duration) -> Delivery {
        let seen = |message: &Delivered| Seen {
            message: message.transaction_id.to_string(),
            offset: message.offset,
        };
        Delivery {
            group: self.group.to_string(),
            partition: self.granted.partition.to_string(),
            lease: Some(self.lease.token.to_string()),
            lease_for,
            span,
            messages: self.granted.messages.iter().map(seen).collect(),
        }
    }

    fn settled(&self, item: &SettleItem, outcome: &SettleOutcome, span: Span) -> Settle {
        Settle {
            group: self.group.to_string(),
            partition: self.granted.partition.to_string(),
            lease: self.lease.token.to_string(),
            what: Some((item.transaction_id.to_string(), item.verdict)),
            span,
            answer: match outcome {
                SettleOutcome::Settled { .. } => Answer::Ok,
                _ => Answer::Refused,
            },
        }
    }
}

fn pushed(item: &wakeline_store::PushItem, span: Span) -> Push {
    Push {
        partition: item.partition.to_string(),
        message: item.transaction_id.to_string(),
        span,
        answer: Answer::Ok,
    }
}
