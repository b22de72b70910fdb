//! Numbers for capabilities, tags and names of activities, so that indexes hold numbers and claims
//! probe only their own.

use std::collections::HashMap;

use rusqlite::OptionalExtension as _;
use wakeline_core::{
    ActivityFilter, ActivityName, ActivityNames, ActivityRoute, Capabilities, Capability, Tag,
    TagFilter,
};

use crate::error::{Res, corrupt};
use crate::session::Session;

/// The number that stands for no tag, or for no name.
const NONE: i64 = 0;

/// Which workers an activity is for: the numbers of its tag and of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) tag: i64,
    pub(super) name: i64,
}

/// What is known of them. Numbers are never taken back.
#[derive(Debug, Default)]
pub(crate) struct Names {
    capabilities: HashMap<Capability, i64>,
    capabilities_by_id: HashMap<i64, Capability>,
    capabilities_all: Option<Vec<i64>>,
    tags: HashMap<Tag, i64>,
    tags_by_id: HashMap<i64, Tag>,
    tags_all: Option<Vec<i64>>,
    activities: HashMap<ActivityName, i64>,
    activities_by_id: HashMap<i64, ActivityName>,
    activities_all: Option<Vec<i64>>,
}

/// A capability's number; `None` if no lane ever needed it.
fn capability(s: &mut Session<'_>, name: &Capability) -> Res<Option<i64>> {
    if let Some(id) = s.cache.names.capabilities.get(name) {
        return Ok(Some(*id));
    }
    let sql = include_str!("../../sql/queries/flow_capability_by_name.sql");
    let found = s.conn.prepare_cached(sql)?.query_row([name.as_str()], |row| row.get(0));
    let id: Option<i64> = found.optional()?;
    if let Some(id) = id {
        s.cache.names.capabilities.insert(name.clone(), id);
    }
    Ok(id)
}

/// A capability's number; given out if it has none.
pub(super) fn ensure_capability(s: &mut Session<'_>, name: &Capability) -> Res<i64> {
    if let Some(id) = capability(s, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/flow_capability_add.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    s.cache.names.capabilities_all = None;
    Ok(s.conn.last_insert_rowid())
}

/// The capability of a number.
pub(super) fn capability_name(s: &mut Session<'_>, id: i64) -> Res<Capability> {
    if let Some(name) = s.cache.names.capabilities_by_id.get(&id) {
        return Ok(name.clone());
    }
    let sql = include_str!("../../sql/queries/flow_capability_by_id.sql");
    let name: String = s.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0))?;
    let name = Capability::new(name).map_err(corrupt("capability", id))?;
    s.cache.names.capabilities_by_id.insert(id, name.clone());
    Ok(name)
}

/// The numbers of what a dispatcher can run.
pub(super) fn capabilities(s: &mut Session<'_>, known: &Capabilities) -> Res<Vec<i64>> {
    let Capabilities::Of(names) = known else {
        if s.cache.names.capabilities_all.is_none() {
            let sql = include_str!("../../sql/queries/flow_capability_all.sql");
            s.cache.names.capabilities_all = Some(all(s, sql)?);
        }
        return Ok(s.cache.names.capabilities_all.clone().unwrap_or_default());
    };
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.extend(capability(s, name)?);
    }
    Ok(ids)
}

/// A tag's number; `None` if no activity ever had it.
fn tag(s: &mut Session<'_>, name: &Tag) -> Res<Option<i64>> {
    if let Some(id) = s.cache.names.tags.get(name) {
        return Ok(Some(*id));
    }
    let sql = include_str!("../../sql/queries/flow_tag_by_name.sql");
    let found = s.conn.prepare_cached(sql)?.query_row([name.as_str()], |row| row.get(0));
    let id: Option<i64> = found.optional()?;
    if let Some(id) = id {
        s.cache.names.tags.insert(name.clone(), id);
    }
    Ok(id)
}

/// A tag's number; given out if it has none.
fn ensure_tag(s: &mut Session<'_>, name: Option<&Tag>) -> Res<i64> {
    let Some(name) = name else { return Ok(NONE) };
    if let Some(id) = tag(s, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/flow_tag_add.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    s.cache.names.tags_all = None;
    Ok(s.conn.last_insert_rowid())
}

/// The tag of a number.
fn tag_name(s: &mut Session<'_>, id: i64) -> Res<Option<Tag>> {
    if id == NONE {
        return Ok(None);
    }
    if let Some(name) = s.cache.names.tags_by_id.get(&id) {
        return Ok(Some(name.clone()));
    }
    let sql = include_str!("../../sql/queries/flow_tag_by_id.sql");
    let name: String = s.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0))?;
    let name = Tag::new(name).map_err(corrupt("tag", id))?;
    s.cache.names.tags_by_id.insert(id, name.clone());
    Ok(Some(name))
}

