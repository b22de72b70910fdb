//! Transactions over the queue, workflow and webhook domains: timers, pushes, settlements, and
//! messages to orchestrations and endpoints are written completely or not at all.
//!
//! # Where it sits
//! Implements `QueueStore::transact`. A transaction that only pushes and settles is one call; any
//! other is a transaction with one statement per kind of write.
//!
//! # Invariants
//! * The order of the statements follows the lock order of all writers: partitions, scheduled
//!   messages, cursors, lanes, endpoints, deliveries.
//! * While the transaction is open, no other connection of the pool is used. What prevents a
//!   statement from succeeding is resolved after a rollback, and the transaction is repeated.
//! * A transaction of unknown outcome is not repeated, because its settlements could not
//!   distinguish the effects of their own first attempt from those of another consumer.

use wakeline_core::FlowChange;
use wakeline_store::flow::EnqueueOutcome;
use wakeline_store::hook::NewMessage;
use wakeline_store::{
    CancelOutcome, Refusal, StoreError, TransactCommand, TransactOutcome, TransactReply, Transacted,
};

use crate::PostgresStore;
use crate::connect::PgTransaction;
use crate::error;
use crate::flow::Enqueue;
use crate::hook::{self, PiggybackedEmits};
use crate::queue::{
    Cancels, Exchange, ExchangeResult, Exchanged, ROLLBACKS_MAX, Schedule, ScheduleAttempt,
    ScheduleResult, SlotAnswer,
};

const OPERATION: &str = "transact";

/// The maximum number of attempts. Each attempt resolves something permanently: for example that an
/// id exists or is free, that a partition was deleted, or that due messages were moved.
const ROUNDS_MAX: usize = 50;

/// The state of a transaction that is not committed yet.
struct PendingTransaction {
    cancels: Cancels,
    schedule: Schedule,
    exchange: Exchange,
    enqueue: Enqueue,
    emits: Vec<NewMessage>,
}

/// The results of the statements of a transaction.
#[derive(Default)]
struct TransactResult {
    cancels: Vec<CancelOutcome>,
    schedule: ScheduleResult,
    exchange: ExchangeResult,
    envelopes: Vec<EnqueueOutcome>,
    flow_changes: Vec<FlowChange>,
    emitted: PiggybackedEmits,
}

/// The outcome of one attempt.
enum TransactAttempt {
    /// The attempt was rolled back because some scheduled messages cannot be stored yet. It is
    /// repeated after the obstacles were resolved.
    Schedule(Vec<SlotAnswer>),
    /// The same for pushes.
    Push(Vec<SlotAnswer>),
    /// The attempt was rolled back, and a repetition would not help.
    Refused(Refusal),
    /// The attempt was committed.
    Done(TransactResult),
}

/// The outcome of all attempts.
enum TransactEnd {
    Refused(Refusal),
    Done(TransactResult),
}

impl PendingTransaction {
    /// Adapts the error of a transaction that was rolled back. Queues that were created for it
    /// remain.
    fn explain(&self, error: StoreError) -> StoreError {
        let made = self.schedule.has_made_partitions() || self.exchange.has_made_partitions();
        match error {
            StoreError::Unavailable { .. } if made => error.after_write(),
            error => error,
        }
    }

    /// Returns whether it can be executed by a single call.
    fn is_plain(&self) -> bool {
        self.cancels.is_empty()
            && self.schedule.is_empty()
            && self.enqueue.is_empty()
            && self.emits.is_empty()
    }
}

impl PostgresStore {
    /// Executes the writes of a command completely or not at all.
    pub(crate) async fn transact_command(
        &self,
        command: TransactCommand,
    ) -> Result<TransactReply, StoreError> {
        command.check()?;
        command.emits.iter().try_for_each(hook::check)?;
        let mut pending = PendingTransaction {
            cancels: Cancels::new(command.cancels),
            schedule: Schedule::new(command.schedules),
            exchange: Exchange::new(command.pushes, command.settles),
            enqueue: self.flow.core().enqueue_form(command.envelopes).await?,
            emits: command.emits,
        };
        match self.run_rounds(&mut pending).await {
            Ok(TransactEnd::Refused(refusal)) => Ok(TransactReply::refused(refusal)),
            Ok(TransactEnd::Done(done)) => self.finish_transaction(pending, done).await,
            Err(error) => Err(pending.explain(error)),
        }
    }

