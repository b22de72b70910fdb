//! Lists instances in pages.

use rusqlite::{Rows, params};
use wakeline_core::{InstanceId, OrchestrationName, Timestamp};
use wakeline_store::flow::{InstanceDetail, InstanceState, ListInstances, ListedInstances};

use super::read::decode_detail;
use crate::error::Res;
use crate::session::DbSession;

/// A page of instances, newest first.
pub(super) fn list(s: &mut DbSession<'_>, filter: &ListInstances) -> Res<ListedInstances> {
    let mut instances = begun(s, filter)?;
    if may_be_pending(filter) {
        instances.extend(pending(s, filter)?);
        instances.sort_by_key(|detail| std::cmp::Reverse(place(detail)));
    }
    let more = instances.len() > filter.limit as usize;
    instances.truncate(filter.limit as usize);
    let next = instances.last().filter(|_| more).map(place);
    Ok(ListedInstances { instances, next })
}

fn place(detail: &InstanceDetail) -> (Timestamp, InstanceId) {
    (detail.created_at, detail.instance.clone())
}

/// One row more than the limit, to find out whether there are more.
fn limit(filter: &ListInstances) -> i64 {
    i64::from(filter.limit) + 1
}

/// Instances that have had their first turn.
fn begun(s: &mut DbSession<'_>, filter: &ListInstances) -> Res<Vec<InstanceDetail>> {
    let states: Vec<_> = filter.states.iter().map(|state| state.as_str()).collect();
    let after = filter.after.as_ref();
    let mut statement = s.conn.prepare_cached(statement(filter, &states))?;
    let rows = statement.query((
        filter.name.as_ref().map(OrchestrationName::as_str),
        (!states.is_empty()).then(|| states.join(" ")),
        filter.suspended,
        &filter.id_prefix,
        filter.parent.as_ref().map(InstanceId::as_str),
        filter.created_from.map_or(i64::MIN, |at| at.0),
        filter.created_before.map_or(i64::MAX, |at| at.0),
        after.map_or(i64::MAX, |(at, _)| at.0),
        after.map_or("", |(_, id)| id.as_str()),
        limit(filter),
    ))?;
    decoded(s, rows)
}

fn may_be_pending(filter: &ListInstances) -> bool {
    filter.states.is_empty() || filter.states.contains(&InstanceState::Pending)
}

/// Pending instances, which wait for their first turn.
fn pending(s: &mut DbSession<'_>, filter: &ListInstances) -> Res<Vec<InstanceDetail>> {
    let after = filter.after.as_ref();
    let sql = match filter.parent {
        Some(_) => include_str!("../../sql/queries/flow_pending_list_parent.sql"),
        None => include_str!("../../sql/queries/flow_pending_list.sql"),
    };
    let mut statement = s.conn.prepare_cached(sql)?;
    let (name, limit) = (filter.name.as_ref().map(OrchestrationName::as_str), limit(filter));
    let from = filter.created_from.map_or(i64::MIN, |at| at.0);
    let before = filter.created_before.map_or(i64::MAX, |at| at.0);
    let (at, id) = after.map_or((i64::MAX, ""), |(at, id)| (at.0, id.as_str()));
    let mut params =
        params![name, filter.suspended, filter.id_prefix, from, before, at, id, limit].to_vec();
    let parent = filter.parent.as_ref().map(InstanceId::as_str);
    if let Some(parent) = &parent {
        params.push(parent);
    }
    let rows = statement.query(&params[..])?;
    decoded(s, rows)
}

fn decoded(s: &mut DbSession<'_>, mut rows: Rows<'_>) -> Res<Vec<InstanceDetail>> {
    let mut instances = Vec::new();
    while let Some(row) = rows.next()? {
        instances.push(decode_detail(s, row)?);
    }
    Ok(instances)
}

/// The statement that reads the fewest instances.
fn statement(filter: &ListInstances, states: &[&'static str]) -> &'static str {
    let frequent = states.len() == 1 && states[0] == InstanceState::Completed.as_str();
    if filter.parent.is_some() {
        include_str!("../../sql/queries/flow_instance_list_parent.sql")
    } else if filter.name.is_some() && (states.len() != 1 || frequent) {
        include_str!("../../sql/queries/flow_instance_list_name.sql")
    } else if states.len() == 1 {
        include_str!("../../sql/queries/flow_instance_list_state.sql")
    } else {
        include_str!("../../sql/queries/flow_instance_list.sql")
    }
}
