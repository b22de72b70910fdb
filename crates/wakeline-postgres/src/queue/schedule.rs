//! Scheduled messages: schedules them, cancels them, moves due ones to their partitions and lists
//! them.
//!
//! # Where it sits
//! Scheduling and cancelling are statements of a transaction that [`crate::transact`] makes. A
//! push, a claim or a turn's commit that finds due messages moves them first and then continues.
//!
//! # Invariants
//! * A message is scheduled under its partition's lock, and its transaction id is compared as for a
//!   push.
//! * Due messages are moved before a push to their partition or a claim of it returns, so that the
//!   messages of a partition are in the order in which they became due.

use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::{Change, MessageId, PartitionId, QueueLine, QueueName, Timestamp};
use wakeline_store::flow::Visible;
use wakeline_store::{
    CancelItem, CancelOutcome, PushOutcome, QueueSchedule, ScheduleItem, ScheduleOutcome,
    ScheduledFilter, ScheduledMessage, ScheduledRef, StoreError,
};

use super::QueueCore;
use super::push_answer::SlotAnswer;
use super::push_plan::{PushCall, PushPlan};
use super::sweep::LineColumns;
use crate::PostgresStore;
use crate::error;
use crate::rows::{self, Columns};

const OPERATION: &str = "schedule";

/// The maximum number of calls that move messages before an operation continues. The remaining
/// messages wait for the next operation.
const MOVES_MAX: usize = 20;

/// The longest delay: 100 years.
const DELAY_MAX_MICROS: i64 = 3_155_760_000_000_000;

/// The state of messages that are being scheduled.
pub(crate) struct Schedule {
    call: PushCall,
    plan: PushPlan,
    /// The due time and the key of each item.
    items: Vec<ScheduleDetails>,
    delays: Vec<Option<i64>>,
    ats: Vec<Option<SystemTime>>,
    keys: Vec<Option<String>>,
}

/// The due time and the timer key of a message.
struct ScheduleDetails {
    due: Visible,
    key: Option<String>,
}

/// The result of scheduling a message that was stored.
struct StoredTimer {
    deliver_at: Timestamp,
    due_in: std::time::Duration,
    replaced: bool,
}

/// The outcome of one attempt.
pub(crate) enum ScheduleAttempt {
    /// Nothing was written because some slots cannot be stored yet.
    Again(Vec<SlotAnswer>),
    /// The messages were stored; this takes effect if the transaction commits.
    Done(ScheduleResult),
}

/// The results of a successful attempt.
#[derive(Default)]
pub(crate) struct ScheduleResult {
    answers: Vec<SlotAnswer>,
    /// The results by the item's position in the plan.
    stored: Vec<Option<StoredTimer>>,
}

impl Schedule {
    pub(crate) fn new(items: Vec<ScheduleItem>) -> Self {
        let when = |item: &ScheduleItem| ScheduleDetails {
            due: item.due,
            key: item.key.as_ref().map(|key| key.as_str().to_owned()),
        };
        Self {
            items: items.iter().map(when).collect(),
            call: PushCall::new(items.into_iter().map(|item| item.message).collect()),
            plan: PushPlan::default(),
            delays: Vec::new(),
            ats: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Returns whether there is nothing to schedule.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns whether partitions may have been created for it.
    pub(crate) fn has_made_partitions(&self) -> bool {
        self.call.begun.made
    }

    /// Returns the partitions that it writes to.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = i64> {
        self.call.slots.iter().map(|slot| slot.partition)
    }

    /// Returns the queues and keys of the timers that it replaces.
    pub(crate) fn replaced(&self) -> (Vec<&str>, Vec<&str>) {
        let keyed = self.items.iter().zip(&self.call.items);
        keyed.filter_map(|(when, item)| Some((item.queue.as_str(), when.key.as_deref()?))).unzip()
    }

    /// Returns the parameters of this attempt.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.plan.params();
        params.push(&self.delays);
        params.push(&self.ats);
        params.push(&self.keys);
        params
    }

    /// Returns the indexes of the items that this attempt stores, in the order of the plan.
    fn stored_items(&self) -> impl Iterator<Item = usize> {
        self.plan.slots.iter().flat_map(|planned| planned.stored.iter().copied())
    }

    /// Reads the outcome of an attempt.
    pub(crate) fn read(&self, rows: &[Row]) -> Result<ScheduleAttempt, StoreError> {
        let mut done = ScheduleResult::default();
        done.stored.resize_with(self.keys.len(), || None);
        for row in rows {
            let mut columns = Columns::new(OPERATION, row);
            if columns.take::<i16>()? == 0 {
                done.answers.push(SlotAnswer::read(&mut columns)?);
                continue;
            }
            let item: i32 = columns.take()?;
            let replaced = columns.take::<i16>()? != 0;
            columns.skip(1);
            let deliver_at = columns.moment()?;
            columns.skip(1);
            let due_in = rows::span(columns.take()?);
            let item = usize::try_from(item - 1).expect("items count from 1");
            done.stored[item] = Some(StoredTimer { deliver_at, due_in, replaced });
        }
        Ok(if done.answers.iter().all(|answer| answer.state == 0) {
            ScheduleAttempt::Done(done)
        } else {
            ScheduleAttempt::Again(done.answers)
        })
    }
}

