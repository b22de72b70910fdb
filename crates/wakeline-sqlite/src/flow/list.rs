//! Lists instances, page by page.

use wakeline_core::{InstanceId, OrchestrationName, Timestamp};
use wakeline_store::flow::{InstanceState, ListInstances, ListedInstances};

use super::read::decode_detail;
use crate::error::Res;
use crate::session::Session;

/// A page of instances, newest first.
pub(super) fn list(s: &mut Session<'_>, filter: &ListInstances) -> Res<ListedInstances> {
    let states: Vec<_> = filter.states.iter().map(|state| state.as_str()).collect();
    let after = filter.after.as_ref();
    let mut statement = s.conn.prepare_cached(statement(filter, &states))?;
    let mut rows = statement.query((
        filter.name.as_ref().map(OrchestrationName::as_str),
        (!states.is_empty()).then(|| states.join(" ")),
        filter.suspended,
        &filter.id_prefix,
        filter.parent.as_ref().map(InstanceId::as_str),
        filter.created_from.map_or(i64::MIN, |at| at.0),
        filter.created_before.map_or(i64::MAX, |at| at.0),
        after.map_or(i64::MAX, |(at, _)| at.0),
        after.map_or("", |(_, id)| id.as_str()),
        // One more, to know whether there are more.
        i64::from(filter.limit) + 1,
    ))?;
    let mut instances = Vec::new();
    while let Some(row) = rows.next()? {
        instances.push(decode_detail(s, row)?);
    }
    let more = instances.len() > filter.limit as usize;
    instances.truncate(filter.limit as usize);
    let place = |last: &wakeline_store::flow::InstanceDetail| -> (Timestamp, InstanceId) {
        (last.created_at, last.instance.clone())
    };
    let next = instances.last().filter(|_| more).map(place);
    Ok(ListedInstances { instances, next })
}

/// The statement that walks the fewest instances.
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