    /// Repeats the transaction until it is committed or refused.
    async fn run_rounds(
        &self,
        pending: &mut PendingTransaction,
    ) -> Result<TransactEnd, StoreError> {
        let core = &self.queue.core;
        let mut rollbacks = 0;
        for _ in 0..ROUNDS_MAX {
            core.plan_schedule(&mut pending.schedule).await?;
            core.plan_exchange(&mut pending.exchange).await?;
            let tried = if pending.is_plain() {
                self.try_plain(pending).await
            } else {
                self.try_in_transaction(pending).await
            };
            match tried {
                Ok(TransactAttempt::Schedule(answers)) => {
                    core.prepare_schedule(&mut pending.schedule, answers).await?;
                }
                Ok(TransactAttempt::Push(answers)) => {
                    core.prepare_exchange(&mut pending.exchange, answers).await?;
                }
                Ok(TransactAttempt::Refused(refusal)) => return Ok(TransactEnd::Refused(refusal)),
                Ok(TransactAttempt::Done(done)) => return Ok(TransactEnd::Done(done)),
                Err(error) if error::was_rolled_back(&error) && rollbacks < ROLLBACKS_MAX => {
                    rollbacks += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Transient {
            operation: OPERATION,
            source: "other calls changed the same rows during every attempt".into(),
        })
    }

    /// Pushes and settles by one call.
    async fn try_plain(&self, pending: &PendingTransaction) -> Result<TransactAttempt, StoreError> {
        let core = &self.queue.core;
        let params = pending.exchange.params();
        let rows = core.shared.links.general.query(OPERATION, &core.sql.transact, &params).await?;
        Ok(match pending.exchange.read(&rows)? {
            Exchanged::Again(answers) => TransactAttempt::Push(answers),
            Exchanged::Refused { index, outcome } => {
                TransactAttempt::Refused(Refusal::Settle { index, outcome })
            }
            Exchanged::Done(exchange) => {
                TransactAttempt::Done(TransactResult { exchange, ..TransactResult::default() })
            }
        })
    }

    /// Executes one attempt as a transaction of several statements.
    async fn try_in_transaction(
        &self,
        pending: &PendingTransaction,
    ) -> Result<TransactAttempt, StoreError> {
        let link = self.shared.links.general.link(OPERATION).await?;
        let transaction = link.begin(OPERATION).await?;
        let tried = self.run_statements(&transaction, pending).await?;
        match &tried {
            TransactAttempt::Done(_) => transaction.commit().await?,
            TransactAttempt::Schedule(_)
            | TransactAttempt::Push(_)
            | TransactAttempt::Refused(_) => {
                transaction.rollback().await?;
            }
        }
        Ok(tried)
    }

    async fn run_statements(
        &self,
        transaction: &PgTransaction<'_>,
        pending: &PendingTransaction,
    ) -> Result<TransactAttempt, StoreError> {
        let sql = &self.queue.core.sql;
        let mut done = TransactResult::default();
        if !pending.cancels.is_empty() || !pending.schedule.is_empty() {
            let partitions: Vec<i64> =
                pending.schedule.partitions().chain(pending.exchange.partitions()).collect();
            let (cancel_queues, cancel_keys) = pending.cancels.names();
            let (queues, keys) = pending.schedule.replaced();
            let rows = transaction
                .query(
                    &sql.scheduled_take,
                    &[&partitions, &cancel_queues, &cancel_keys, &queues, &keys],
                )
                .await?;
            done.cancels = pending.cancels.read(&rows)?;
        }
        if !pending.schedule.is_empty() {
            let rows = transaction.query(&sql.scheduled_add, &pending.schedule.params()).await?;
            match pending.schedule.read(&rows)? {
                ScheduleAttempt::Again(answers) => return Ok(TransactAttempt::Schedule(answers)),
                ScheduleAttempt::Done(schedule) => done.schedule = schedule,
            }
        }
        if !pending.exchange.is_empty() {
            let rows = transaction.query(&sql.transact, &pending.exchange.params()).await?;
            match pending.exchange.read(&rows)? {
                Exchanged::Again(answers) => return Ok(TransactAttempt::Push(answers)),
                Exchanged::Refused { index, outcome } => {
                    return Ok(TransactAttempt::Refused(Refusal::Settle { index, outcome }));
                }
                Exchanged::Done(exchange) => done.exchange = exchange,
            }
        }
        if !pending.enqueue.is_empty() {
            let flow = self.flow.core();
            (done.envelopes, done.flow_changes) =
                flow.enqueue_piggybacked(transaction, &pending.enqueue).await?;
        }
        if !pending.emits.is_empty() {
            done.emitted = self.hook.core().emit_piggybacked(transaction, &pending.emits).await?;
        }
        let others = Transacted {
            envelopes: done.envelopes.clone(),
            emits: done.emitted.outcomes.clone(),
            ..Transacted::default()
        };
        Ok(match TransactOutcome::judge(others) {
            TransactOutcome::Refused(refusal) => TransactAttempt::Refused(refusal),
            TransactOutcome::Committed(_) => TransactAttempt::Done(done),
        })
    }

    /// Notifies other nodes of the commit, and builds the reply.
    async fn finish_transaction(
        &self,
        pending: PendingTransaction,
        done: TransactResult,
    ) -> Result<TransactReply, StoreError> {
        let core = &self.queue.core;
        let (schedules, mut changes) = core.finish_schedule(pending.schedule, done.schedule)?;
        let (pushes, settles, exchanged) =
            core.finish_exchange(pending.exchange, done.exchange).await?;
        changes.extend(exchanged);
        self.shared.notifier.notify(&changes);
        self.flow.core().notify(&done.flow_changes);
        let PiggybackedEmits { outcomes: emits, changes: hook_changes } = done.emitted;
        self.hook.core().notify(&hook_changes);
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
