//! Leases activities to workers, by claims and in the commit that made them available.
//!
//! # Invariants
//! * First come, first served among what a line may take: one probe per route and kind of taker.
//! * An activity that cannot be read is left alone for a while, as it is, so that it holds up no
//!   other. It is an error for whoever's claim found nothing else (trap 46).

use std::collections::BTreeSet;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    ActivityFilter, ActivityRoute, FlowChange, FlowToken, FlowWhat, OwnerId, Timestamp, error_chain,
};
use wakeline_store::flow::{SessionClaim, WorkClaim, WorkClaimed, WorkItem, WorkRequest};

use super::found::{Found, SET_ASIDE};
use super::names::{self, Route};
use super::session;
use super::turn;
use super::work::WorkRow;
use crate::error::{Fault, Res};
use crate::session::Session;

/// Activities that one claim passes over at most: of deleted instances, which it removes, and such
/// that cannot be read. A large deletion leaves very many, and a claim is one command of the
/// writer.
const PASSED_OVER_MAX: usize = 500;

/// A tag, a name, and a kind of taker: what one probe finds.
type Stream<'s> = (i64, i64, &'s str);

/// What a line of workers may take.
struct Line<'l> {
    /// Sorted.
    routes: Vec<Route>,
    takers: Vec<String>,
    session: Option<&'l SessionClaim>,
}

impl<'l> Line<'l> {
    fn new(
        s: &mut Session<'_>,
        filter: &ActivityFilter,
        session: Option<&'l SessionClaim>,
    ) -> Res<Self> {
        let takers = session::takers(session.map(|claim| &claim.owner));
        Ok(Self { routes: names::routes(s, filter)?, takers, session })
    }

    fn streams(&self) -> impl Iterator<Item = Stream<'_>> {
        self.routes.iter().flat_map(|route| {
            self.takers.iter().map(|taker| (route.tag, route.name, taker.as_str()))
        })
    }

    /// Lets that be taken whose time has come.
    fn awake(&self, s: &Session<'_>) -> Res<()> {
        if self.session.is_some() {
            session::release_expired(s)?;
        }
        let sql = include_str!("../../sql/queries/flow_work_awake.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        for (tag, name, taker) in self.streams() {
            statement.execute((tag, name, taker, s.now.0))?;
        }
        Ok(())
    }

    /// The oldest activity that can be taken.
    fn first(&self, s: &Session<'_>) -> Res<Option<i64>> {
        let sql = include_str!("../../sql/queries/flow_work_first.sql");
        least(s, sql, self.streams())
    }

    /// When there is something to take; it may have passed.
    fn next_due(&self, s: &Session<'_>) -> Res<Option<i64>> {
        if self.first(s)?.is_some() {
            return Ok(Some(s.now.0));
        }
        let sql = include_str!("../../sql/queries/flow_work_next_due.sql");
        let due = least(s, sql, self.streams())?;
        let end = match self.session {
            Some(claim) => session::next_end(s, &claim.owner, &self.routes)?,
            None => None,
        };
        Ok(due.into_iter().chain(end).min())
    }

    /// What the key of a repeated claim holds in the line.
    fn held(&self, s: &mut Session<'_>, key: Uuid) -> Res<Option<WorkItem>> {
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

    /// Leases an activity that can be taken. One that cannot be read is left alone for a while.
    fn take(
        &self,
        s: &mut Session<'_>,
        id: i64,
        request: &WorkRequest,
        spoilt: &mut Option<Fault>,
    ) -> Res<Option<WorkItem>> {
        match self.lease(s, id, request) {
            Err(fault @ Fault::Corrupt { .. }) => {
                tracing::error!(error = error_chain(&fault), work = id, "skipped a corrupt row");
                let sql = include_str!("../../sql/queries/flow_work_set_aside.sql");
                s.conn.prepare_cached(sql)?.execute((id, s.now.plus(SET_ASIDE).0))?;
                spoilt.get_or_insert(fault);
                Ok(None)
            }
            taken => taken,
        }
    }

    /// Leases an activity that can be taken. One of an instance that was deleted goes.
    fn lease(&self, s: &mut Session<'_>, id: i64, request: &WorkRequest) -> Res<Option<WorkItem>> {
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
        let what = FlowWhat::Work(item.route());
        s.hint_flow_lease_end(FlowChange { what, due_in: item.lease_for });
        Ok(Some(item))
    }
}

