//! Push: stores messages, many requests in one call.
//!
//! # Invariants
//! * A partition that another transaction has locked does not delay the other partitions: its items
//!   leave the fused call and wait for the partition in a call of their own.
//! * If two nodes push the same transaction id, only one of them stores it: under the partition's
//!   lock, the database compares the ids that this node does not know (see `push_check.sql`).
//! * A call of unknown outcome is repeated once, comparing all ids. A message that the first
//!   attempt stored is found under its own message id and counts as queued.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use tokio_postgres::Row;
use wakeline_core::{Change, Timestamp};
use wakeline_store::{PushItem, PushOutcome, PushReply, StoreError};

use super::push_answer::SlotAnswer;
use super::push_plan::{Begun, PlannedSlot, PushCall, PushPlan, SlotState};
use super::{QueueCore, same_error};
use crate::connect::{FollowUp, FollowUpResult, PgLink};
use crate::dedup::{KnownRange, SegmentIds, StoredIds};
use crate::error;
use crate::rows::Columns;

const OPERATION: &str = "push";

/// The maximum number of attempts of a call. Each attempt resolves something permanently: for
/// example that an id exists or is free, or that a partition was deleted.
const ROUNDS_MAX: usize = 50;

/// The part of a fused call's results for one request, with the items that still have to be pushed
/// separately.
#[derive(Default)]
pub(crate) struct PushPart {
    /// The outcomes, one per item; `None` for an item in `left`.
    pub(super) outcomes: Vec<Option<PushOutcome>>,
    pub(super) changes: Vec<Change>,
    /// Items without an outcome, with their index.
    pub(super) left: Vec<(usize, PushItem)>,
    /// Whether some of them failed with the call, and not because their partition was busy.
    failed: bool,
    /// What the call may have written for them.
    begun: Begun,
}

/// A hint that is sent directly after a push, on the same connection.
struct PushHint {
    follower: FollowUp,
    change: Change,
}

impl QueueCore {
    /// Executes many requests in one call.
    pub(super) async fn flush_push(
        &self,
        link_index: usize,
        commands: Vec<Vec<PushItem>>,
    ) -> Vec<Result<PushPart, StoreError>> {
        let link = &self.shared.links.push[link_index];
        let lens: Vec<usize> = commands.iter().map(Vec::len).collect();
        let mut call = PushCall::new(commands.into_iter().flatten().collect());
        let push_hint = self.push_hint(&call);
        let failure = self.run_push(Some((link, push_hint)), &mut call).await.err();
        let alone = lens.len() > 1 && failure.as_ref().is_some_and(error::blames_values);
        let answer = |part: PushPart| match &failure {
            // If the values of one request are invalid, each request is pushed again separately,
            // so that the others do not fail with it.
            Some(failure) if part.failed && !alone => {
                Err(part.begun.explain(&part.outcomes, same_error(failure)))
            }
            _ => Ok(part),
        };
        split(call, &lens).into_iter().map(answer).collect()
    }

