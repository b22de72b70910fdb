//! Deletes instances with their descendants, and old executions, in several commands.

use std::collections::HashSet;

use uuid::Uuid;
use wakeline_core::InstanceId;
use wakeline_store::StoreError;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, InstanceFilter, PruneOptions, PruneReport,
};

use super::erase;
use super::instance::InstanceRow;
use super::lane::InstanceLane;
use super::message;
use super::read;
use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// Number of instances that one page of a deletion or a pruning reads.
const ROOTS_LEN: usize = 100;

/// The progress of a pruning.
#[derive(Default)]
struct PruneProgress {
    done: DeleteReport,
    /// The instances of which executions were removed.
    touched: HashSet<InstanceId>,
}

impl SqliteStore {
    /// Deletes instances with their descendants, or none of them.
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
            let page = page.await.map_err(|error| after_partial_success(&report, error))?;
            let (mut instances, Some(next)) = page else { break };
            place = next;
            instances.truncate(left);
            left -= instances.len();
            self.delete_all(DeleteInstances { instances, force: false }, &mut report).await?;
        }
        // An instance that was started again in the meantime is skipped, not reported.
        Ok(DeleteReport { running: Vec::new(), ..report })
    }

    /// Removes old executions of instances, page by page.
    pub(super) async fn prune_executions(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        let mut progress = PruneProgress::default();
        let mut left = filter.limit as usize;
        let mut next = Some(0);
        while let Some(after) = next.filter(|_| left > 0) {
            let filter = filter.clone();
            let page = self.read("prune", move |s| prunable(s, &filter, options, after)).await;
            let page = page.map_err(|error| after_partial_success(&progress.done, error))?;
            let mut ids = page.0;
            ids.truncate(left);
            left -= ids.len();
            for ids in ids.chunks(ROOTS_LEN) {
                self.prune_page(ids, options, &mut progress).await?;
            }
            next = page.1;
        }
        let DeleteReport { executions, events, .. } = progress.done;
        Ok(PruneReport { instances: progress.touched.len() as u64, executions, events })
    }

    /// Removes old executions of some instances until none is left.
    async fn prune_page(
        &self,
        ids: &[InstanceId],
        options: PruneOptions,
        progress: &mut PruneProgress,
    ) -> Result<(), StoreError> {
        loop {
            let (ids, deletion) = (ids.to_vec(), Uuid::now_v7());
            let work =
                WriteCommand::new("prune", move |s| erase::prune_some(s, &ids, options, deletion));
            // A call is one audit event, regardless of the number of its commands.
            let work = if progress.done.executions == 0 { work.recorded() } else { work };
            let pruned = self
                .write(work)
                .await
                .map_err(|error| after_partial_success(&progress.done, error))?;
            if pruned.executions == 0 {
                return Ok(());
            }
            progress.done.executions += pruned.executions;
            progress.done.events += pruned.events;
            progress.touched.extend(pruned.instances);
            if pruned.more {
                let cleared = self.clear(deletion, &mut progress.done).await;
                cleared.map_err(|error| after_partial_success(&progress.done, error))?;
            }
        }
    }

    /// Deletes instances, and continues until none of their rows are left.
    async fn delete_all(
        &self,
        command: DeleteInstances,
        report: &mut DeleteReport,
    ) -> Result<(), StoreError> {
        let deletion = Uuid::now_v7();
        let work =
            WriteCommand::new("delete_instances", move |s| erase::begin(s, &command, deletion));
        // A call is one act, however many pieces it has.
        let work = if report.instances == 0 { work.recorded() } else { work };
        let begun = self.write(work).await.map_err(|error| after_partial_success(report, error))?;
        add(report, begun.report);
        if begun.more {
            let cleared = self.clear(deletion, report).await;
            cleared.map_err(|error| after_partial_success(report, error))?;
        }
        Ok(())
    }

    /// Continues a deletion until none of its rows are left.
    async fn clear(&self, deletion: Uuid, report: &mut DeleteReport) -> Result<(), StoreError> {
        loop {
            let work = WriteCommand::new("delete_instances", move |s| {
                let mut step = erase::DeletionStep::default();
                erase::continue_deletion(s, deletion, &mut step)?;
                Ok(step)
            });
            let step = self.write(work).await?;
            add(report, step.report);
            if !step.more {
                return Ok(());
            }
        }
    }
}

fn add(report: &mut DeleteReport, step: DeleteReport) {
    report.instances += step.instances;
    report.executions += step.executions;
    report.events += step.events;
    report.messages += step.messages;
    report.running.extend(step.running);
    report.watched.extend(step.watched);
}

