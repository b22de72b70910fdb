//! Deletes instances with their descendants, and old executions, in transactions of bounded size.
//!
//! # Where it sits
//! Implements the deletions of `FlowAdmin` over `sql/functions/flow_delete.sql`, `flow_prune.sql`
//! and `flow_clear.sql`.
//!
//! # Invariants
//! * After the first transaction of a deletion, the named instances do not exist any more for
//!   readers, and `flow_leftovers` lists what remains to be removed. The caller continues until
//!   nothing is left; if it cannot, housekeeping continues.
//! * No transaction removes more than some thousand rows, and none reads a row twice.
//! * After something was removed, a failure has an unknown outcome.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowChangeKind, InstanceId};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, InstanceFilter, PruneOptions, PruneReport,
};

use super::FlowCore;
use crate::access::Act;
use crate::rows::{self, Columns};

const DELETE: &str = "delete instances";
const PRUNE: &str = "prune";

/// The maximum number of rows that one step of a transaction removes.
const ROWS_MAX: i32 = 500;
/// The maximum number of instances whose children are read by one query.
const PARENTS_MAX: usize = 500;
/// The number of children on a page.
const PAGE_LEN: i32 = 5_000;
/// The number of root instances on a page, and of instances that are pruned together.
const ROOTS_MAX: i32 = 100;
/// The approximate maximum number of running instances in a report.
const NAMED_MAX: usize = 1_000;
/// The pause while another node is removing the remaining rows.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The progress of a deletion.
struct Deletion {
    id: Uuid,
    report: DeleteReport,
    /// Whether something was removed, and audited.
    begun: bool,
}

impl Deletion {
    fn new() -> Self {
        Self { id: Uuid::now_v7(), report: DeleteReport::default(), begun: false }
    }

    /// Adds the results of one step. Returns whether something is left, and whether the step
    /// removed something.
    fn add(&mut self, columns: &mut Columns<'_>) -> Result<(bool, bool), StoreError> {
        let piece = [number(columns)?, number(columns)?, number(columns)?, number(columns)?];
        let [instances, executions, events, messages] = piece;
        self.report.instances += instances;
        self.report.executions += executions;
        self.report.events += events;
        self.report.messages += messages;
        self.report.watched.extend(names(columns)?);
        Ok((columns.take()?, piece != [0; 4]))
    }

    /// Turns an error into one of unknown outcome if something was removed already.
    fn failed(&self, error: StoreError) -> StoreError {
        if self.begun {
            StoreError::Transient { operation: DELETE, source: Box::new(error) }
        } else {
            error
        }
    }
}

/// The progress of a prune operation.
struct PruneRun {
    keep: i64,
    before: Option<SystemTime>,
    deletion: Deletion,
    report: PruneReport,
    /// The lanes of the instances of which something was removed.
    touched: HashSet<i64>,
}

impl PruneRun {
    fn new(options: &PruneOptions) -> Self {
        Self {
            keep: i64::from(options.keep_last.unwrap_or(1)),
            before: options.ended_before.map(rows::system_time),
            deletion: Deletion::new(),
            report: PruneReport::default(),
            touched: HashSet::new(),
        }
    }
}

/// The position after which the next page of ended instances begins: the end time and the instance.
type RootPlace = (SystemTime, String);

impl FlowCore {
    /// Deletes instances with their descendants. If the deletion is not possible, nothing is
    /// deleted.
    pub(super) async fn delete(
        &self,
        command: DeleteInstances,
    ) -> Result<DeleteReport, StoreError> {
        let mut deletion = Deletion::new();
        if !command.force {
            let mut seen = HashSet::new();
            for instance in &command.instances {
                let running = self.running_below(instance.as_str(), &mut seen).await?;
                deletion.report.running.extend(running);
            }
        }
        let named = &command.instances;
        if deletion.report.running.is_empty() {
            self.delete_all(&mut deletion, &texts(named), command.force).await?;
        } else {
            // Nothing is deleted. This call only reports further obstacles.
            self.begin(&mut deletion, &texts(named), false, 0).await?;
        }
        Ok(deletion.report)
    }