    /// Pushes the items that a fused call left open. It waits for busy partitions with one call
    /// each, so that no partition delays another.
    pub(super) async fn push_left(&self, part: PushPart) -> Result<PushReply, StoreError> {
        let PushPart { mut outcomes, mut changes, left, failed, begun } = part;
        let mut by_partition: BTreeMap<_, Vec<(usize, PushItem)>> = BTreeMap::new();
        for (index, item) in left {
            let key = (item.queue.clone(), item.partition.clone());
            by_partition.entry(key).or_default().push((index, item));
        }
        let calls = by_partition.into_values().map(|left| async move {
            let (indexes, items): (Vec<usize>, Vec<PushItem>) = left.into_iter().unzip();
            let mut call = PushCall::new(items);
            (call.repeated, call.begun) = (failed || begun.stored, begun);
            let ended = self.run_push(None, &mut call).await;
            ended.map_err(|error| call.begun.explain(&call.outcomes, error))?;
            Ok::<_, StoreError>((indexes, call))
        });
        let mut failure = None;
        for done in join_all(calls).await {
            let (indexes, call) = match done {
                Ok(done) => done,
                Err(error) => {
                    failure.get_or_insert(error);
                    continue;
                }
            };
            changes.extend(call.changes.into_iter().flatten());
            for (index, outcome) in indexes.into_iter().zip(call.outcomes) {
                outcomes[index] = outcome;
            }
        }
        if let Some(error) = failure {
            return Err(begun.explain(&outcomes, error));
        }
        let outcomes = outcomes
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| error::unanswered(OPERATION))?;
        Ok(PushReply { outcomes, changes })
    }

    /// Returns the hint that can be sent with a push to a single partition, if no other hint is
    /// pending.
    fn push_hint(&self, call: &PushCall) -> Option<PushHint> {
        let [slot] = call.slots.as_slice() else { return None };
        let change = self.directory.foresee(&slot.key)?;
        Some(PushHint { follower: self.shared.notifier.hint_after_push(&change)?, change })
    }

    /// Repeats the call until every slot is stored or busy, and notifies other nodes of the stored
    /// messages. Without `link` the call waits for busy partitions.
    async fn run_push(
        &self,
        link: Option<(&PgLink, Option<PushHint>)>,
        call: &mut PushCall,
    ) -> Result<(), StoreError> {
        let mut sent_hint = None;
        let ended = self.try_push(link, call, &mut sent_hint).await;
        let changes: Vec<Change> = call.changes.iter().flatten().cloned().collect();
        match sent_hint {
            Some((followed, change)) if changes == [change.clone()] => {
                self.shared.notifier.note_hint_after_push(followed, change);
            }
            _ => self.shared.notifier.notify(&changes),
        }
        ended
    }

    async fn try_push(
        &self,
        link: Option<(&PgLink, Option<PushHint>)>,
        call: &mut PushCall,
        sent_hint: &mut Option<(FollowUpResult, Change)>,
    ) -> Result<(), StoreError> {
        let patient = link.is_none();
        let (link, mut push_hint) =
            link.map_or((None, None), |(link, push_hint)| (Some(link), push_hint));
        for _ in 0..ROUNDS_MAX {
            let open = call.open();
            if open.is_empty() {
                return Ok(());
            }
            self.resolve_slots(call, &open).await?;
            let plan = PushPlan::new(call, &open, &mut self.dedup.lock());
            let mut params = plan.params();
            params.push(&patient);
            let sql = &self.sql.push;
            let result = match (link, push_hint.take()) {
                (Some(link), Some(PushHint { follower, change })) => {
                    let (result, followed) =
                        link.query_then(OPERATION, sql, &params, follower).await;
                    *sent_hint = followed.map(|followed| (followed, change));
                    result
                }
                (Some(link), None) => self.on_link(link, OPERATION, sql, &params).await,
                (None, _) => self.general(OPERATION, sql, &params).await,
            };
            match result {
                Ok(rows) => self.apply_push(call, &plan, &rows).await?,
                // Repeated, as `on_link` does.
                Err(error) if error::was_rolled_back(&error) && sent_hint.take().is_some() => {
                    continue;
                }
                Err(StoreError::Transient { .. }) if !call.repeated => {
                    (call.repeated, call.begun.stored) = (true, true);
                }
                Err(error) => return Err(error),
            }
            if !call.open().is_empty() {
                // Messages that a later attempt stores did not exist yet when the hint was sent.
                *sent_hint = None;
            }
        }
        Err(StoreError::Transient {
            operation: OPERATION,
            source: "other calls changed the same rows during every attempt".into(),
        })
    }

    /// Resolves the numbers of partitions, and encrypts the payloads for encrypted queues.
    pub(super) async fn resolve_slots(
        &self,
        call: &mut PushCall,
        open: &[usize],
    ) -> Result<(), StoreError> {
        let unknown: Vec<usize> =
            open.iter().copied().filter(|slot| call.slots[*slot].partition == 0).collect();
        if !unknown.is_empty() {
            self.find_partitions(call, unknown).await?;
        }
        call.encrypt(open, &self.shared.encryption)
    }

    async fn find_partitions(
        &self,
        call: &mut PushCall,
        unknown: Vec<usize>,
    ) -> Result<(), StoreError> {
        let keys = unknown.iter().map(|slot| call.slots[*slot].key.clone()).collect();
        let (mut ids, missing) = self.directory.look_up(keys);
        if !missing.is_empty() {
            ids.extend(self.make_partitions(missing, call.producer).await?);
            call.begun.made = true;
        }
        for slot in unknown {
            // A queue that is being deleted may be missing; the next attempt creates it again.
            let found = &mut call.slots[slot];
            found.partition = ids.get(&found.key).copied().unwrap_or(0);
            found.encrypted = self.directory.is_encrypted(&found.key.0);
        }
        Ok(())
    }

    async fn apply_push(
        &self,
        call: &mut PushCall,
        plan: &PushPlan,
        rows: &[Row],
    ) -> Result<(), StoreError> {
        for row in rows {
            let answer = SlotAnswer::read(&mut Columns::new(OPERATION, row))?;
            self.apply_slot(call, &plan.slots[answer.slot], answer).await?;
        }
        Ok(())
    }

    /// Acts on the result of one slot.
    pub(super) async fn apply_slot(
        &self,
        call: &mut PushCall,
        planned: &PlannedSlot,
        answer: SlotAnswer,
    ) -> Result<(), StoreError> {
        let partition = call.slots[planned.slot].partition;
        match answer.state {
            0 => self.finish_slot(call, planned, answer),
            1 => call.slots[planned.slot].state = SlotState::Busy,
            2 => {
                self.directory.forget(&call.slots[planned.slot].key);
                self.dedup.lock().forget(partition);
                call.slots[planned.slot].partition = 0;
            }
            3 => self.load_ids(partition, planned.named).await?,
            5 => {
                let slot = &mut call.slots[planned.slot];
                slot.encrypted = !slot.encrypted;
                self.directory.set_encrypted(&slot.key.0, slot.encrypted);
            }
            8 => return Err(StoreError::Maintenance { operation: OPERATION }),
            7 => self.mark_scheduled(&[call.slots[planned.slot].key.0.clone()]).await?,
            6 => self.move_due_in(&[partition]).await.map(drop)?,
            _ => {
                let mut dedup = self.dedup.lock();
                dedup.learn(partition, planned.named, &answer.delta);
                for (txn, offset) in &answer.offsets {
                    if offset.is_none() {
                        dedup.lapse(partition, txn);
                    }
                    call.note_offset(planned.slot, txn, *offset);
                }
            }
        }
        Ok(())
    }

    fn finish_slot(&self, call: &mut PushCall, planned: &PlannedSlot, answer: SlotAnswer) {
        let held = answer.first_offset < 0;
        call.finish(planned, &answer.ids, held);
        let partition = call.slots[planned.slot].partition;
        let mut dedup = self.dedup.lock();
        if planned.checked {
            dedup.learn(partition, planned.named, &answer.delta);
        }
        if !planned.stored.is_empty() {
            let txns = planned.stored.iter().map(|item| call.items[*item].transaction_id.as_str());
            let complete = planned.checked && planned.named == KnownRange::default();
            if !held {
                let ids = StoredIds { first: answer.first_offset, at: answer.at, txns };
                dedup.stored(partition, ids, complete);
            }
            let (queue, name) = call.slots[planned.slot].key.clone();
            let change = Change {
                queue,
                partition: Some(name),
                namespace: answer.namespace,
                task: answer.task,
                group: None,
                due_in: answer.wait,
            };
            self.directory.learn(&change);
            call.changes[planned.slot] = Some(change);
        }
        let window = answer.window.as_micros().try_into().unwrap_or(i64::MAX);
        dedup.prune(partition, Timestamp(answer.at.0.saturating_sub(window)));
    }

    /// Loads the ids in a partition's deduplication window, page by page.
    async fn load_ids(&self, partition: i64, named: KnownRange) -> Result<(), StoreError> {
        let mut from = named.to;
        if named == KnownRange::default() {
            self.dedup.lock().forget(partition);
            let rows = self.general(OPERATION, &self.sql.dedup_start, &[&partition]).await?;
            let Some(row) = rows.first() else { return Ok(()) };
            from = Columns::new(OPERATION, row).take()?;
        }
        let mut known = named;
        loop {
            let rows = self.general(OPERATION, &self.sql.dedup_load, &[&partition, &from]).await?;
            let mut page = Vec::with_capacity(rows.len());
            for row in &rows {
                let mut columns = Columns::new(OPERATION, row);
                let segment = SegmentIds {
                    first: columns.take()?,
                    at: columns.moment()?,
                    txns: columns.take()?,
                };
                from = segment.first + 1;
                page.push(segment);
            }
            let mut dedup = self.dedup.lock();
            dedup.learn(partition, known, &page);
            known = dedup.known(partition);
            if page.len() < 500 {
                return Ok(());
            }
        }
    }
}

/// Splits the results of a call into the parts of its requests.
fn split(call: PushCall, lens: &[usize]) -> Vec<PushPart> {
    let open: Vec<bool> = call.slots.iter().map(|slot| slot.state == SlotState::Open).collect();
    let mut answers = call.items.into_iter().zip(call.outcomes).zip(call.slot_of);
    let mut parts = Vec::with_capacity(lens.len());
    for len in lens {
        let mut part = PushPart { begun: call.begun, ..PushPart::default() };
        let mut queued = Vec::new();
        for (index, ((item, outcome), slot)) in answers.by_ref().take(*len).enumerate() {
            match outcome {
                None => {
                    part.failed |= open[slot];
                    part.left.push((index, item));
                }
                Some(PushOutcome::Queued { .. } | PushOutcome::Held { .. })
                    if !queued.contains(&slot) =>
                {
                    queued.push(slot);
                }
                Some(_) => {}
            }
            part.outcomes.push(outcome);
        }
        part.changes = queued.iter().filter_map(|slot| call.changes[*slot].clone()).collect();
        parts.push(part);
    }
    parts
}
