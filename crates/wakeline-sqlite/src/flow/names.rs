//! Numbers for capabilities and tags, so that indexes hold numbers and claims probe only their own.

use std::collections::HashMap;

use rusqlite::OptionalExtension as _;
use wakeline_core::{Capabilities, Capability, Tag, TagFilter};

use crate::error::{Res, corrupt};
use crate::session::Session;

/// The number that stands for no tag.
pub(super) const UNTAGGED: i64 = 0;

/// What is known of them. Numbers are never taken back.
#[derive(Debug, Default)]
pub(crate) struct Names {
    capabilities: HashMap<Capability, i64>,
    capabilities_by_id: HashMap<i64, Capability>,
    capabilities_all: Option<Vec<i64>>,
    tags: HashMap<Tag, i64>,
    tags_by_id: HashMap<i64, Tag>,
    tags_all: Option<Vec<i64>>,
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
pub(super) fn ensure_tag(s: &mut Session<'_>, name: Option<&Tag>) -> Res<i64> {
    let Some(name) = name else { return Ok(UNTAGGED) };
    if let Some(id) = tag(s, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/flow_tag_add.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    s.cache.names.tags_all = None;
    Ok(s.conn.last_insert_rowid())
}

/// The tag of a number.
pub(super) fn tag_name(s: &mut Session<'_>, id: i64) -> Res<Option<Tag>> {
    if id == UNTAGGED {
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
pub(super) fn tags(s: &mut Session<'_>, filter: &TagFilter) -> Res<Vec<i64>> {
    let TagFilter::Of { untagged, tags } = filter else {
        if s.cache.names.tags_all.is_none() {
            let mut ids = all(s, include_str!("../../sql/queries/flow_tag_all.sql"))?;
            ids.push(UNTAGGED);
            s.cache.names.tags_all = Some(ids);
        }
        return Ok(s.cache.names.tags_all.clone().unwrap_or_default());
    };
    let mut ids = if *untagged { vec![UNTAGGED] } else { Vec::new() };
    for name in tags {
        ids.extend(tag(s, name)?);
    }
    Ok(ids)
}

fn all(s: &Session<'_>, sql: &str) -> Res<Vec<i64>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let ids = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(ids)
}