fn least<'l>(
    s: &Session<'_>,
    sql: &str,
    streams: impl Iterator<Item = Stream<'l>>,
) -> Res<Option<i64>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut least: Option<i64> = None;
    for stream in streams {
        let mut rows = statement.query(stream)?;
        if let Some(row) = rows.next()? {
            least = least.into_iter().chain([row.get(0)?]).min();
        }
    }
    Ok(least)
}

/// A leased activity as its worker gets it.
fn item(s: &mut Session<'_>, row: WorkRow) -> Res<WorkItem> {
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
pub(super) fn claim(s: &mut Session<'_>, lines: &[WorkClaim]) -> Res<Found<WorkClaimed>> {
    let (mut spoilt, mut passed_over) = (None, 0);
    let mut outcomes = Vec::with_capacity(lines.len());
    for WorkClaim { filter, session, requests, further } in lines {
        let line = Line::new(s, filter, session.as_ref())?;
        line.awake(s)?;
        let mut work = Vec::with_capacity(requests.len());
        for request in requests {
            let mut taken = line.held(s, request.key)?;
            // Beyond it the line is due at once: the rest is for the next claim.
            while taken.is_none() && passed_over < PASSED_OVER_MAX {
                let Some(id) = line.first(s)? else { break };
                taken = line.take(s, id, request, &mut spoilt)?;
                passed_over += usize::from(taken.is_none());
            }
            work.push(taken);
        }
        let next_due = match *further || work.iter().any(Option::is_none) {
            true => line.next_due(s)?.map(|due| s.now.until(Timestamp(due))),
            false => None,
        };
        outcomes.push(WorkClaimed { work, next_due });
    }
    let any = outcomes.iter().flat_map(|outcome| &outcome.work).any(Option::is_some);
    Ok(Found::new(outcomes, any, spoilt))
}

/// Answers a claim from a snapshot, if there is nothing in it to lease.
pub(super) fn peek(s: &mut Session<'_>, lines: &[WorkClaim]) -> Res<Option<Found<WorkClaimed>>> {
    let mut outcomes = Vec::with_capacity(lines.len());
    for WorkClaim { filter, session, requests, further } in lines {
        let line = Line::new(s, filter, session.as_ref())?;
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
    Ok(Some(Found::new(outcomes, true, None)))
}

/// When a line of workers has something; it may have passed.
pub(super) fn line_due(
    s: &mut Session<'_>,
    filter: &ActivityFilter,
    owner: Option<&OwnerId>,
) -> Res<Option<i64>> {
    let claim =
        owner.map(|owner| SessionClaim { owner: owner.clone(), lease: std::time::Duration::ZERO });
    Line::new(s, filter, claim.as_ref())?.next_due(s)
}

/// Activities that were leased in the commit that made them available.
pub(super) type BornWork = Vec<(usize, WorkItem)>;

/// Leases what a command inserted to the requests that came along with it, unless something older
/// waits for them; and what is left to tell.
pub(super) fn born(
    s: &mut Session<'_>,
    inserted: Vec<(i64, FlowChange)>,
    requests: &[WorkRequest],
) -> Res<(BornWork, Vec<FlowChange>)> {
    let mut open: BTreeSet<i64> =
        inserted.iter().filter(|(_, change)| change.due_in.is_zero()).map(|(id, _)| *id).collect();
    let mut leased = BTreeSet::new();
    let mut work = Vec::new();
    for (n, request) in requests.iter().enumerate() {
        if open.is_empty() {
            break;
        }
        let line = Line::new(s, &request.filter, request.session.as_ref())?;
        line.awake(s)?;
        if let Some(id) = line.first(s)?
            && open.remove(&id)
            && let Some(item) = line.take(s, id, request, &mut None)?
        {
            leased.insert(id);
            work.push((n, item));
        }
    }
    let told = inserted.into_iter().filter(|(id, _)| !leased.contains(id));
    let changes = turn::merged(told.map(|(_, change)| change));
    s.hint_flow(&changes);
    Ok((work, changes))
}
