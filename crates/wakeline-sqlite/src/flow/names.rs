//! Numbers for capabilities, tags and activity names, so that indexes hold numbers and claims probe
//! only their own.

use std::collections::HashMap;

use rusqlite::OptionalExtension as _;
use wakeline_core::{
    ActivityFilter, ActivityName, ActivityNames, ActivityRoute, Capabilities, Capability, Tag,
    TagFilter,
};

use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The number that stands for no tag, or for no name.
const NONE: i64 = 0;

/// The numbers of an activity's tag and name, which decide which workers can claim it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteIds {
    pub(super) tag: i64,
    pub(super) name: i64,
}

/// A cache of the numbers. It never becomes stale, because a number keeps its meaning.
#[derive(Debug, Default)]
pub(crate) struct NameCache {
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

/// The number of a capability, or `None` if no lane ever needed it.
fn capability(s: &mut DbSession<'_>, name: &Capability) -> Res<Option<i64>> {
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

/// The number of a capability. It is assigned if there is none.
pub(super) fn ensure_capability(s: &mut DbSession<'_>, name: &Capability) -> Res<i64> {
    if let Some(id) = capability(s, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/flow_capability_add.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    s.cache.names.capabilities_all = None;
    Ok(s.conn.last_insert_rowid())
}

/// The capability with a number.
pub(super) fn capability_name(s: &mut DbSession<'_>, id: i64) -> Res<Capability> {
    if let Some(name) = s.cache.names.capabilities_by_id.get(&id) {
        return Ok(name.clone());
    }
    let sql = include_str!("../../sql/queries/flow_capability_by_id.sql");
    let name: String = s.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0))?;
    let name = Capability::new(name).map_err(corrupt("capability", id))?;
    s.cache.names.capabilities_by_id.insert(id, name.clone());
    Ok(name)
}

/// The numbers of the capabilities of a dispatcher.
pub(super) fn capabilities(s: &mut DbSession<'_>, known: &Capabilities) -> Res<Vec<i64>> {
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

/// The number of a tag, or `None` if no activity ever had it.
fn tag(s: &mut DbSession<'_>, name: &Tag) -> Res<Option<i64>> {
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

/// The number of a tag. It is assigned if there is none.
fn ensure_tag(s: &mut DbSession<'_>, name: Option<&Tag>) -> Res<i64> {
    let Some(name) = name else { return Ok(NONE) };
    if let Some(id) = tag(s, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/flow_tag_add.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    s.cache.names.tags_all = None;
    Ok(s.conn.last_insert_rowid())
}

/// The tag with a number.
fn tag_name(s: &mut DbSession<'_>, id: i64) -> Res<Option<Tag>> {
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

/// The numbers of the tags that a worker accepts.
fn tags(s: &mut DbSession<'_>, filter: &TagFilter) -> Res<Vec<i64>> {
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

/// The number of an activity name, or `None` if no activity ever had it.
fn activity(s: &mut DbSession<'_>, name: &ActivityName) -> Res<Option<i64>> {
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

/// The number of an activity name. It is assigned if there is none.
fn ensure_activity(s: &mut DbSession<'_>, name: Option<&ActivityName>) -> Res<i64> {
    let Some(name) = name else { return Ok(NONE) };
    if let Some(id) = activity(s, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/flow_activity_name_add.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    s.cache.names.activities_all = None;
    Ok(s.conn.last_insert_rowid())
}

/// The activity name with a number.
fn activity_name(s: &mut DbSession<'_>, id: i64) -> Res<Option<ActivityName>> {
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

/// The numbers of the activity names that a worker can run, including [`NONE`].
fn activities(s: &mut DbSession<'_>, known: &ActivityNames) -> Res<Vec<i64>> {
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

/// The numbers of a route. They are assigned where there are none.
pub(super) fn ensure_route(s: &mut DbSession<'_>, route: &ActivityRoute) -> Res<RouteIds> {
    let tag = ensure_tag(s, route.tag.as_ref())?;
    Ok(RouteIds { tag, name: ensure_activity(s, route.name.as_ref())? })
}

/// The route with these numbers.
pub(super) fn route(s: &mut DbSession<'_>, of: RouteIds) -> Res<ActivityRoute> {
    Ok(ActivityRoute { tag: tag_name(s, of.tag)?, name: activity_name(s, of.name)? })
}

/// The routes that a worker accepts, sorted.
pub(super) fn routes(s: &mut DbSession<'_>, filter: &ActivityFilter) -> Res<Vec<RouteIds>> {
    let (tags, names) = (tags(s, &filter.tags)?, activities(s, &filter.names)?);
    let of_tag = |tag| names.iter().map(move |name| RouteIds { tag, name: *name });
    let mut routes: Vec<_> = tags.into_iter().flat_map(of_tag).collect();
    routes.sort_unstable();
    Ok(routes)
}

/// The numbers of all capabilities, read from the database, because the cache of a reader may lack
/// new ones.
pub(super) fn all_capabilities(s: &DbSession<'_>) -> Res<Vec<i64>> {
    all(s, include_str!("../../sql/queries/flow_capability_all.sql"))
}

fn all(s: &DbSession<'_>, sql: &str) -> Res<Vec<i64>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let ids = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(ids)
}
