//! Deleting instances with all below them, and old executions, in pieces.
//!
//! # Where it sits
//! Behind `FlowAdmin`, over `sql/functions/flow_delete.sql`, `flow_prune.sql` and `flow_clear.sql`.
//!
//! # Invariants
//! * The first transaction of a deletion removes what was named for everybody who asks, and notes
//!   what is left in `flow_leftovers`. Whoever deletes goes on until nothing is; if it cannot,
//!   housekeeping does.
//! * No transaction removes more than some thousand rows, and none looks at a row twice.
//! * Once something was removed, a failure has an unknown outcome.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowWhat, InstanceId};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, InstanceFilter, PruneOptions, PruneReport,
};

use super::Core;
use crate::access::Act;
use crate::rows::{self, Columns};

const DELETE: &str = "delete instances";
const PRUNE: &str = "prune";

/// Rows that one step of a transaction removes.
const ROWS_MAX: i32 = 500;
/// Instances of whose children a page is read at once.
const PARENTS_MAX: usize = 500;
/// Children on a page.
const PAGE_LEN: i32 = 5_000;
/// Roots on a page, and instances that are pruned together.
const ROOTS_MAX: i32 = 100;
/// Instances that are named in an answer as not ended.
const NAMED_MAX: usize = 1_000;
/// The pause where another node has what is left in its hands.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// How a deletion goes.
struct Deletion {
    id: Uuid,
    report: DeleteReport,
    /// Something was removed, and recorded.
    begun: bool,
}

impl Deletion {
    fn new() -> Self {
        Self { id: Uuid::now_v7(), report: DeleteReport::default(), begun: false }
    }

    /// Adds what a piece removed. Returns whether something is left, and whether it removed any.
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

    /// What an error means now.
    fn failed(&self, error: StoreError) -> StoreError {
        match self.begun {
            true => StoreError::Transient { operation: DELETE, source: Box::new(error) },
            false => error,
        }
    }
}

/// How a pruning goes.
struct Pruning {
    keep: i64,
    before: Option<SystemTime>,
    deletion: Deletion,
    report: PruneReport,
    /// The lanes of which something went.
    touched: HashSet<i64>,
}

impl Pruning {
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

/// Where to read on among ended instances.
type Place = (SystemTime, String);

impl Core {
    /// Deletes instances with all below them, or none.
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
            // Nothing is deleted; what else speaks against it is reported too.
            self.begin(&mut deletion, (&texts(named), false), 0).await?;
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
            let mut doomed = Vec::new();
            for ((_, root), parents) in page {
                let whole = match parents && doomed.len() < left {
                    true => self.running_below(&root, &mut HashSet::new()).await,
                    false => Ok(Vec::new()),
                };
                if whole.map_err(|error| deletion.failed(error))?.is_empty() {
                    doomed.push(root);
                }
            }
            doomed.truncate(left);
            left -= doomed.len();
            let doomed: Vec<&str> = doomed.iter().map(String::as_str).collect();
            self.delete_all(&mut deletion, &doomed, false).await?;
        }
        // One that began again in the meantime is passed over.
        Ok(DeleteReport { running: Vec::new(), orphans: Vec::new(), ..deletion.report })
    }

    /// Deletes instances, and goes on until nothing of them is left.
    async fn delete_all(
        &self,
        deletion: &mut Deletion,
        instances: &[&str],
        force: bool,
    ) -> Result<(), StoreError> {
        if instances.is_empty() {
            return Ok(());
        }
        let begun = self.begin(deletion, (instances, force), ROWS_MAX).await;
        let more = begun.map_err(|error| deletion.failed(error))?;
        deletion.begun |= deletion.report.instances > 0;
        let cleared = if more { self.clear(deletion).await } else { Ok(()) };
        self.tell_waiters(&deletion.report.watched).await;
        cleared.map_err(|error| deletion.failed(error))
    }

    /// Waiters of other processes learn that what they wait for is gone, also if this process ends
    /// right after the deletion.
    async fn tell_waiters(&self, watched: &[InstanceId]) {
        if watched.is_empty() {
            return;
        }
        let changes = watched.iter().map(|id| FlowChange::now(FlowWhat::Outcome(id.clone())));
        self.hints.tell(&self.shared, changes);
        self.hints.sent().await;
    }

    /// Removes instances for everybody who asks. Returns whether something is left of them.
    async fn begin(
        &self,
        deletion: &mut Deletion,
        (instances, force): (&[&str], bool),
        rows_max: i32,
    ) -> Result<bool, StoreError> {
        let params: &[&(dyn ToSql + Sync)] = &[&instances, &force, &deletion.id, &rows_max];
        // A call is one act, however many pieces it has.
        let rows = match deletion.begun {
            true => self.general(DELETE, &self.sql.delete, params).await?,
            false => self.act(DELETE, (&self.sql.delete, params), Act::counted).await?,
        };
        let Some(row) = rows.first() else { return Ok(false) };
        let mut columns = Columns::new(DELETE, row);
        let (more, _) = deletion.add(&mut columns)?;
        deletion.report.running.extend(names(&mut columns)?);
        deletion.report.orphans.extend(names(&mut columns)?);
        Ok(more)
    }

    /// Goes on with a deletion to its end.
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

    /// Goes on with deletions that nobody finished. Returns when there is more to do.
    pub(super) async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError> {
        let params: &[&(dyn ToSql + Sync)] = &[&None::<Uuid>, &ROWS_MAX];
        let rows = self.general(DELETE, &self.sql.clear, params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(DELETE, row);
        let mut deletion = Deletion::new();
        deletion.add(&mut columns)?;
        self.tell_waiters(&deletion.report.watched).await;
        Ok(columns.take::<Option<i64>>()?.map(rows::span))
    }

    /// Those below an instance that have not ended, page by page; only the first of very many.
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
                let page = self.general(DELETE, &self.sql.below, params).await?;
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

    /// A page of ended instances that have no parent, and whether each has children.
    async fn ended_roots(
        &self,
        filter: &InstanceFilter,
        after: &Place,
    ) -> Result<Vec<(Place, bool)>, StoreError> {
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
        let mut pruning = Pruning::new(&options);
        let mut left = filter.limit as usize;
        let page_len = usize::try_from(ROOTS_MAX).unwrap_or(1);
        let mut named = filter.instances.as_deref().map(|named| named.chunks(page_len));
        let mut after = 0_i64;
        while left > 0 {
            let names = named.as_mut().map(|chunks| chunks.next().map(texts));
            if names == Some(None) {
                break;
            }
            let page = self.prunable(&filter, (names.flatten(), after), &pruning).await;
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

    /// A page of instances by their lanes, behind a lane or of some names, and whether executions
    /// of each would go.
    async fn prunable(
        &self,
        filter: &InstanceFilter,
        (names, after): (Option<Vec<&str>>, i64),
        pruning: &Pruning,
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
    async fn prune_page(&self, lanes: &[i64], pruning: &mut Pruning) -> Result<(), StoreError> {
        while !lanes.is_empty() {
            let params: &[&(dyn ToSql + Sync)] =
                &[&lanes, &pruning.keep, &pruning.before, &pruning.deletion.id, &ROWS_MAX];
            // A call is one act, however many pieces it has.
            let rows = match pruning.deletion.begun {
                true => self.general(PRUNE, &self.sql.prune, params).await,
                false => self.act(PRUNE, (&self.sql.prune, params), Act::counted).await,
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
