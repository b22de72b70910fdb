//! Leases messages to requests.
//!
//! # Invariants
//! * A partition with something that cannot be read is left alone for a while, as it is, so that
//!   it holds up no other. It is an error for whoever's claim found nothing else (trap 46).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    Change, CursorId, GroupId, LeaseId, LeaseToken, PartitionId, QueueLine, Selector, Subscription,
    Timestamp, error_chain,
};
use wakeline_store::{
    ClaimRequest, Dropped, Grant, GrantedPartition, InvalidField, LineClaim, LineOutcome,
    StoreError,
};

use super::cursor::{Cursor, Lease};
use super::group;
use super::idle;
use super::ledger::{self, Past};
use super::line::{Offer, Offered};
use super::message;
use super::offsets::Offsets;
use super::pass::pass_over;
use super::schedule;
use super::sweep;
use super::take::{Room, Taken, end_expired_lease, take};
use crate::error::{Fault, Res};
use crate::session::{Queue, Session};

/// How long claims keep away from what cannot be read.
const SET_ASIDE: Duration = Duration::from_secs(300);

/// What came of a claim.
pub(crate) struct Claimed {
    pub(crate) outcomes: Vec<LineOutcome>,
    /// The first thing that could not be read, if so.
    spoilt: Option<Fault>,
}

impl Claimed {
    /// What was found; or the error, if nothing was and something could not be read.
    pub(crate) fn answer(self) -> Result<Vec<LineOutcome>, StoreError> {
        let found = self.outcomes.iter().flat_map(|outcome| &outcome.grants).any(Option::is_some);
        match self.spoilt {
            Some(fault) if !found => Err(fault.named("claim")),
            _ => Ok(self.outcomes),
        }
    }
}

/// What a call has dealt with.
#[derive(Default)]
struct Books {
    /// Partitions and groups that went to a request: they go to one only.
    served: HashSet<(i64, i64)>,
    spoilt: Option<Fault>,
    /// What the line under way dropped.
    dropped: Vec<Dropped>,
}

/// The queues of a line with the id of its group in each.
type Groups = Vec<(Arc<Queue>, i64)>;

/// Leases messages for the requests of some lines.
pub(crate) fn claim(s: &mut Session<'_>, lines: &[LineClaim]) -> Res<Claimed> {
    let mut books = Books::default();
    let mut outcomes = Vec::with_capacity(lines.len());
    for LineClaim { line, subscription, requests, further } in lines {
        if let Some(refusal) = refusal(s, *subscription) {
            outcomes.push(LineOutcome::refused(requests.len(), refusal));
            continue;
        }
        schedule::move_due_of(s, &line.selector)?;
        let groups = group::begin(s, line, *subscription)?;
        for (queue, group) in &groups {
            idle::record_poll(s, queue, *group)?;
        }
        let paused = s.maintenance()?.pops_paused;
        let mut offered = Offered::new(s, &line.selector, &groups)?;
        let mut grants = Vec::with_capacity(requests.len());
        for request in requests {
            let grant = match held(s, line, &groups, request.token)? {
                Some(grant) => Some(grant),
                None if paused => None,
                None => serve(s, request, &mut offered, &mut books)?,
            };
            hint_lease_end(s, line, &grant)?;
            grants.push(grant);
        }
        let next_due = if !paused && (*further || grants.iter().any(Option::is_none)) {
            sweep::next_due(s, line, &groups)?.map(|due| s.now.until(Timestamp(due)))
        } else {
            None
        };
        let dropped = std::mem::take(&mut books.dropped);
        outcomes.push(LineOutcome { grants, next_due, dropped, paused, refused: None });
    }
    Ok(Claimed { outcomes, spoilt: books.spoilt })
}

/// Answers a claim from a snapshot, if there is nothing in it to write.
pub(crate) fn peek(s: &mut Session<'_>, lines: &[LineClaim]) -> Res<Option<Claimed>> {
    let mut outcomes = Vec::with_capacity(lines.len());
    for LineClaim { line, subscription, requests, .. } in lines {
        if let Some(refusal) = refusal(s, *subscription) {
            outcomes.push(LineOutcome::refused(requests.len(), refusal));
            continue;
        }
        let queues = s.matching(&line.selector)?;
        if group::outlasts(line, *subscription, !queues.is_empty()) && !group::knows(s, line)? {
            return Ok(None);
        }
        let mut groups = Groups::new();
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
            // What is due gets its offset during a pause, too.
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
            grants: vec![None; requests.len()],
            next_due: next_due
                .map(|due| s.now.until(Timestamp(due)))
                .filter(|_| !requests.is_empty()),
            paused,
            ..LineOutcome::default()
        });
    }
    Ok(Some(Claimed { outcomes, spoilt: None }))
}

