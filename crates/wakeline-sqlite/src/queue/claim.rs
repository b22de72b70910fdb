//! Leases messages to requests.
//!
//! # Invariants
//! * A partition with a corrupt row is skipped for a while, unchanged, so that it does not delay
//!   other partitions. A claim that found nothing else returns the error, because corrupt rows must
//!   not be ignored silently.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    Change, CursorId, GroupId, LeaseId, LeaseToken, PartitionId, QueueLine, Selector, Subscription,
    Timestamp, error_chain,
};
use wakeline_store::{
    ClaimRequest, ClaimedPartition, Dropped, InvalidField, LineClaim, LineOutcome,
    QueueClaimResult, StoreError,
};

use super::cursor::{CursorLease, QueueCursor};
use super::group;
use super::idle;
use super::ledger::{self, LeaseOutcomes};
use super::line::{QueueCandidate, QueueCandidates};
use super::message;
use super::offsets::Offsets;
use super::schedule;
use super::skip::skip_old;
use super::sweep;
use super::take::{BatchCapacity, TakenMessages, end_expired_lease, take};
use crate::error::{Res, StoreFault};
use crate::session::{DbSession, QueueRow};

/// How long claims skip a cursor with a corrupt row.
const QUARANTINE: Duration = Duration::from_secs(300);

/// The outcomes of a claim, per line.
pub(crate) struct MessageClaimOutcome {
    pub(crate) outcomes: Vec<LineOutcome>,
    /// The error of the first corrupt row, if there was one.
    corrupt_row: Option<StoreFault>,
}

impl MessageClaimOutcome {
    /// The outcomes, or the error if no messages were found and a row was corrupt.
    pub(crate) fn answer(self) -> Result<Vec<LineOutcome>, StoreError> {
        let found = self.outcomes.iter().flat_map(|outcome| &outcome.results).any(Option::is_some);
        match self.corrupt_row {
            Some(fault) if !found => Err(fault.named("claim")),
            _ => Ok(self.outcomes),
        }
    }
}

/// What a call has served so far.
#[derive(Default)]
struct QueueClaimState {
    /// The cursors (partition and group) that went to a request. Each goes to one request only.
    served: HashSet<(i64, i64)>,
    corrupt_row: Option<StoreFault>,
    /// The messages that were dropped for the current line.
    dropped: Vec<Dropped>,
}

/// The queues of a line with the id of its group in each.
type LineGroups = Vec<(Arc<QueueRow>, i64)>;

/// Leases messages to the requests of some lines.
pub(crate) fn claim(s: &mut DbSession<'_>, lines: &[LineClaim]) -> Res<MessageClaimOutcome> {
    let mut state = QueueClaimState::default();
    let mut outcomes = Vec::with_capacity(lines.len());
    for LineClaim { line, subscription, requests, further } in lines {
        if let Some(refusal) = refusal(s, *subscription) {
            outcomes.push(LineOutcome::refused(requests.len(), refusal));
            continue;
        }
        schedule::move_due_of(s, &line.selector)?;
        let groups = group::create_missing(s, line, *subscription)?;
        for (queue, group) in &groups {
            idle::record_poll(s, queue, *group)?;
        }
        let paused = s.maintenance()?.pops_paused;
        let mut candidates = QueueCandidates::new(s, &line.selector, &groups)?;
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            let result = match already_leased(s, line, &groups, request.token)? {
                Some(result) => Some(result),
                None if paused => None,
                None => serve(s, request, &mut candidates, &mut state)?,
            };
            hint_lease_end(s, line, &result)?;
            results.push(result);
        }
        let next_due = if !paused && (*further || results.iter().any(Option::is_none)) {
            sweep::next_due(s, line, &groups)?.map(|due| s.now.until(Timestamp(due)))
        } else {
            None
        };
        let dropped = std::mem::take(&mut state.dropped);
        outcomes.push(LineOutcome { results, next_due, dropped, paused, refused: None });
    }
    Ok(MessageClaimOutcome { outcomes, corrupt_row: state.corrupt_row })
}

/// Answers a claim from a snapshot, if it has nothing to write.
pub(crate) fn peek(s: &mut DbSession<'_>, lines: &[LineClaim]) -> Res<Option<MessageClaimOutcome>> {
    let mut outcomes = Vec::with_capacity(lines.len());
    for LineClaim { line, subscription, requests, .. } in lines {
        if let Some(refusal) = refusal(s, *subscription) {
            outcomes.push(LineOutcome::refused(requests.len(), refusal));
            continue;
        }
        let queues = s.matching(&line.selector)?;
        if group::applies_to_later_queues(line, *subscription, !queues.is_empty())
            && !group::is_subscription_stored(s, line)?
        {
            return Ok(None);
        }
        let mut groups = LineGroups::new();
        for queue in queues {
            match s.group(&queue, &line.group)? {
                Some(group) if !idle::is_poll_due(s, &queue, group)? => {
                    groups.push((queue, group));
                }
                Some(_) | None => return Ok(None),
            }
        }
        for request in requests {
            if !under_token(s, request.token)?.is_empty() {
                return Ok(None);
            }
        }
        let paused = s.maintenance()?.pops_paused;
        let mut next_due = None;
        if paused {
            // Scheduled messages that are due get their offsets during a pause, too.
            for (queue, _) in &groups {
                if sweep::scheduled(s, line, queue)?.is_some_and(|due| due <= s.now.0) {
                    return Ok(None);
                }
            }
        } else {
            next_due = sweep::next_due(s, line, &groups)?;
        }
        if next_due.is_some_and(|due| due <= s.now.0) {
            return Ok(None);
        }
        outcomes.push(LineOutcome {
            results: vec![None; requests.len()],
            next_due: next_due
                .map(|due| s.now.until(Timestamp(due)))
                .filter(|_| !requests.is_empty()),
            paused,
            ..LineOutcome::default()
        });
    }
    Ok(Some(MessageClaimOutcome { outcomes, corrupt_row: None }))
}

