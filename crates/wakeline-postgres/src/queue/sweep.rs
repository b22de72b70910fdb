//! The safety sweep: what is due in which line, and the store's housekeeping.

use std::time::Duration;

use wakeline_core::{
    GroupName, Namespace, PartitionName, QueueLine, QueueName, Selector, TaskName,
};
use wakeline_store::StoreError;

use super::Core;
use crate::rows::{self, Columns};

const OPERATION: &str = "sweep";

/// Most lines in one call.
const LINES_MAX: usize = 1000;

/// The number under which the due time of background work is told.
const CHORES_LINE: i32 = -2;

/// Most steps of housekeeping in one sweep; the next one goes on.
const PURGES_MAX: usize = 20;

/// Lines as columns.
#[derive(Default)]
pub(super) struct LineColumns {
    pub(super) kinds: Vec<i16>,
    pub(super) queues: Vec<Option<String>>,
    pub(super) partitions: Vec<Option<String>>,
    pub(super) namespaces: Vec<Option<String>>,
    pub(super) tasks: Vec<Option<String>>,
    pub(super) groups: Vec<String>,
}

impl LineColumns {
    pub(super) fn new<'a>(lines: impl Iterator<Item = &'a QueueLine>) -> Self {
        let mut columns = Self::default();
        for line in lines {
            columns.add(&line.selector, &line.group);
        }
        columns
    }

    fn add(&mut self, selector: &Selector, group: &GroupName) {
        let (kind, queue, partition, namespace, task) = match selector {
            Selector::Queue(queue) => (0, Some(queue), None, None, None),
            Selector::Partition(queue, partition) => (1, Some(queue), Some(partition), None, None),
            Selector::Filter { namespace, task } => {
                (2, None, None, namespace.as_ref(), task.as_ref())
            }
        };
        self.kinds.push(kind);
        self.queues.push(queue.map(QueueName::as_str).map(str::to_owned));
        self.partitions.push(partition.map(PartitionName::as_str).map(str::to_owned));
        self.namespaces.push(namespace.map(Namespace::as_str).map(str::to_owned));
        self.tasks.push(task.map(TaskName::as_str).map(str::to_owned));
        self.groups.push(group.as_str().to_owned());
    }
}

impl Core {
    /// Reads how long until each line has something, and does what housekeeping is due.
    pub(super) async fn sweep(
        &self,
        lines: Vec<QueueLine>,
    ) -> Result<Vec<Option<Duration>>, StoreError> {
        let mut due = vec![None; lines.len()];
        let mut purge = false;
        let mut chores = None;
        for (chunk, due) in lines.chunks(LINES_MAX).zip(due.chunks_mut(LINES_MAX)) {
            let LineColumns { kinds, queues, partitions, namespaces, tasks, groups } =
                LineColumns::new(chunk.iter());
            let sql = &self.sql.sweep;
            let rows = self
                .promptly(
                    OPERATION,
                    sql,
                    &[&kinds, &queues, &partitions, &namespaces, &tasks, &groups],
                )
                .await?;
            for row in &rows {
                let mut columns = Columns::new(OPERATION, row);
                let line: i32 = columns.take()?;
                match usize::try_from(line) {
                    Ok(0) => purge = true,
                    Ok(line) => due[line - 1] = Some(rows::span(columns.take()?)),
                    Err(_) if line == CHORES_LINE => chores = Some(rows::span(columns.take()?)),
                    Err(_) => self.shared.notifier.incoming().notify_one(),
                }
            }
        }
        for (_, due) in lines.iter().zip(&mut due).filter(|(line, _)| line.is_chores()) {
            *due = chores;
        }
        if purge {
            self.purge().await?;
        }
        self.shared.notifier.sweep();
        Ok(due)
    }

    /// Removes rows of deleted queues, up to a bound.
    pub(crate) async fn purge(&self) -> Result<(), StoreError> {
        for _ in 0..PURGES_MAX {
            let rows = self.general(OPERATION, &self.sql.queue_purge, &[]).await?;
            let more = rows.first().map(|row| Columns::new(OPERATION, row).take());
            if !more.transpose()?.unwrap_or(false) {
                break;
            }
        }
        Ok(())
    }
}