/// What is wrong with a line, if so.
fn refusal(s: &Session<'_>, subscription: Subscription) -> Option<InvalidField> {
    let future = matches!(subscription, Subscription::From(at) if at > s.now);
    future.then(|| InvalidField::future("subscriptionFrom"))
}

/// Gives one request what it may take.
fn serve(
    s: &Session<'_>,
    request: &ClaimRequest,
    offered: &mut Offered,
    books: &mut Books,
) -> Res<Option<Grant>> {
    let mut gathered = Gathered::default();
    let mut room =
        Room { messages: request.batch_len_max as usize, bytes: request.bytes_max.max(1) };
    while room.is_left(0, 0) && gathered.partitions.len() < request.partitions_len_max as usize {
        let Some(mut offer) = offered.next(s)? else { break };
        let key = (offer.cursor.partition, offer.cursor.group);
        let due = offer.cursor.due_at.is_some_and(|due_at| due_at <= s.now.0);
        if !due || books.served.contains(&key) || corrected(s, &offer, offered)? {
            continue;
        }
        let taken = match take_fresh(s, &mut offer, room) {
            Err(fault @ Fault::Corrupt { .. }) => {
                set_aside(s, &offer, &fault)?;
                books.spoilt.get_or_insert(fault);
                continue;
            }
            taken => taken?,
        };
        books.dropped.extend(offer.cursor.dropped.take().map(|offset| Dropped {
            queue: offer.queue.name.clone(),
            partition: offer.cursor.partition_name.clone(),
            offset,
        }));
        room.use_up(&taken);
        hold(s, &mut offer, request, &taken)?;
        if !taken.messages.is_empty() {
            books.served.insert(key);
            gathered.add(&offer.queue, &offer.cursor, taken);
        }
    }
    let token = (!request.auto_ack).then_some(request.token);
    Ok(gathered.grant(token, s.now))
}

/// Ends a lease that ran out, passes over what is past its time, and takes what can be taken.
/// Where that fails, nothing was written.
fn take_fresh(s: &Session<'_>, offer: &mut Offer, room: Room) -> Res<Taken> {
    let Offer { queue, cursor, .. } = offer;
    if cursor.lease.is_none() && !queue.passes_over() {
        return take(s, cursor, queue, room);
    }
    let run = |sql| s.conn.prepare_cached(sql)?.execute([]);
    run("SAVEPOINT expiry")?;
    let taken = end_expired_lease(s, cursor, queue)
        .and_then(|()| pass_over(s, cursor, queue))
        .and_then(|_| take(s, cursor, queue, room));
    if taken.is_err() {
        run("ROLLBACK TO expiry")?;
    }
    run("RELEASE expiry")?;
    taken
}

/// Keeps claims away from a cursor: due at once it would be the first that each of them meets.
fn set_aside(s: &Session<'_>, offer: &Offer, fault: &Fault) -> Res<()> {
    let Offer { queue, cursor, .. } = offer;
    tracing::error!(error = error_chain(fault), queue = %queue.name,
        "skipped a corrupt row");
    let due_at = s.now.0.saturating_add(i64::try_from(SET_ASIDE.as_micros()).unwrap_or(i64::MAX));
    let sql = include_str!("../../sql/queries/cursor_due.sql");
    s.conn.prepare_cached(sql)?.execute((cursor.partition, cursor.group, due_at))?;
    Ok(())
}

/// A row may say too early when its cursor is due: a push moves the end of a window, and writes
/// no cursor. True if it was so; the cursor then goes back to its true place.
fn corrected(s: &Session<'_>, offer: &Offer, offered: &mut Offered) -> Res<bool> {
    let Offer { queue, cursor, .. } = offer;
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
        offered.put_back(offer, due_at);
    }
    Ok(true)
}