/// Why a line is refused, if it is.
fn refusal(s: &DbSession<'_>, subscription: Subscription) -> Option<InvalidField> {
    let future = matches!(subscription, Subscription::From(at) if at > s.now);
    future.then(|| InvalidField::future("subscriptionFrom"))
}

/// Takes messages for one request, up to its limits.
fn serve(
    s: &DbSession<'_>,
    request: &ClaimRequest,
    candidates: &mut QueueCandidates,
    state: &mut QueueClaimState,
) -> Res<Option<QueueClaimResult>> {
    let mut builder = ClaimResultBuilder::default();
    let mut capacity =
        BatchCapacity { messages: request.batch_len_max as usize, bytes: request.bytes_max.max(1) };
    while capacity.is_left(0, 0) && builder.partitions.len() < request.partitions_len_max as usize {
        let Some(mut candidate) = candidates.next(s)? else { break };
        let key = (candidate.cursor.partition, candidate.cursor.group);
        let due = candidate.cursor.due_at.is_some_and(|due_at| due_at <= s.now.0);
        if !due || state.served.contains(&key) || corrected(s, &candidate, candidates)? {
            continue;
        }
        let taken = match take_or_roll_back(s, &mut candidate, capacity) {
            Err(fault @ StoreFault::Corrupt { .. }) => {
                quarantine(s, &candidate, &fault)?;
                state.corrupt_row.get_or_insert(fault);
                continue;
            }
            taken => taken?,
        };
        state.dropped.extend(candidate.cursor.dropped.take().map(|offset| Dropped {
            queue: candidate.queue.name.clone(),
            partition: candidate.cursor.partition_name.clone(),
            offset,
        }));
        capacity.use_up(&taken);
        hold(s, &mut candidate, request, &taken)?;
        if !taken.messages.is_empty() {
            state.served.insert(key);
            builder.add(&candidate.queue, &candidate.cursor, taken);
        }
    }
    let token = (!request.auto_ack).then_some(request.token);
    Ok(builder.build(token, s.now))
}

/// Ends an expired lease, skips messages past their time limits, and takes what can be taken.
/// If that fails, nothing is written.
fn take_or_roll_back(
    s: &DbSession<'_>,
    candidate: &mut QueueCandidate,
    capacity: BatchCapacity,
) -> Res<TakenMessages> {
    let QueueCandidate { queue, cursor, .. } = candidate;
    if cursor.lease.is_none() && !queue.skips_old_messages() {
        return take(s, cursor, queue, capacity);
    }
    let run = |sql| s.conn.prepare_cached(sql)?.execute([]);
    run("SAVEPOINT expiry")?;
    let taken = end_expired_lease(s, cursor, queue)
        .and_then(|()| skip_old(s, cursor, queue))
        .and_then(|_| take(s, cursor, queue, capacity));
    if taken.is_err() {
        run("ROLLBACK TO expiry")?;
    }
    run("RELEASE expiry")?;
    taken
}

/// Moves a cursor's due time into the future, so that claims skip it. Otherwise it would be the
/// first candidate of every claim.
fn quarantine(s: &DbSession<'_>, candidate: &QueueCandidate, fault: &StoreFault) -> Res<()> {
    let QueueCandidate { queue, cursor, .. } = candidate;
    tracing::error!(error = error_chain(fault), queue = %queue.name,
        "skipped a corrupt row");
    let due_at = s.now.0.saturating_add(i64::try_from(QUARANTINE.as_micros()).unwrap_or(i64::MAX));
    let sql = include_str!("../../sql/queries/cursor_due.sql");
    s.conn.prepare_cached(sql)?.execute((cursor.partition, cursor.group, due_at))?;
    Ok(())
}

/// Corrects the due time of a cursor whose row says too early a time: a push moves the end of a
/// window without writing the cursor. Returns whether it was wrong; the cursor is then offered
/// again at its correct place.
fn corrected(
    s: &DbSession<'_>,
    candidate: &QueueCandidate,
    candidates: &mut QueueCandidates,
) -> Res<bool> {
    let QueueCandidate { queue, cursor, .. } = candidate;
    if queue.window_micros() == 0 || cursor.lease.is_some() {
        return Ok(false);
    }
    let due = cursor.due(s, queue)?;
    if due == cursor.due_at {
        return Ok(false);
    }
    let sql = include_str!("../../sql/queries/cursor_due.sql");
    s.conn.prepare_cached(sql)?.execute((cursor.partition, cursor.group, due))?;
    if let Some(due_at) = due.filter(|due| *due <= s.now.0) {
        candidates.put_back(candidate, due_at);
    }
    Ok(true)
}