    /// Deletes ended instances that have no parent, page by page.
    pub(super) async fn delete_matching(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteReport, StoreError> {
        let mut deletion = Deletion::new();
        let mut left = filter.limit as usize;
        let mut place = (SystemTime::UNIX_EPOCH, String::new());
        while left > 0 {
            let page = self.ended_roots(&filter, &place).await;
            let page = page.map_err(|error| deletion.failed(error))?;
            let Some((last, _)) = page.last() else { break };
            place.clone_from(last);
            let mut deletable = Vec::new();
            for ((_, root), parents) in page {
                let running = if parents && deletable.len() < left {
                    self.running_below(&root, &mut HashSet::new()).await
                } else {
                    Ok(Vec::new())
                };
                if running.map_err(|error| deletion.failed(error))?.is_empty() {
                    deletable.push(root);
                }
            }
            deletable.truncate(left);
            left -= deletable.len();
            let deletable: Vec<&str> = deletable.iter().map(String::as_str).collect();
            self.delete_all(&mut deletion, &deletable, false).await?;
        }
        // Instances that started again concurrently are skipped.
        Ok(DeleteReport { running: Vec::new(), orphans: Vec::new(), ..deletion.report })
    }

    /// Deletes instances, and continues until nothing of them is left.
    async fn delete_all(
        &self,
        deletion: &mut Deletion,
        instances: &[&str],
        force: bool,
    ) -> Result<(), StoreError> {
        if instances.is_empty() {
            return Ok(());
        }
        let begun = self.begin(deletion, instances, force, ROWS_MAX).await;
        let more = begun.map_err(|error| deletion.failed(error))?;
        deletion.begun |= deletion.report.instances > 0;
        let cleared = if more { self.clear(deletion).await } else { Ok(()) };
        self.notify_waiters(&deletion.report.watched).await;
        cleared.map_err(|error| deletion.failed(error))
    }

    /// Notifies waiters in other processes that the instances were deleted. It returns after the
    /// hints were sent, so that they are not lost if this process exits immediately afterwards.
    async fn notify_waiters(&self, watched: &[InstanceId]) {
        if watched.is_empty() {
            return;
        }
        let changes = watched.iter().map(|id| FlowChange::now(FlowChangeKind::Outcome(id.clone())));
        self.hints.notify(&self.shared, changes);
        self.hints.sent().await;
    }

    /// Makes instances disappear for readers. Returns whether something is left to be removed.
    async fn begin(
        &self,
        deletion: &mut Deletion,
        instances: &[&str],
        force: bool,
        rows_max: i32,
    ) -> Result<bool, StoreError> {
        let params: &[&(dyn ToSql + Sync)] = &[&instances, &force, &deletion.id, &rows_max];
        // A command has one audit event, however many steps it takes.
        let rows = if deletion.begun {
            self.general(DELETE, &self.sql.delete, params).await?
        } else {
            self.act(DELETE, &self.sql.delete, params, Act::counted).await?
        };
        let Some(row) = rows.first() else { return Ok(false) };
        let mut columns = Columns::new(DELETE, row);
        let (more, _) = deletion.add(&mut columns)?;
        deletion.report.running.extend(names(&mut columns)?);
        deletion.report.orphans.extend(names(&mut columns)?);
        Ok(more)
    }

    /// Continues a deletion until nothing is left.
    async fn clear(&self, deletion: &mut Deletion) -> Result<(), StoreError> {
        loop {
            let params: &[&(dyn ToSql + Sync)] = &[&Some(deletion.id), &ROWS_MAX];
            let rows = self.general(DELETE, &self.sql.clear, params).await?;
            let Some(row) = rows.first() else { return Ok(()) };
            match deletion.add(&mut Columns::new(DELETE, row))? {
                (false, _) => return Ok(()),
                (true, true) => {}
                (true, false) => tokio::time::sleep(BUSY_PAUSE).await,
            }
        }
    }

    /// Continues deletions that were not completed. Returns the time until the next one is due.
    pub(super) async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError> {
        let params: &[&(dyn ToSql + Sync)] = &[&None::<Uuid>, &ROWS_MAX];
        let rows = self.general(DELETE, &self.sql.clear, params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(DELETE, row);
        let mut deletion = Deletion::new();
        deletion.add(&mut columns)?;
        self.notify_waiters(&deletion.report.watched).await;
        Ok(columns.take::<Option<i64>>()?.map(rows::span))
    }

    /// Reads the descendants of an instance that have not ended, page by page; only the first
    /// [`NAMED_MAX`] or so.
    async fn running_below(
        &self,
        root: &str,
        seen: &mut HashSet<String>,
    ) -> Result<Vec<InstanceId>, StoreError> {
        let mut running = Vec::new();
        let mut waiting = VecDeque::from([root.to_owned()]);
        while !waiting.is_empty() && running.len() < NAMED_MAX {
            let len = waiting.len().min(PARENTS_MAX);
            let mut parents: Vec<String> = waiting.drain(..len).collect();
            let mut after = 0_i64;
            loop {
                let params: &[&(dyn ToSql + Sync)] = &[&parents, &after, &PAGE_LEN];
                let page = self.general(DELETE, &self.sql.children, params).await?;
                let mut last = None;
                for row in &page {
                    let mut columns = Columns::new(DELETE, row);
                    last = Some((columns.take::<i32>()?, columns.take::<i64>()?));
                    let (instance, ended): (String, bool) = (columns.take()?, columns.take()?);
                    if seen.insert(instance.clone()) {
                        waiting.push_back(instance.clone());
                        if !ended {
                            running.push(rows::name("instance", instance)?);
                        }
                    }
                }
                let full = page.len() == usize::try_from(PAGE_LEN).unwrap_or(0);
                let Some((place, lane)) = last.filter(|_| full) else { break };
                parents.drain(..usize::try_from(place - 1).unwrap_or(0));
                after = lane;
            }
        }
        Ok(running)
    }

    /// Reads a page of ended instances that have no parent, and whether each has children.
    async fn ended_roots(
        &self,
        filter: &InstanceFilter,
        after: &RootPlace,
    ) -> Result<Vec<(RootPlace, bool)>, StoreError> {
        let params: &[&(dyn ToSql + Sync)] = &[
            &filter.instances.as_deref().map(texts),
            &filter.ended_before.map(rows::system_time),
            &after.0,
            &after.1,
            &ROOTS_MAX,
        ];
        let page = self.general(DELETE, &self.sql.ended_roots, params).await?;
        let read = |row: &Row| {
            let mut columns = Columns::new(DELETE, row);
            Ok(((columns.take()?, columns.take()?), columns.take()?))
        };
        page.iter().map(read).collect()
    }

    /// Removes old executions of instances, page by page.
    pub(super) async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        let mut pruning = PruneRun::new(&options);
        let mut left = filter.limit as usize;
        let page_len = usize::try_from(ROOTS_MAX).unwrap_or(1);
        let mut named = filter.instances.as_deref().map(|named| named.chunks(page_len));
        let mut after = 0_i64;
        while left > 0 {
            let names = named.as_mut().map(|chunks| chunks.next().map(texts));
            if names == Some(None) {
                break;
            }
            let page = self.prunable(&filter, names.flatten(), after, &pruning).await;
            let page = page.map_err(|error| pruning.deletion.failed(error))?;
            let last = page.last().map(|(lane, _)| *lane);
            let lanes = page.into_iter().filter(|(_, prunable)| *prunable).map(|(lane, _)| lane);
            let lanes: Vec<i64> = lanes.take(left).collect();
            left -= lanes.len();
            self.prune_page(&lanes, &mut pruning).await?;
            match last {
                Some(last) => after = last,
                None if named.is_none() => break,
                None => {}
            }
        }
        Ok(PruneReport { instances: pruning.touched.len() as u64, ..pruning.report })
    }

    /// Reads a page of instances by their lanes, either after a lane or those with some names, and
    /// whether executions of each would be removed.
    async fn prunable(
        &self,
        filter: &InstanceFilter,
        names: Option<Vec<&str>>,
        after: i64,
        pruning: &PruneRun,
    ) -> Result<Vec<(i64, bool)>, StoreError> {
        let params: &[&(dyn ToSql + Sync)] = &[
            &names,
            &filter.ended_before.map(rows::system_time),
            &after,
            &ROOTS_MAX,
            &pruning.keep,
            &pruning.before,
        ];
        let page = self.general(PRUNE, &self.sql.prunable, params).await?;
        let read = |row: &Row| {
            let mut columns = Columns::new(PRUNE, row);
            Ok((columns.take()?, columns.take()?))
        };
        page.iter().map(read).collect()
    }

    /// Removes old executions of some instances until none is left.
    async fn prune_page(&self, lanes: &[i64], pruning: &mut PruneRun) -> Result<(), StoreError> {
        while !lanes.is_empty() {
            let params: &[&(dyn ToSql + Sync)] =
                &[&lanes, &pruning.keep, &pruning.before, &pruning.deletion.id, &ROWS_MAX];
            // A command has one audit event, however many steps it takes.
            let rows = if pruning.deletion.begun {
                self.general(PRUNE, &self.sql.prune, params).await
            } else {
                self.act(PRUNE, &self.sql.prune, params, Act::counted).await
            };
            let rows = rows.map_err(|error| pruning.deletion.failed(error))?;
            let Some(row) = rows.first() else { break };
            let mut columns = Columns::new(PRUNE, row);
            let executions = number(&mut columns)?;
            pruning.report.executions += executions;
            pruning.report.events += number(&mut columns)?;
            pruning.touched.extend(columns.take::<Vec<i64>>()?);
            if executions == 0 {
                break;
            }
            pruning.deletion.begun = true;
            let cleared = self.clear(&mut pruning.deletion).await;
            cleared.map_err(|error| pruning.deletion.failed(error))?;
        }
        Ok(())
    }
}

fn number(columns: &mut Columns<'_>) -> Result<u64, StoreError> {
    Ok(u64::try_from(columns.take::<i64>()?).unwrap_or(0))
}

fn names(columns: &mut Columns<'_>) -> Result<Vec<InstanceId>, StoreError> {
    let texts: Vec<String> = columns.take()?;
    texts.into_iter().map(|text| rows::name("instance", text)).collect()
}

pub(super) fn texts(instances: &[InstanceId]) -> Vec<&str> {
    instances.iter().map(InstanceId::as_str).collect()
}