/// Converts an error after some commands succeeded: the outcome of the whole call is unknown.
fn after_partial_success(report: &DeleteReport, error: StoreError) -> StoreError {
    if report.instances > 0 || report.executions > 0 {
        StoreError::Transient { operation: "delete_instances", source: Box::new(error) }
    } else {
        error
    }
}

/// Checks whether instances can be deleted: all of their descendants must have ended, and none may
/// have a parent that stays. Reads only.
pub(super) fn check(s: &DbSession<'_>, named: &[InstanceId]) -> Res<DeleteReport> {
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

/// An instance with its descendants, also if it is pending.
fn below(s: &DbSession<'_>, id: &InstanceId) -> Res<Vec<InstanceId>> {
    let Some(lane) = InstanceLane::named(s, id)? else { return Ok(Vec::new()) };
    match lane.state {
        Some(_) => read::family(s, id),
        None if message::start_waits(s, lane.id)? => read::family(s, id),
        None => Ok(Vec::new()),
    }
}

fn not_ended(s: &DbSession<'_>, ids: &[InstanceId]) -> Res<Vec<InstanceId>> {
    let mut running = Vec::new();
    for id in ids {
        let ended = |lane: InstanceLane| lane.state.is_some_and(|state| state.is_ended());
        if InstanceLane::named(s, id)?.is_some_and(|lane| !ended(lane)) {
            running.push(id.clone());
        }
    }
    Ok(running)
}

/// The instances whose parent exists and is not deleted with them.
fn orphans(
    s: &DbSession<'_>,
    named: &[InstanceId],
    doomed: &HashSet<InstanceId>,
) -> Res<Vec<InstanceId>> {
    let mut orphans = Vec::new();
    for id in named {
        let Some(instance) = InstanceRow::named(s, id)? else { continue };
        let Some((parent, _)) = instance.parent else { continue };
        let stays = InstanceLane::named(s, &parent)?.is_some_and(|lane| lane.state.is_some());
        if stays && !doomed.contains(&parent) {
            orphans.push(id.clone());
        }
    }
    Ok(orphans)
}

/// A position among ended instances: the time of the end and the id.
pub(super) type EndedPlace = (i64, String);

/// Reads a page of ended instances that have no parent. Returns those that can be deleted, and the
/// position of the next page. Reads only.
pub(super) fn deletable(
    s: &DbSession<'_>,
    filter: &InstanceFilter,
    after: &EndedPlace,
) -> Res<(Vec<InstanceId>, Option<EndedPlace>)> {
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

/// Like [`ended_roots`], among the instances that the filter names.
fn named_roots(
    s: &DbSession<'_>,
    filter: &InstanceFilter,
    named: &[InstanceId],
    after: &EndedPlace,
) -> Res<Vec<EndedPlace>> {
    let mut page = Vec::new();
    for id in matching(s, filter, named)? {
        let Some(instance) = InstanceRow::named(s, &id)? else { continue };
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

/// A page of ended instances that have no parent, ordered by their end and id.
fn ended_roots(
    s: &DbSession<'_>,
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

/// A page of instances that have old executions to remove, and the lane after which there may be
/// more. Reads only.
pub(super) fn prunable(
    s: &DbSession<'_>,
    filter: &InstanceFilter,
    options: PruneOptions,
    after: i64,
) -> Res<(Vec<InstanceId>, Option<i64>)> {
    let Some(named) = &filter.instances else { return all_prunable(s, filter, options, after) };
    let mut ids = Vec::new();
    for id in matching(s, filter, named)? {
        let Some(instance) = InstanceRow::named(s, &id)? else { continue };
        if ids.len() < filter.limit as usize
            && !erase::old_executions(s, &instance, options)?.is_empty()
        {
            ids.push(id);
        }
    }
    Ok((ids, None))
}

/// The named instances that match a filter, in the order in which they ended.
fn matching(
    s: &DbSession<'_>,
    filter: &InstanceFilter,
    named: &[InstanceId],
) -> Res<Vec<InstanceId>> {
    let before = filter.ended_before.map(|at| at.0);
    let mut found = Vec::new();
    for id in named.iter().collect::<HashSet<_>>() {
        let Some(instance) = InstanceRow::named(s, id)? else { continue };
        let ended_at = instance.ended_at.map(|at| at.0);
        if before.is_none_or(|before| ended_at.is_some_and(|ended_at| ended_at < before)) {
            found.push((ended_at, id.clone()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Like [`prunable`], for a filter that names no instances.
fn all_prunable(
    s: &DbSession<'_>,
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
