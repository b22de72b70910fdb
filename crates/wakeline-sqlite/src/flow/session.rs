//! Sessions: which worker gets the activities that belong together.
//!
//! # Invariants
//! * The column `taker` of each activity says which workers may claim it, so that claims probe an
//!   index and skip nothing. For the activities of a session it changes with the session's owner:
//!   when a session is claimed, and when a claim finds that a session has ended.

use rusqlite::OptionalExtension as _;
use wakeline_core::{FlowChange, FlowChangeKind, OwnerId, SessionId};
use wakeline_store::flow::SessionClaim;

use super::names::{self, RouteIds};
use crate::error::Res;
use crate::session::DbSession;

/// The taker of activities without a session: every worker may claim them.
pub(super) const ANYONE: &str = "*";
/// The taker of activities whose session has no owner: every worker that accepts sessions may claim
/// them.
const ANY_OWNER: &str = "+";

/// The taker of an activity of a session, or of no session.
pub(super) fn taker(s: &DbSession<'_>, session: Option<&SessionId>) -> Res<String> {
    let Some(session) = session else { return Ok(ANYONE.to_owned()) };
    let sql = include_str!("../../sql/queries/flow_session_read.sql");
    let owner: Option<Option<String>> = s
        .conn
        .prepare_cached(sql)?
        .query_row((session.as_str(), s.now.0), |row| row.get(0))
        .optional()?;
    Ok(owner.flatten().map_or_else(|| ANY_OWNER.to_owned(), |owner| owned_by(&owner)))
}

fn owned_by(owner: &str) -> String {
    format!("={owner}")
}

/// The takers whose activities a line may claim.
pub(super) fn takers(claim: Option<&OwnerId>) -> Vec<String> {
    let mut takers = vec![ANYONE.to_owned()];
    if let Some(owner) = claim {
        takers.push(ANY_OWNER.to_owned());
        takers.push(owned_by(owner.as_str()));
    }
    takers
}

/// Assigns a session to the owner that claimed an activity of it. Returns whether the owner
/// changed.
pub(super) fn claim(s: &DbSession<'_>, session: &SessionId, claim: &SessionClaim) -> Res<bool> {
    let new = taker(s, Some(session))? != owned_by(claim.owner.as_str());
    let sql = include_str!("../../sql/queries/flow_session_claim.sql");
    let until = s.now.plus(claim.lease).0;
    let params = (session.as_str(), claim.owner.as_str(), until, s.now.0);
    s.conn.prepare_cached(sql)?.execute(params)?;
    if new {
        make_available_to(s, session.as_str(), &owned_by(claim.owner.as_str()))?;
    }
    Ok(new)
}

fn make_available_to(s: &DbSession<'_>, session: &str, taker: &str) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_work_taker.sql");
    s.conn.prepare_cached(sql)?.execute((session, taker))?;
    Ok(())
}

/// Makes the activities of ended sessions available to all workers that accept sessions.
pub(super) fn release_expired(s: &DbSession<'_>) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_session_expired.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let ended: Vec<String> =
        statement.query_map([s.now.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for session in ended {
        make_available_to(s, &session, ANY_OWNER)?;
        let sql = include_str!("../../sql/queries/flow_session_release.sql");
        s.conn.prepare_cached(sql)?.execute([session])?;
    }
    Ok(())
}

/// Records activity in a session.
pub(super) fn touch(s: &DbSession<'_>, session: Option<&SessionId>) -> Res<()> {
    if let Some(session) = session {
        let sql = include_str!("../../sql/queries/flow_session_active.sql");
        s.conn.prepare_cached(sql)?.execute((session.as_str(), s.now.0))?;
    }
    Ok(())
}

/// When an activity of these routes can be claimed next because the session of another owner ends.
/// The routes are sorted.
pub(super) fn next_end(
    s: &DbSession<'_>,
    owner: &OwnerId,
    routes: &[RouteIds],
) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/flow_session_ends.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut next: Option<i64> = None;
    while let Some(row) = rows.next()? {
        let (session, other): (String, String) = (row.get(0)?, row.get(1)?);
        let until: i64 = row.get(2)?;
        if next.is_some_and(|next| next <= until) {
            break;
        }
        if other != owner.as_str() {
            let free = first_free(s, &session, routes)?.map(|free| free.max(until));
            next = next.into_iter().chain(free).min();
        }
    }
    Ok(next)
}

/// When the first activity of a session on these routes is neither leased nor delayed. The routes
/// are sorted.
fn first_free(s: &DbSession<'_>, session: &str, routes: &[RouteIds]) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/flow_work_of_session.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([session])?;
    let mut first: Option<i64> = None;
    while let Some(row) = rows.next()? {
        let route = RouteIds { tag: row.get(0)?, name: row.get(1)? };
        if routes.binary_search(&route).is_ok() {
            first = first.into_iter().chain([row.get(2)?]).min();
        }
    }
    Ok(first)
}

/// Extends the live sessions of owners that were active since `since`, up to `until`.
pub(super) fn keep(s: &DbSession<'_>, owners: &[OwnerId], until: i64, since: i64) -> Res<u64> {
    let sql = include_str!("../../sql/queries/flow_session_keep.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut kept = 0;
    for owner in owners {
        kept += statement.execute((owner.as_str(), s.now.0, until, since))? as u64;
    }
    Ok(kept)
}

/// Ends the live sessions of owners, and notifies workers of their activities.
pub(super) fn end(s: &mut DbSession<'_>, owners: &[OwnerId]) -> Res<u64> {
    let mut ended = 0;
    for owner in owners {
        let sql = include_str!("../../sql/queries/flow_session_end.sql");
        ended += s.conn.prepare_cached(sql)?.execute((owner.as_str(), s.now.0))? as u64;
    }
    if ended == 0 {
        return Ok(0);
    }
    release_expired(s)?;
    let sql = include_str!("../../sql/queries/flow_work_open.sql");
    let mut open: Vec<RouteIds> = Vec::new();
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([ANY_OWNER])?;
    while let Some(row) = rows.next()? {
        open.push(RouteIds { tag: row.get(0)?, name: row.get(1)? });
    }
    drop(rows);
    drop(statement);
    let mut changes = Vec::with_capacity(open.len());
    for route in open {
        changes.push(FlowChange::now(FlowChangeKind::Work(names::route(s, route)?)));
    }
    s.hint_flow(&changes);
    Ok(ended)
}

/// Removes sessions that have ended and have no activities.
pub(super) fn tidy(s: &DbSession<'_>) -> Res<u64> {
    let sql = include_str!("../../sql/queries/flow_session_tidy.sql");
    Ok(s.conn.prepare_cached(sql)?.execute([s.now.0])? as u64)
}