/// Rule 6; or, if nothing was taken, when there will be something.
fn hold(s: &Session<'_>, offer: &mut Offer, request: &ClaimRequest, taken: &Taken) -> Res<()> {
    let Offer { queue, cursor, .. } = offer;
    let start = std::mem::replace(&mut cursor.next, taken.next);
    if !taken.messages.is_empty() {
        cursor.freed_at = s.now.0;
        (cursor.taken_at, cursor.taken_by) = (Some(s.now.0), request.worker.clone());
        let unsettled: Offsets = taken.messages.iter().map(|message| message.offset).collect();
        if request.auto_ack {
            ledger::note_at_once(s, cursor, queue, &unsettled)?;
            idle::record_settled(s, cursor.group)?;
            for message in taken.messages.iter().filter(|message| message.offset < start) {
                cursor.unpark(s, message.offset)?;
            }
        } else {
            let until = s.now.0 + queue.lease_micros();
            let past = Past { all: unsettled.clone(), ..Past::default() };
            cursor.lease = Some(Lease { token: request.token, until, start, unsettled, past });
        }
    }
    cursor.due_at = cursor.due(s, queue)?;
    cursor.write(s)
}

/// What is still held under the token of a repeated claim.
fn held(
    s: &Session<'_>,
    line: &QueueLine,
    groups: &Groups,
    token: LeaseToken,
) -> Res<Option<Grant>> {
    let mut gathered = Gathered::default();
    for (partition, group) in under_token(s, token)? {
        let Some((queue, _)) = groups.iter().find(|(_, id)| *id == group) else { continue };
        let Some(cursor) = Cursor::read(s, partition, group)? else { continue };
        let asked = match &line.selector {
            Selector::Partition(_, name) => *name == cursor.partition_name,
            Selector::Queue(_) | Selector::Filter { .. } => true,
        };
        let Some(lease) = cursor.live(s.now.0).filter(|_| asked) else { continue };
        let mut messages = Vec::new();
        for offset in lease.unsettled.iter() {
            let failures = cursor.held(s, offset)?.failures;
            messages.push(message::read(s, partition, offset, failures)?);
        }
        let next = cursor.next;
        gathered.add(queue, &cursor, Taken { messages, next, bytes: 0 });
    }
    Ok(gathered.grant(Some(token), s.now))
}

fn under_token(s: &Session<'_>, token: LeaseToken) -> Res<Vec<(i64, i64)>> {
    let sql = include_str!("../../sql/queries/cursor_by_token.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let rows = statement.query_map([token.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Tells other processes when the lease ends: should this one die, they are to look again then.
fn hint_lease_end(s: &mut Session<'_>, line: &QueueLine, grant: &Option<Grant>) -> Res<()> {
    let Some(Grant { lease: Some(_), lease_for, partitions }) = grant else { return Ok(()) };
    for granted in partitions {
        let Some(queue) = s.queue(&granted.queue)? else { continue };
        let change =
            Change { partition: None, group: Some(line.group.clone()), ..queue.change(*lease_for) };
        s.hint_lease_end(change, queue.lease_micros());
    }
    Ok(())
}

/// A grant on its way.
#[derive(Default)]
struct Gathered {
    cursors: Vec<CursorId>,
    until: Option<i64>,
    partitions: Vec<GrantedPartition>,
}

impl Gathered {
    fn add(&mut self, queue: &Queue, cursor: &Cursor, taken: Taken) {
        let group = i32::try_from(cursor.group).expect("groups are counted from 1, one by one");
        let partition_id = PartitionId(cursor.partition);
        self.cursors.push(CursorId { partition: partition_id, group: GroupId(group) });
        let until = cursor.lease.as_ref().map(|lease| lease.until);
        self.until = self.until.into_iter().chain(until).min();
        self.partitions.push(GrantedPartition {
            queue: queue.name.clone(),
            partition: cursor.partition_name.clone(),
            partition_id,
            messages: taken.messages,
        });
    }

    fn grant(self, token: Option<LeaseToken>, now: Timestamp) -> Option<Grant> {
        let Self { cursors, until, partitions } = self;
        let lease_for = until.map_or(Duration::ZERO, |until| now.until(Timestamp(until)));
        let lease = token.map(|token| LeaseId { token, cursors });
        (!partitions.is_empty()).then_some(Grant { lease, lease_for, partitions })
    }
}
