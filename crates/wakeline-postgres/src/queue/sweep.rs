//! The periodic sweep: reads when each line is due next, and runs due housekeeping.

use std::time::Duration;

use wakeline_core::{
    GroupName, Namespace, PartitionName, QueueLine, QueueName, Selector, TaskName,
};
use wakeline_store::StoreError;

use super::QueueCore;
use crate::rows::{self, Columns};

const OPERATION: &str = "sweep";

/// The maximum number of lines in one call.
const LINES_MAX: usize = 1000;

/// The line number under which the database returns the due time of background work.
const BACKGROUND_LINE: i32 = -2;

/// The maximum number of housekeeping steps in one sweep; the next sweep continues.
const PURGES_MAX: usize = 20;

/// The lines of a call as columns.
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

impl QueueCore {
    /// Reads how long until each line has something, and does what housekeeping is due.
    pub(super) async fn sweep(
        &self,
        lines: Vec<QueueLine>,
    ) -> Result<Vec<Option<Duration>>, StoreError> {
        let mut due = vec![None; lines.len()];
        let mut purge = false;
        let mut background = None;
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
                    Err(_) if line == BACKGROUND_LINE => {
                        background = Some(rows::span(columns.take()?))
                    }
                    Err(_) => self.shared.notifier.incoming().notify_one(),
                }
            }
        }
        for (_, due) in lines.iter().zip(&mut due).filter(|(line, _)| line.is_background()) {
            *due = background;
        }
        if purge {
            self.purge().await?;
        }
        self.shared.notifier.sweep();
        Ok(due)
    }

    /// Removes rows of deleted queues, up to a limit.
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