/// The numbers of the tags that a worker takes.
fn tags(s: &mut Session<'_>, filter: &TagFilter) -> Res<Vec<i64>> {
    let TagFilter::Of { untagged, tags } = filter else {
        if s.cache.names.tags_all.is_none() {
            let mut ids = all(s, include_str!("../../sql/queries/flow_tag_all.sql"))?;
            ids.push(NONE);
            s.cache.names.tags_all = Some(ids);
        }
        return Ok(s.cache.names.tags_all.clone().unwrap_or_default());
    };
    let mut ids = if *untagged { vec![NONE] } else { Vec::new() };
    for name in tags {
        ids.extend(tag(s, name)?);
    }
    Ok(ids)
}

/// The number of a name of activities; `None` if no activity ever had it.
fn activity(s: &mut Session<'_>, name: &ActivityName) -> Res<Option<i64>> {
    if let Some(id) = s.cache.names.activities.get(name) {
        return Ok(Some(*id));
    }
    let sql = include_str!("../../sql/queries/flow_activity_name_by_name.sql");
    let found = s.conn.prepare_cached(sql)?.query_row([name.as_str()], |row| row.get(0));
    let id: Option<i64> = found.optional()?;
    if let Some(id) = id {
        s.cache.names.activities.insert(name.clone(), id);
    }
    Ok(id)
}

/// The number of a name of activities; given out if it has none.
fn ensure_activity(s: &mut Session<'_>, name: Option<&ActivityName>) -> Res<i64> {
    let Some(name) = name else { return Ok(NONE) };
    if let Some(id) = activity(s, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/flow_activity_name_add.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    s.cache.names.activities_all = None;
    Ok(s.conn.last_insert_rowid())
}

/// The name of a number.
fn activity_name(s: &mut Session<'_>, id: i64) -> Res<Option<ActivityName>> {
    if id == NONE {
        return Ok(None);
    }
    if let Some(name) = s.cache.names.activities_by_id.get(&id) {
        return Ok(Some(name.clone()));
    }
    let sql = include_str!("../../sql/queries/flow_activity_name_by_id.sql");
    let name: String = s.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0))?;
    let name = ActivityName::new(name).map_err(corrupt("activity name", id))?;
    s.cache.names.activities_by_id.insert(id, name.clone());
    Ok(Some(name))
}

/// The numbers of the activities that a worker can run, and that of none.
fn activities(s: &mut Session<'_>, known: &ActivityNames) -> Res<Vec<i64>> {
    let ActivityNames::Of(names) = known else {
        if s.cache.names.activities_all.is_none() {
            let mut ids = all(s, include_str!("../../sql/queries/flow_activity_name_all.sql"))?;
            ids.push(NONE);
            s.cache.names.activities_all = Some(ids);
        }
        return Ok(s.cache.names.activities_all.clone().unwrap_or_default());
    };
    let mut ids = vec![NONE];
    for name in names.iter() {
        ids.extend(activity(s, name)?);
    }
    Ok(ids)
}

/// The numbers of a route; given out where there are none.
pub(super) fn ensure_route(s: &mut Session<'_>, route: &ActivityRoute) -> Res<Route> {
    let tag = ensure_tag(s, route.tag.as_ref())?;
    Ok(Route { tag, name: ensure_activity(s, route.name.as_ref())? })
}

/// The route of some numbers.
pub(super) fn route(s: &mut Session<'_>, of: Route) -> Res<ActivityRoute> {
    Ok(ActivityRoute { tag: tag_name(s, of.tag)?, name: activity_name(s, of.name)? })
}

/// What a worker takes, sorted.
pub(super) fn routes(s: &mut Session<'_>, filter: &ActivityFilter) -> Res<Vec<Route>> {
    let (tags, names) = (tags(s, &filter.tags)?, activities(s, &filter.names)?);
    let of_tag = |tag| names.iter().map(move |name| Route { tag, name: *name });
    let mut routes: Vec<_> = tags.into_iter().flat_map(of_tag).collect();
    routes.sort_unstable();
    Ok(routes)
}

/// All capabilities, read from the database: a reader may not know of new ones.
pub(super) fn all_capabilities(s: &Session<'_>) -> Res<Vec<i64>> {
    all(s, include_str!("../../sql/queries/flow_capability_all.sql"))
}

fn all(s: &Session<'_>, sql: &str) -> Res<Vec<i64>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let ids = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(ids)
}
