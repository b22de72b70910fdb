//! Transactions over all faces: timers, pushes, settlements, messages to orchestrations and to
//! endpoints, all or nothing.
//!
//! # Where it sits
//! Implements `QueueStore::transact`. One that only pushes and settles is one call; any other is a
//! transaction of one statement per kind.
//!
//! # Invariants
//! * Locks are taken in the one order of everything that writes: partitions, scheduled messages,
//!   cursors, lanes, endpoints, deliveries; so the statements have the order that they have.
//! * While the transaction is open nothing else is asked of the pool: what keeps a statement from
//!   succeeding is dealt with after a rollback, and all is tried again.
//! * A transaction of unknown outcome is not repeated: its settlements could not tell their own
//!   first try from another's.

use wakeline_core::FlowChange;
use wakeline_store::flow::EnqueueOutcome;
use wakeline_store::hook::NewMessage;
use wakeline_store::{
    CancelOutcome, Refusal, StoreError, TransactCommand, TransactOutcome, TransactReply, Transacted,
};

use crate::PostgresStore;
use crate::connect::LinkTransaction;
use crate::error;
use crate::flow::Enqueue;
use crate::hook::{self, EmittedAlong};
use crate::queue::{
    Cancels, Exchange, ExchangeDone, Exchanged, ROLLBACKS_MAX, Schedule, ScheduleDone,
    ScheduleTried, SlotAnswer,
};

const OPERATION: &str = "transact";

/// Each round settles something for good: an id turned out to be known or free, a partition to be
/// gone, messages that were due are moved.
const ROUNDS_MAX: usize = 50;

/// A transaction on its way.
struct Whole {
    cancels: Cancels,
    schedule: Schedule,
    exchange: Exchange,
    enqueue: Enqueue,
    emits: Vec<NewMessage>,
}

/// What its statements did.
#[derive(Default)]
struct Done {
    cancels: Vec<CancelOutcome>,
    schedule: ScheduleDone,
    exchange: ExchangeDone,
    envelopes: Vec<EnqueueOutcome>,
    flow_changes: Vec<FlowChange>,
    emitted: EmittedAlong,
}

/// How a try ended.
enum Tried {
    /// Rolled back: to be tried again after what stands in the way was dealt with.
    Schedule(Vec<SlotAnswer>),
    /// The same, for pushes.
    Push(Vec<SlotAnswer>),
    /// Rolled back, for good.
    Refused(Refusal),
    /// Committed.
    Done(Done),
}

/// How it ended.
enum Ended {
    Refused(Refusal),
    Done(Done),
}

impl Whole {
    /// The error of a transaction that did not happen. Queues that were made for it stay.
    fn explain(&self, error: StoreError) -> StoreError {
        let made = self.schedule.has_made_partitions() || self.exchange.has_made_partitions();
        match error {
            StoreError::Unavailable { .. } if made => error.after_write(),
            error => error,
        }
    }

    /// Whether it is one call.
    fn is_plain(&self) -> bool {
        self.cancels.is_empty()
            && self.schedule.is_empty()
            && self.enqueue.is_empty()
            && self.emits.is_empty()
    }
}

impl PostgresStore {
    /// Writes of all faces, all or nothing.
    pub(crate) async fn transact_whole(
        &self,
        command: TransactCommand,
    ) -> Result<TransactReply, StoreError> {
        command.check()?;
        command.emits.iter().try_for_each(hook::check)?;
        let mut whole = Whole {
            cancels: Cancels::new(command.cancels),
            schedule: Schedule::new(command.schedules),
            exchange: Exchange::new(command.pushes, command.settles),
            enqueue: self.flow.core().enqueue_form(command.envelopes).await?,
            emits: command.emits,
        };
        match self.run_rounds(&mut whole).await {
            Ok(Ended::Refused(refusal)) => Ok(TransactReply::refused(refusal)),
            Ok(Ended::Done(done)) => self.finish_whole(whole, done).await,
            Err(error) => Err(whole.explain(error)),
        }
    }