/// Writes the lease for the taken messages (rule 6), or the new due time if nothing was taken.
fn hold(
    s: &DbSession<'_>,
    candidate: &mut QueueCandidate,
    request: &ClaimRequest,
    taken: &TakenMessages,
) -> Res<()> {
    let QueueCandidate { queue, cursor, .. } = candidate;
    let start = std::mem::replace(&mut cursor.next, taken.next);
    if !taken.messages.is_empty() {
        cursor.freed_at = s.now.0;
        (cursor.taken_at, cursor.taken_by) = (Some(s.now.0), request.worker.clone());
        let unsettled: Offsets = taken.messages.iter().map(|message| message.offset).collect();
        if request.auto_ack {
            ledger::record_unleased_delivery(s, cursor, queue, &unsettled)?;
            idle::record_settled(s, cursor.group)?;
            for message in taken.messages.iter().filter(|message| message.offset < start) {
                cursor.unpark(s, message.offset)?;
            }
        } else {
            let until = s.now.0 + queue.lease_micros();
            let outcomes = LeaseOutcomes { all: unsettled.clone(), ..LeaseOutcomes::default() };
            cursor.lease =
                Some(CursorLease { token: request.token, until, start, unsettled, outcomes });
        }
    }
    cursor.due_at = cursor.due(s, queue)?;
    cursor.write(s)
}

/// The messages that are still leased under the token of a repeated claim.
fn already_leased(
    s: &DbSession<'_>,
    line: &QueueLine,
    groups: &LineGroups,
    token: LeaseToken,
) -> Res<Option<QueueClaimResult>> {
    let mut builder = ClaimResultBuilder::default();
    for (partition, group) in under_token(s, token)? {
        let Some((queue, _)) = groups.iter().find(|(_, id)| *id == group) else { continue };
        let Some(cursor) = QueueCursor::read(s, partition, group)? else { continue };
        let is_selected = match &line.selector {
            Selector::Partition(_, name) => *name == cursor.partition_name,
            Selector::Queue(_) | Selector::Filter { .. } => true,
        };
        let Some(lease) = cursor.live(s.now.0).filter(|_| is_selected) else { continue };
        let mut messages = Vec::new();
        for offset in lease.unsettled.iter() {
            let failures = cursor.retry_state(s, offset)?.failures;
            messages.push(message::read(s, partition, offset, failures)?);
        }
        let next = cursor.next;
        builder.add(queue, &cursor, TakenMessages { messages, next, bytes: 0 });
    }
    Ok(builder.build(Some(token), s.now))
}

fn under_token(s: &DbSession<'_>, token: LeaseToken) -> Res<Vec<(i64, i64)>> {
    let sql = include_str!("../../sql/queries/cursor_by_token.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let rows = statement.query_map([token.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Notifies other processes of when the lease ends, so that they look again then if this process
/// dies.
fn hint_lease_end(
    s: &mut DbSession<'_>,
    line: &QueueLine,
    result: &Option<QueueClaimResult>,
) -> Res<()> {
    let Some(QueueClaimResult { lease: Some(_), lease_for, partitions }) = result else {
        return Ok(());
    };
    for claimed in partitions {
        let Some(queue) = s.queue(&claimed.queue)? else { continue };
        let change =
            Change { partition: None, group: Some(line.group.clone()), ..queue.change(*lease_for) };
        s.hint_lease_end(change, queue.lease_micros());
    }
    Ok(())
}

/// Collects the partitions of a claim result.
#[derive(Default)]
struct ClaimResultBuilder {
    cursors: Vec<CursorId>,
    until: Option<i64>,
    partitions: Vec<ClaimedPartition>,
}

impl ClaimResultBuilder {
    fn add(&mut self, queue: &QueueRow, cursor: &QueueCursor, taken: TakenMessages) {
        let group = i32::try_from(cursor.group).expect("groups are counted from 1, one by one");
        let partition_id = PartitionId(cursor.partition);
        self.cursors.push(CursorId { partition: partition_id, group: GroupId(group) });
        let until = cursor.lease.as_ref().map(|lease| lease.until);
        self.until = self.until.into_iter().chain(until).min();
        self.partitions.push(ClaimedPartition {
            queue: queue.name.clone(),
            partition: cursor.partition_name.clone(),
            partition_id,
            messages: taken.messages,
        });
    }

    fn build(self, token: Option<LeaseToken>, now: Timestamp) -> Option<QueueClaimResult> {
        let Self { cursors, until, partitions } = self;
        let lease_for = until.map_or(Duration::ZERO, |until| now.until(Timestamp(until)));
        let lease = token.map(|token| LeaseId { token, cursors });
        (!partitions.is_empty()).then_some(QueueClaimResult { lease, lease_for, partitions })
    }
}
