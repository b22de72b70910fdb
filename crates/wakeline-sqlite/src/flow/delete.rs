//! Deletes instances with all below them, and old executions, command by command.

use std::collections::HashSet;

use uuid::Uuid;
use wakeline_core::InstanceId;
use wakeline_store::StoreError;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, InstanceFilter, PruneOptions, PruneReport,
};

use super::erase;
use super::instance::Instance;
use super::lane::Lane;
use super::message;
use super::read;
use crate::SqliteStore;
use crate::call::Work;
use crate::error::{Res, corrupt};
use crate::session::Session;

/// Instances that are looked at together for deletion and pruning.
const ROOTS_LEN: usize = 100;

/// How a pruning goes.
#[derive(Default)]
struct Pruning {
    done: DeleteReport,
    /// The instances of which something went.
    touched: HashSet<InstanceId>,
}

impl SqliteStore {
    /// Deletes instances with all below them, or none.
    pub(super) async fn delete(
        &self,
        command: DeleteInstances,
    ) -> Result<DeleteReport, StoreError> {
        if !command.force {
            let named = command.instances.clone();
            let refused = self.read("delete_instances", move |s| check(s, &named)).await?;
            if !refused.running.is_empty() || !refused.orphans.is_empty() {
                return Ok(refused);
            }
        }
        let mut report = DeleteReport::default();
        self.delete_all(command, &mut report).await?;
        Ok(report)
    }

