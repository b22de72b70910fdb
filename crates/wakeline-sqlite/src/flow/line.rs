//! Leases activities to workers, by claims and in the commit that inserts them.
//!
//! # Invariants
//! * The activities that a line may take are leased in the order in which they were inserted. Each
//!   route and taker costs one probe of an index.
//! * An activity with a corrupt row is skipped for a while, unchanged, so that it does not delay
//!   other activities. A claim that found nothing else returns the error, because corrupt rows must
//!   not be ignored silently.

use std::collections::BTreeSet;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    ActivityFilter, ActivityRoute, FlowChange, FlowChangeKind, FlowToken, OwnerId, Timestamp,
    error_chain,
};
use wakeline_store::flow::{SessionClaim, WorkClaim, WorkClaimed, WorkItem, WorkRequest};

use super::claim_outcome::{FlowClaimOutcome, QUARANTINE};
use super::names::{self, RouteIds};
use super::session;
use super::turn;
use super::work::WorkRow;
use crate::error::{Res, StoreFault};
use crate::session::DbSession;

/// The maximum number of activities that one claim skips: those of deleted instances, which it
/// removes, and those with corrupt rows. A large deletion leaves very many, and a claim is one
/// command of the writer, which must stay short.
const PASSED_OVER_MAX: usize = 500;

/// The tag, the name and the taker of the activities that one probe finds.
type WorkStream<'s> = (i64, i64, &'s str);

/// The activities that a line of workers may take.
struct WorkClaimLine<'l> {
    /// The routes, sorted.
    routes: Vec<RouteIds>,
    takers: Vec<String>,
    session: Option<&'l SessionClaim>,
}

impl<'l> WorkClaimLine<'l> {
    fn new(
        s: &mut DbSession<'_>,
        filter: &ActivityFilter,
        session: Option<&'l SessionClaim>,
    ) -> Res<Self> {
        let takers = session::takers(session.map(|claim| &claim.owner));
        Ok(Self { routes: names::routes(s, filter)?, takers, session })
    }

    fn streams(&self) -> impl Iterator<Item = WorkStream<'_>> {
        self.routes.iter().flat_map(|route| {
            self.takers.iter().map(|taker| (route.tag, route.name, taker.as_str()))
        })
    }

    /// Makes activities claimable whose delay has passed or whose lease has expired.
    fn make_claimable(&self, s: &DbSession<'_>) -> Res<()> {
        if self.session.is_some() {
            session::release_expired(s)?;
        }
        let sql = include_str!("../../sql/queries/flow_work_make_claimable.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        for (tag, name, taker) in self.streams() {
            statement.execute((tag, name, taker, s.now.0))?;
        }
        Ok(())
    }

    /// The oldest activity that can be claimed.
    fn first(&self, s: &DbSession<'_>) -> Res<Option<i64>> {
        let sql = include_str!("../../sql/queries/flow_work_first.sql");
        lowest(s, sql, self.streams())
    }

    /// When the next activity can be claimed, possibly in the past.
    fn next_due(&self, s: &DbSession<'_>) -> Res<Option<i64>> {
        if self.first(s)?.is_some() {
            return Ok(Some(s.now.0));
        }
        let sql = include_str!("../../sql/queries/flow_work_next_due.sql");
        let due = lowest(s, sql, self.streams())?;
        let end = match self.session {
            Some(claim) => session::next_end(s, &claim.owner, &self.routes)?,
            None => None,
        };
        Ok(due.into_iter().chain(end).min())
    }

    /// The activity of the line that is still leased under the key of a repeated claim.
    fn held(&self, s: &mut DbSession<'_>, key: Uuid) -> Res<Option<WorkItem>> {
        let sql = include_str!("../../sql/queries/flow_work_by_lease.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query((key.into_bytes(), s.now.0))?;
        while let Some(row) = rows.next()? {
            let Some(row) = WorkRow::read(s, row.get(0)?)? else { continue };
            let open = row.session.is_none() || self.session.is_some();
            if open && self.routes.binary_search(&row.route).is_ok() {
                return Ok(Some(item(s, row)?));
            }
        }
        Ok(None)
    }

    /// Leases an activity that can be claimed. If its row is corrupt, the activity is quarantined.
    fn take(
        &self,
        s: &mut DbSession<'_>,
        id: i64,
        request: &WorkRequest,
        corrupt_row: &mut Option<StoreFault>,
    ) -> Res<Option<WorkItem>> {
        match self.lease(s, id, request) {
            Err(fault @ StoreFault::Corrupt { .. }) => {
                tracing::error!(error = error_chain(&fault), work = id, "skipped a corrupt row");
                let sql = include_str!("../../sql/queries/flow_work_quarantine.sql");
                s.conn.prepare_cached(sql)?.execute((id, s.now.plus(QUARANTINE).0))?;
                corrupt_row.get_or_insert(fault);
                Ok(None)
            }
            taken => taken,
        }
    }

    /// Leases an activity that can be claimed. If its instance was deleted, the activity is
    /// removed.
    fn lease(
        &self,
        s: &mut DbSession<'_>,
        id: i64,
        request: &WorkRequest,
    ) -> Res<Option<WorkItem>> {
        let Some(mut row) = WorkRow::read(s, id)? else {
            let sql = include_str!("../../sql/queries/flow_work_remove.sql");
            s.conn.prepare_cached(sql)?.execute([id])?;
            return Ok(None);
        };
        let until = s.now.plus(request.lease).0;
        row.due_at = Some(until);
        row.lease = Some((request.key, until));
        row.attempts = row.attempts.saturating_add(1);
        let item = item(s, row.clone())?;
        row.write(s)?;
        if let (Some(session), Some(claim)) = (&row.session, self.session) {
            session::claim(s, session, claim)?;
        }
        let what = FlowChangeKind::Work(item.route());
        s.hint_flow_lease_end(FlowChange { what, due_in: item.lease_for });
        Ok(Some(item))
    }
}