/// Timers to cancel.
pub(crate) struct Cancels {
    items: Vec<CancelItem>,
}

impl Cancels {
    pub(crate) fn new(items: Vec<CancelItem>) -> Self {
        Self { items }
    }

    /// Returns whether there is nothing to cancel.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the queues and keys of the timers.
    pub(crate) fn names(&self) -> (Vec<&str>, Vec<&str>) {
        self.items.iter().map(|item| (item.queue.as_str(), item.key.as_str())).unzip()
    }

    /// Reads the outcomes, one per timer.
    pub(crate) fn read(&self, rows: &[Row]) -> Result<Vec<CancelOutcome>, StoreError> {
        let mut outcomes = vec![CancelOutcome::Absent; self.items.len()];
        for row in rows {
            let mut columns = Columns::new(OPERATION, row);
            let ord: i32 = columns.take()?;
            let taken: bool = columns.take()?;
            let named = ScheduledRef {
                id: MessageId(columns.take()?),
                transaction_id: transaction_id(columns.take()?)?,
                deliver_at: columns.moment()?,
            };
            let index = usize::try_from(ord - 1).expect("they count from 1");
            outcomes[index] =
                if taken { CancelOutcome::Cancelled(named) } else { CancelOutcome::TooLate(named) };
        }
        Ok(outcomes)
    }
}

fn transaction_id(text: String) -> Result<wakeline_core::TransactionId, StoreError> {
    let id = wakeline_core::TransactionId::new(&text);
    id.map_err(|error| rows::corrupt("scheduled message", text, error))
}