    /// Deletes ended instances that have no parent, page by page.
    pub(super) async fn delete_ended(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteReport, StoreError> {
        let mut report = DeleteReport::default();
        let mut left = filter.limit as usize;
        let mut place = (i64::MIN, String::new());
        while left > 0 {
            let (filter, after) = (filter.clone(), place);
            let page = self.read("delete_matching", move |s| deletable(s, &filter, &after));
            let page = page.await.map_err(|error| partly(&report, error))?;
            let (mut instances, Some(next)) = page else { break };
            place = next;
            instances.truncate(left);
            left -= instances.len();
            self.delete_all(DeleteInstances { instances, force: false }, &mut report).await?;
        }
        // One that began again in the meantime is passed over.
        Ok(DeleteReport { running: Vec::new(), ..report })
    }

    /// Removes old executions of instances, page by page.
    pub(super) async fn prune_executions(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        let mut pruning = Pruning::default();
        let mut left = filter.limit as usize;
        let mut next = Some(0);
        while let Some(after) = next.filter(|_| left > 0) {
            let filter = filter.clone();
            let page = self.read("prune", move |s| prunable(s, &filter, options, after)).await;
            let page = page.map_err(|error| partly(&pruning.done, error))?;
            let mut ids = page.0;
            ids.truncate(left);
            left -= ids.len();
            for ids in ids.chunks(ROOTS_LEN) {
                self.prune_page(ids, options, &mut pruning).await?;
            }
            next = page.1;
        }
        let DeleteReport { executions, events, .. } = pruning.done;
        Ok(PruneReport { instances: pruning.touched.len() as u64, executions, events })
    }

    /// Removes old executions of some instances until none is left.
    async fn prune_page(
        &self,
        ids: &[InstanceId],
        options: PruneOptions,
        pruning: &mut Pruning,
    ) -> Result<(), StoreError> {
        loop {
            let (ids, deletion) = (ids.to_vec(), Uuid::now_v7());
            let work = Work::new("prune", move |s| erase::prune_some(s, &ids, options, deletion));
            // A call is one act, however many pieces it has.
            let work = if pruning.done.executions == 0 { work.recorded() } else { work };
            let pruned = self.write(work).await.map_err(|error| partly(&pruning.done, error))?;
            if pruned.executions == 0 {
                return Ok(());
            }
            pruning.done.executions += pruned.executions;
            pruning.done.events += pruned.events;
            pruning.touched.extend(pruned.instances);
            if pruned.more {
                let cleared = self.clear(deletion, &mut pruning.done).await;
                cleared.map_err(|error| partly(&pruning.done, error))?;
            }
        }
    }

    /// Deletes instances, and goes on until nothing of them is left.
    async fn delete_all(
        &self,
        command: DeleteInstances,
        report: &mut DeleteReport,
    ) -> Result<(), StoreError> {
        let deletion = Uuid::now_v7();
        let work = Work::new("delete_instances", move |s| erase::begin(s, &command, deletion));
        // A call is one act, however many pieces it has.
        let work = if report.instances == 0 { work.recorded() } else { work };
        let begun = self.write(work).await.map_err(|error| partly(report, error))?;
        add(report, begun.report);
        if begun.more {
            let cleared = self.clear(deletion, report).await;
            cleared.map_err(|error| partly(report, error))?;
        }
        Ok(())
    }

    /// Goes on with a deletion to its end.
    async fn clear(&self, deletion: Uuid, report: &mut DeleteReport) -> Result<(), StoreError> {
        loop {
            let work = Work::new("delete_instances", move |s| {
                let mut piece = erase::Piece::default();
                erase::go_on(s, deletion, &mut piece)?;
                Ok(piece)
            });
            let piece = self.write(work).await?;
            add(report, piece.report);
            if !piece.more {
                return Ok(());
            }
        }
    }
}

fn add(report: &mut DeleteReport, piece: DeleteReport) {
    report.instances += piece.instances;
    report.executions += piece.executions;
    report.events += piece.events;
    report.messages += piece.messages;
    report.running.extend(piece.running);
    report.watched.extend(piece.watched);
}

/// What an error means after some pieces: its outcome is unknown.
fn partly(report: &DeleteReport, error: StoreError) -> StoreError {
    match report.instances > 0 || report.executions > 0 {
        true => StoreError::Transient { operation: "delete_instances", source: Box::new(error) },
        false => error,
    }
}

/// Which of some instances can be deleted: all of those below them have ended. Reads only.
pub(super) fn check(s: &Session<'_>, named: &[InstanceId]) -> Res<DeleteReport> {
    let mut doomed = Vec::new();
    let mut seen = HashSet::new();
    for id in named {
        for id in below(s, id)? {
            if seen.insert(id.clone()) {
                doomed.push(id);
            }
        }
    }
    let running = not_ended(s, &doomed)?;
    let orphans = orphans(s, named, &seen)?;
    Ok(DeleteReport { running, orphans, ..DeleteReport::default() })
}

/// An instance with all below it, or one that waits to be started.
fn below(s: &Session<'_>, id: &InstanceId) -> Res<Vec<InstanceId>> {
    let Some(lane) = Lane::named(s, id)? else { return Ok(Vec::new()) };
    match lane.state {
        Some(_) => read::family(s, id),
        None if message::start_waits(s, lane.id)? => read::family(s, id),
        None => Ok(Vec::new()),
    }
}

fn not_ended(s: &Session<'_>, ids: &[InstanceId]) -> Res<Vec<InstanceId>> {
    let mut running = Vec::new();
    for id in ids {
        let ended = |lane: Lane| lane.state.is_some_and(|state| state.is_ended());
        if Lane::named(s, id)?.is_some_and(|lane| !ended(lane)) {
            running.push(id.clone());
        }
    }
    Ok(running)
}

/// Those whose parent exists and stays.
fn orphans(
    s: &Session<'_>,
    named: &[InstanceId],
    doomed: &HashSet<InstanceId>,
) -> Res<Vec<InstanceId>> {
    let mut orphans = Vec::new();
    for id in named {
        let Some(instance) = Instance::named(s, id)? else { continue };
        let Some((parent, _)) = instance.parent else { continue };
        let stays = Lane::named(s, &parent)?.is_some_and(|lane| lane.state.is_some());
        if stays && !doomed.contains(&parent) {
            orphans.push(id.clone());
        }
    }
    Ok(orphans)
}

/// Where to read on among ended instances.
pub(super) type Place = (i64, String);

/// A page of ended instances that have no parent, those of them that can be deleted, and where to
/// read on. Reads only.
pub(super) fn deletable(
    s: &Session<'_>,
    filter: &InstanceFilter,
    after: &Place,
) -> Res<(Vec<InstanceId>, Option<Place>)> {
    let page = match &filter.instances {
        Some(named) => named_roots(s, filter, named, after)?,
        None => ended_roots(s, filter, after)?,
    };
    let next = page.last().cloned();
    let mut roots = Vec::new();
    for (_, id) in page {
        let id = InstanceId::new(&id).map_err(corrupt("instance", format!("{id:?}")))?;
        if not_ended(s, &read::tree(s, &id)?)?.is_empty() {
            roots.push(id);
        }
    }
    Ok((roots, next))
}

/// The same of those that a filter names.
fn named_roots(
    s: &Session<'_>,
    filter: &InstanceFilter,
    named: &[InstanceId],
    after: &Place,
) -> Res<Vec<Place>> {
    let mut page = Vec::new();
    for id in matching(s, filter, named)? {
        let Some(instance) = Instance::named(s, &id)? else { continue };
        let Some(ended_at) = instance.ended_at.filter(|_| instance.parent.is_none()) else {
            continue;
        };
        let place = (ended_at.0, id.to_string());
        if place > *after && page.len() < ROOTS_LEN {
            page.push(place);
        }
    }
    Ok(page)
}

/// Some ended instances that have no parent, by their end and id.
fn ended_roots(
    s: &Session<'_>,
    filter: &InstanceFilter,
    after: &(i64, String),
) -> Res<Vec<(i64, String)>> {
    let sql = include_str!("../../sql/queries/flow_instance_ended.sql");
    let before = filter.ended_before.map_or(i64::MAX, |at| at.0);
    let limit = i64::try_from(ROOTS_LEN).expect("a small constant");
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement
        .query_map((before, after.0, &after.1, limit), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// A page of instances of which old executions go, and the lane behind which there may be more.
/// Reads only.
pub(super) fn prunable(
    s: &Session<'_>,
    filter: &InstanceFilter,
    options: PruneOptions,
    after: i64,
) -> Res<(Vec<InstanceId>, Option<i64>)> {
    let Some(named) = &filter.instances else { return all_prunable(s, filter, options, after) };
    let mut ids = Vec::new();
    for id in matching(s, filter, named)? {
        let Some(instance) = Instance::named(s, &id)? else { continue };
        if ids.len() < filter.limit as usize
            && !erase::old_executions(s, &instance, options)?.is_empty()
        {
            ids.push(id);
        }
    }
    Ok((ids, None))
}

/// The instances that a filter names and speaks of, those that ended first in front.
fn matching(
    s: &Session<'_>,
    filter: &InstanceFilter,
    named: &[InstanceId],
) -> Res<Vec<InstanceId>> {
    let before = filter.ended_before.map(|at| at.0);
    let mut found = Vec::new();
    for id in named.iter().collect::<HashSet<_>>() {
        let Some(instance) = Instance::named(s, id)? else { continue };
        let ended_at = instance.ended_at.map(|at| at.0);
        if before.is_none_or(|before| ended_at.is_some_and(|ended_at| ended_at < before)) {
            found.push((ended_at, id.clone()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// The same of all that a filter speaks of.
fn all_prunable(
    s: &Session<'_>,
    filter: &InstanceFilter,
    options: PruneOptions,
    after: i64,
) -> Res<(Vec<InstanceId>, Option<i64>)> {
    let sql = include_str!("../../sql/queries/flow_instance_prunable.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let before = filter.ended_before.map(|at| at.0);
    let ended_before = options.ended_before.map(|at| at.0);
    let limit = i64::try_from(ROOTS_LEN).expect("a small constant");
    let params = (before, options.keep_last.unwrap_or(0), ended_before, after, limit);
    let found = statement
        .query_map(params, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?)))?;
    let (mut ids, mut next) = (Vec::new(), None);
    for found in found {
        let (lane, id) = found?;
        next = Some(lane);
        if let Some(id) = id {
            ids.push(InstanceId::new(&id).map_err(corrupt("instance", format!("{id:?}")))?);
        }
    }
    Ok((ids, next))
}