fn lowest<'l>(
    s: &DbSession<'_>,
    sql: &str,
    streams: impl Iterator<Item = WorkStream<'l>>,
) -> Res<Option<i64>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut lowest: Option<i64> = None;
    for stream in streams {
        let mut rows = statement.query(stream)?;
        if let Some(row) = rows.next()? {
            lowest = lowest.into_iter().chain([row.get(0)?]).min();
        }
    }
    Ok(lowest)
}

/// Builds the leased activity that the worker receives.
fn item(s: &mut DbSession<'_>, row: WorkRow) -> Res<WorkItem> {
    let sql = include_str!("../../sql/queries/flow_work_payload.sql");
    let payload: Vec<u8> = s.conn.prepare_cached(sql)?.query_row([row.id], |row| row.get(0))?;
    let (key, until) = row.lease.expect("it is leased");
    let ActivityRoute { tag, name } = names::route(s, row.route)?;
    let state = row.state(s)?;
    Ok(WorkItem {
        token: FlowToken { lane: row.lane, work: Some(row.id), key },
        attempt: row.attempts,
        instance: row.instance,
        key: row.key,
        name,
        tag,
        session: row.session,
        payload: Bytes::from(payload),
        state,
        lease_for: s.now.until(Timestamp(until)),
    })
}

/// Leases activities for the requests of some lines.
pub(super) fn claim(
    s: &mut DbSession<'_>,
    lines: &[WorkClaim],
) -> Res<FlowClaimOutcome<WorkClaimed>> {
    let (mut corrupt_row, mut passed_over) = (None, 0);
    let mut outcomes = Vec::with_capacity(lines.len());
    for WorkClaim { filter, session, requests, further } in lines {
        let line = WorkClaimLine::new(s, filter, session.as_ref())?;
        line.make_claimable(s)?;
        let mut work = Vec::with_capacity(requests.len());
        for request in requests {
            let mut taken = line.held(s, request.key)?;
            // Beyond the limit the line stays due at once, and the next claim continues.
            while taken.is_none() && passed_over < PASSED_OVER_MAX {
                let Some(id) = line.first(s)? else { break };
                taken = line.take(s, id, request, &mut corrupt_row)?;
                passed_over += usize::from(taken.is_none());
            }
            work.push(taken);
        }
        let next_due = if *further || work.iter().any(Option::is_none) {
            line.next_due(s)?.map(|due| s.now.until(Timestamp(due)))
        } else {
            None
        };
        outcomes.push(WorkClaimed { work, next_due });
    }
    let any = outcomes.iter().flat_map(|outcome| &outcome.work).any(Option::is_some);
    Ok(FlowClaimOutcome::new(outcomes, any, corrupt_row))
}

/// Answers a claim from a snapshot, if there is nothing to lease.
pub(super) fn peek(
    s: &mut DbSession<'_>,
    lines: &[WorkClaim],
) -> Res<Option<FlowClaimOutcome<WorkClaimed>>> {
    let mut outcomes = Vec::with_capacity(lines.len());
    for WorkClaim { filter, session, requests, further } in lines {
        let line = WorkClaimLine::new(s, filter, session.as_ref())?;
        let due = line.next_due(s)?;
        if due.is_some_and(|due| due <= s.now.0) {
            return Ok(None);
        }
        let mut work = Vec::with_capacity(requests.len());
        for request in requests {
            work.push(line.held(s, request.key)?);
        }
        let missing = *further || work.iter().any(Option::is_none);
        let next_due = due.map(|due| s.now.until(Timestamp(due))).filter(|_| missing);
        outcomes.push(WorkClaimed { work, next_due });
    }
    Ok(Some(FlowClaimOutcome::new(outcomes, true, None)))
}

/// When a line of workers has something to claim next, possibly in the past.
pub(super) fn line_due(
    s: &mut DbSession<'_>,
    filter: &ActivityFilter,
    owner: Option<&OwnerId>,
) -> Res<Option<i64>> {
    let claim =
        owner.map(|owner| SessionClaim { owner: owner.clone(), lease: std::time::Duration::ZERO });
    WorkClaimLine::new(s, filter, claim.as_ref())?.next_due(s)
}

/// Activities that were leased in the commit that inserted them, with their requests' indices.
pub(super) type WorkLeasedOnInsert = Vec<(usize, WorkItem)>;

/// Leases inserted activities to the requests that are piggybacked on the command, unless older
/// activities wait for them. Also returns the hints for the activities that were not leased.
pub(super) fn lease_on_insert(
    s: &mut DbSession<'_>,
    inserted: Vec<(i64, FlowChange)>,
    requests: &[WorkRequest],
) -> Res<(WorkLeasedOnInsert, Vec<FlowChange>)> {
    let mut open: BTreeSet<i64> =
        inserted.iter().filter(|(_, change)| change.due_in.is_zero()).map(|(id, _)| *id).collect();
    let mut leased = BTreeSet::new();
    let mut work = Vec::new();
    for (n, request) in requests.iter().enumerate() {
        if open.is_empty() {
            break;
        }
        let line = WorkClaimLine::new(s, &request.filter, request.session.as_ref())?;
        line.make_claimable(s)?;
        if let Some(id) = line.first(s)?
            && open.remove(&id)
            && let Some(item) = line.take(s, id, request, &mut None)?
        {
            leased.insert(id);
            work.push((n, item));
        }
    }
    let unleased = inserted.into_iter().filter(|(id, _)| !leased.contains(id));
    let changes = turn::merged(unleased.map(|(_, change)| change));
    s.hint_flow(&changes);
    Ok((work, changes))
}