    /// Tries until it is committed or refused.
    async fn run_rounds(&self, whole: &mut Whole) -> Result<Ended, StoreError> {
        let core = &self.queue.core;
        let mut rollbacks = 0;
        for _ in 0..ROUNDS_MAX {
            core.plan_schedule(&mut whole.schedule).await?;
            core.plan_exchange(&mut whole.exchange).await?;
            let tried = match whole.is_plain() {
                true => self.try_plain(whole).await,
                false => self.try_whole(whole).await,
            };
            match tried {
                Ok(Tried::Schedule(answers)) => {
                    core.prepare_schedule(&mut whole.schedule, answers).await?;
                }
                Ok(Tried::Push(answers)) => {
                    core.prepare_exchange(&mut whole.exchange, answers).await?;
                }
                Ok(Tried::Refused(refusal)) => return Ok(Ended::Refused(refusal)),
                Ok(Tried::Done(done)) => return Ok(Ended::Done(done)),
                Err(error) if error::was_rolled_back(&error) && rollbacks < ROLLBACKS_MAX => {
                    rollbacks += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Transient { operation: OPERATION, source: "no end of changes".into() })
    }

    /// Pushes and settles by one call.
    async fn try_plain(&self, whole: &Whole) -> Result<Tried, StoreError> {
        let core = &self.queue.core;
        let params = whole.exchange.params();
        let rows = core.shared.links.general.query(OPERATION, &core.sql.transact, &params).await?;
        Ok(match whole.exchange.read(&rows)? {
            Exchanged::Again(answers) => Tried::Push(answers),
            Exchanged::Refused { index, outcome } => {
                Tried::Refused(Refusal::Settle { index, outcome })
            }
            Exchanged::Done(exchange) => Tried::Done(Done { exchange, ..Done::default() }),
        })
    }

    /// Tries it in a transaction.
    async fn try_whole(&self, whole: &Whole) -> Result<Tried, StoreError> {
        let link = self.shared.links.general.link(OPERATION).await?;
        let transaction = link.begin(OPERATION).await?;
        let tried = self.run_whole(&transaction, whole).await?;
        match &tried {
            Tried::Done(_) => transaction.commit().await?,
            Tried::Schedule(_) | Tried::Push(_) | Tried::Refused(_) => {
                transaction.rollback().await?;
            }
        }
        Ok(tried)
    }

    async fn run_whole(
        &self,
        transaction: &LinkTransaction<'_>,
        whole: &Whole,
    ) -> Result<Tried, StoreError> {
        let sql = &self.queue.core.sql;
        let mut done = Done::default();
        if !whole.cancels.is_empty() || !whole.schedule.is_empty() {
            let partitions: Vec<i64> =
                whole.schedule.partitions().chain(whole.exchange.partitions()).collect();
            let ((cancel_queues, cancel_keys), (queues, keys)) =
                (whole.cancels.names(), whole.schedule.replaced());
            let rows = transaction
                .query(
                    &sql.scheduled_take,
                    &[&partitions, &cancel_queues, &cancel_keys, &queues, &keys],
                )
                .await?;
            done.cancels = whole.cancels.read(&rows)?;
        }
        if !whole.schedule.is_empty() {
            let rows = transaction.query(&sql.scheduled_add, &whole.schedule.params()).await?;
            match whole.schedule.read(&rows)? {
                ScheduleTried::Again(answers) => return Ok(Tried::Schedule(answers)),
                ScheduleTried::Done(schedule) => done.schedule = schedule,
            }
        }
        if !whole.exchange.is_empty() {
            let rows = transaction.query(&sql.transact, &whole.exchange.params()).await?;
            match whole.exchange.read(&rows)? {
                Exchanged::Again(answers) => return Ok(Tried::Push(answers)),
                Exchanged::Refused { index, outcome } => {
                    return Ok(Tried::Refused(Refusal::Settle { index, outcome }));
                }
                Exchanged::Done(exchange) => done.exchange = exchange,
            }
        }
        if !whole.enqueue.is_empty() {
            let flow = self.flow.core();
            (done.envelopes, done.flow_changes) =
                flow.enqueue_along(transaction, &whole.enqueue).await?;
        }
        if !whole.emits.is_empty() {
            done.emitted = self.hook.core().emit_along(transaction, &whole.emits).await?;
        }
        let others = Transacted {
            envelopes: done.envelopes.clone(),
            emits: done.emitted.outcomes.clone(),
            ..Transacted::default()
        };
        Ok(match TransactOutcome::judge(others) {
            TransactOutcome::Refused(refusal) => Tried::Refused(refusal),
            TransactOutcome::Committed(_) => Tried::Done(done),
        })
    }

    /// Tells what was committed, here and to other nodes.
    async fn finish_whole(&self, whole: Whole, done: Done) -> Result<TransactReply, StoreError> {
        let core = &self.queue.core;
        let (schedules, mut changes) = core.finish_schedule(whole.schedule, done.schedule)?;
        let (pushes, settles, exchanged) =
            core.finish_exchange(whole.exchange, done.exchange).await?;
        changes.extend(exchanged);
        self.shared.notifier.tell(&changes);
        self.flow.core().tell(&done.flow_changes);
        let EmittedAlong { outcomes: emits, changes: hook_changes } = done.emitted;
        self.hook.core().tell(&hook_changes);
        let (cancels, envelopes) = (done.cancels, done.envelopes);
        let outcome = TransactOutcome::Committed(Transacted {
            cancels,
            schedules,
            pushes,
            settles,
            envelopes,
            emits,
        });
        Ok(TransactReply { outcome, changes, flow_changes: done.flow_changes, hook_changes })
    }
}