impl QueueCore {
    /// Prepares the next attempt.
    pub(crate) async fn plan_schedule(&self, schedule: &mut Schedule) -> Result<(), StoreError> {
        let all: Vec<usize> = (0..schedule.call.slots.len()).collect();
        self.resolve_slots(&mut schedule.call, &all).await?;
        schedule.plan = PushPlan::new(&schedule.call, &all, &mut self.dedup.lock());
        let stored: Vec<usize> = schedule.stored_items().collect();
        let (mut delays, mut ats, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for item in stored {
            let ScheduleDetails { due, key } = &schedule.items[item];
            let (delay, at) = match due {
                Visible::Now => (Some(0), None),
                Visible::After(span) => {
                    let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
                    (Some(micros.min(DELAY_MAX_MICROS)), None)
                }
                Visible::At(at) => (None, Some(rows::system_time(*at))),
            };
            delays.push(delay);
            ats.push(at);
            keys.push(key.clone());
        }
        (schedule.delays, schedule.ats, schedule.keys) = (delays, ats, keys);
        Ok(())
    }

    /// Resolves what prevented slots from being stored.
    pub(crate) async fn prepare_schedule(
        &self,
        schedule: &mut Schedule,
        answers: Vec<SlotAnswer>,
    ) -> Result<(), StoreError> {
        for answer in answers.into_iter().filter(|answer| answer.state != 0) {
            let planned = &schedule.plan.slots[answer.slot];
            self.apply_slot(&mut schedule.call, planned, answer).await?;
        }
        Ok(())
    }

    /// Updates the caches after the commit. Returns the outcomes and the changes.
    pub(crate) fn finish_schedule(
        &self,
        mut schedule: Schedule,
        done: ScheduleResult,
    ) -> Result<(Vec<ScheduleOutcome>, Vec<Change>), StoreError> {
        let stored: Vec<usize> = schedule.stored_items().collect();
        let mut by_item: Vec<Option<StoredTimer>> = schedule.items.iter().map(|_| None).collect();
        for (item, stored) in stored.into_iter().zip(done.stored) {
            by_item[item] = stored;
        }
        let mut changes = Vec::new();
        for answer in done.answers {
            let planned = &schedule.plan.slots[answer.slot];
            let slot = &schedule.call.slots[planned.slot];
            let first = planned.stored.iter().filter_map(|item| by_item[*item].as_ref());
            if let Some(due_in) = first.map(|stored| stored.due_in).min() {
                changes.push(Change {
                    queue: slot.key.0.clone(),
                    partition: Some(slot.key.1.clone()),
                    namespace: answer.namespace.clone(),
                    task: answer.task.clone(),
                    group: None,
                    due_in,
                });
            }
            schedule.call.finish(planned, &answer.ids, false);
        }
        let outcomes = schedule.call.outcomes.into_iter().zip(by_item);
        let outcomes = outcomes.map(|(outcome, stored)| outcome_of(outcome?, stored));
        let outcomes: Option<Vec<ScheduleOutcome>> = outcomes.collect();
        let outcomes = outcomes.ok_or_else(|| error::unanswered(OPERATION))?;
        Ok((outcomes, changes))
    }

    /// Marks queues that will contain scheduled messages.
    pub(super) async fn mark_scheduled(&self, queues: &[QueueName]) -> Result<(), StoreError> {
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        self.general("mark queue", &self.sql.scheduled_mark, &[&names]).await.map(drop)
    }

    /// Moves due messages of a line, except those that another transaction is moving.
    pub(super) async fn move_due_of(&self, line: &QueueLine) -> Result<(), StoreError> {
        let LineColumns { kinds, queues, partitions, namespaces, tasks, .. } =
            LineColumns::new(std::iter::once(line));
        let none: Option<Vec<i64>> = None;
        let scope: [&(dyn ToSql + Sync); 6] =
            [&kinds[0], &queues[0], &partitions[0], &namespaces[0], &tasks[0], &none];
        self.move_due(scope).await.map(drop)
    }

    /// Moves due messages of some partitions for a push that waits for them. Returns their number.
    pub(crate) async fn move_due_in(&self, partitions: &[i64]) -> Result<u64, StoreError> {
        let none: Option<String> = None;
        let kind = 3i16;
        self.move_due([&kind, &none, &none, &none, &none, &partitions]).await
    }

    async fn move_due(&self, scope: [&(dyn ToSql + Sync); 6]) -> Result<u64, StoreError> {
        let (mut patient, mut all) = (false, 0);
        for _ in 0..MOVES_MAX {
            let mut params = scope.to_vec();
            params.push(&patient);
            let rows = self.general("move scheduled", &self.sql.scheduled_move, &params).await;
            let rows = match rows {
                // Another transaction has locked a partition for a long time. It can move the
                // messages too.
                Err(error) if patient && error::was_rolled_back(&error) => return Ok(all),
                rows => rows?,
            };
            let Some(row) = rows.first() else { return Ok(all) };
            let mut columns = Columns::new("move scheduled", row);
            let (moved, busy): (i32, bool) = (columns.take()?, columns.take()?);
            let moved = u64::try_from(moved).unwrap_or(0);
            all += moved;
            metrics::counter!("wakeline_scheduled_moved_total").increment(moved);
            match (moved, busy) {
                (0, true) if !patient => patient = true,
                (0, _) => return Ok(all),
                _ => {}
            }
        }
        Ok(all)
    }
}

fn outcome_of(outcome: PushOutcome, stored: Option<StoredTimer>) -> Option<ScheduleOutcome> {
    Some(match outcome {
        PushOutcome::Duplicate { id, partition } => ScheduleOutcome::Duplicate { id, partition },
        PushOutcome::Queued { id, partition } | PushOutcome::Held { id, partition } => {
            let StoredTimer { deliver_at, replaced, .. } = stored?;
            ScheduleOutcome::Scheduled { id, partition, deliver_at, replaced }
        }
    })
}

#[async_trait]
impl QueueSchedule for PostgresStore {
    async fn scheduled(
        &self,
        filter: ScheduledFilter,
    ) -> Result<Vec<ScheduledMessage>, StoreError> {
        const OPERATION: &str = "list scheduled";
        let core = &self.queue.core;
        let key = filter.key.as_ref().map(|key| key.as_str());
        let (at, seq) = filter.after.map(|(at, seq)| (rows::system_time(at), seq)).unzip();
        let limit = i64::from(filter.limit);
        let params: &[&(dyn ToSql + Sync)] = &[&filter.queue.as_str(), &key, &at, &seq, &limit];
        let rows = core.general(OPERATION, &core.sql.scheduled_list, params).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut one = scheduled(&mut Columns::new(OPERATION, row))?;
            let opened = self.shared.encryption.decrypt(one.id, one.payload);
            let id = one.id.to_string();
            one.payload = opened.map_err(|error| rows::corrupt("scheduled message", id, error))?;
            found.push(one);
        }
        Ok(found)
    }
}

fn scheduled(columns: &mut Columns<'_>) -> Result<ScheduledMessage, StoreError> {
    Ok(ScheduledMessage {
        seq: columns.take()?,
        key: columns.name_if("timer key")?,
        id: MessageId(columns.take()?),
        transaction_id: transaction_id(columns.take()?)?,
        trace_id: columns.take()?,
        producer: columns.take()?,
        partition: columns.name("partition")?,
        partition_id: PartitionId(columns.take()?),
        scheduled_at: columns.moment()?,
        deliver_at: columns.moment()?,
        payload: Bytes::from(columns.take::<Vec<u8>>()?),
    })
}
