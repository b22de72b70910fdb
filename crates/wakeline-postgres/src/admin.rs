//! Configuration and inspection of queues.
//!
//! # Where it sits
//! Implements `QueueAdmin`. Nothing here is hot: each call is one statement or a few, on a
//! connection for general use.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use wakeline_core::{
    Change, GroupName, MessageId, Namespace, PartitionId, PartitionName, QueueName, TaskName,
    TransactionId, error_chain,
};
use wakeline_store::{
    ConfigureQueue, Delivered, DeliveryOutcome, LedgerEntry, MessageDetail, MessageState,
    PatchQueue, QueueAdmin, QueueDetail, StoreError,
};

use crate::PostgresStore;
use crate::access::Act;
use crate::messages::state_of;
use crate::queue_options;
use crate::rows::{self, Columns};

const CONFIGURE: &str = "configure queue";

/// A queue, with the namespace and task to give it if the caller has named them.
#[derive(Clone)]
struct NamedQueue<'a> {
    queue: &'a QueueName,
    namespace: Option<Namespace>,
    task: Option<TaskName>,
}

#[async_trait]
impl QueueAdmin for PostgresStore {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        if command.options.encrypted {
            self.shared.encryption.keys(CONFIGURE)?;
        }
        let mut configured = self.try_configure(&command).await?;
        let detail = loop {
            match configured {
                Some(detail) => break detail,
                None => configured = self.configure_again(&command).await?,
            }
        };
        Ok(self.notify_configured(detail))
    }

    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError> {
        const OPERATION: &str = "patch queue";
        if command.options.encrypted == Some(true) {
            self.shared.encryption.keys(OPERATION)?;
        }
        let PatchQueue { queue, namespace, task, options, create } = command;
        let options = queue_options::to_some_columns(&options);
        let named = NamedQueue { queue: &queue, namespace, task };
        let mut detail = self.configure_row(OPERATION, named.clone(), &options).await?;
        while create && detail.is_none() {
            self.make_queue(named.clone()).await?;
            let patched = self.configure_row(OPERATION, named.clone(), &options).await;
            detail = patched.map_err(StoreError::after_write)?;
        }
        Ok(detail.map(|detail| self.notify_configured(detail)))
    }

    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError> {
        const OPERATION: &str = "read queue";
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.queue_get, &[&queue.as_str()]).await?;
        rows.first().map(|row| queue_detail(OPERATION, queue, row)).transpose()
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError> {
        const OPERATION: &str = "delete queue";
        let core = &self.queue.core;
        let act = Act {
            operation: OPERATION,
            sql: &core.sql.queue_delete,
            params: &[&queue.as_str()],
            changed: Act::said,
        };
        let rows = core.recorded(act).await?;
        let existed = rows.first().map(|row| Columns::new(OPERATION, row).take());
        let existed = existed.transpose()?.unwrap_or(false);
        // The queue is deleted already; rows that cannot be removed now are removed by a sweep.
        if existed && let Err(error) = core.purge().await {
            tracing::warn!(
                error = error_chain(&error), %queue,
                "the rows of a deleted queue could not be removed: they are removed later"
            );
        }
        Ok(existed)
    }

    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError> {
        const OPERATION: &str = "read message";
        let core = &self.queue.core;
        let sql = &core.sql.message_find;
        let found = core.general(OPERATION, sql, &[&partition.0, &transaction_id.as_str()]).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let mut columns = Columns::new(OPERATION, row);
        let (queue, name) = (columns.name("queue")?, columns.name("partition")?);
        let offset: i64 = columns.take()?;
        let mut message = Delivered {
            id: MessageId(columns.take()?),
            transaction_id: transaction_id.clone(),
            trace_id: columns.take()?,
            payload: Bytes::from(columns.take::<Vec<u8>>()?),
            created_at: columns.moment()?,
            offset,
            attempt: 1,
            producer: columns.take()?,
        };
        let id = message.id;
        message.payload = (self.shared.encryption.decrypt(id, message.payload))
            .map_err(|error| rows::corrupt("message", id.to_string(), error))?;
        let sql = &core.sql.message_groups;
        let rows = core.general(OPERATION, sql, &[&partition.0, &offset]).await?;
        let (mut groups, mut errors) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let (group, state, failures) = message_group(&mut columns)?;
            errors.extend(columns.take::<Option<String>>()?.map(|error| (group.clone(), error)));
            if group.is_queue_mode() {
                message.attempt = failures + 1;
            }
            groups.push((group, state));
        }
        let sql = &core.sql.ledger_list;
        let rows = core.general(OPERATION, sql, &[&partition.0, &offset]).await?;
        let ledger = rows.iter().map(|row| ledger_entry(&mut Columns::new(OPERATION, row)));
        let ledger = ledger.collect::<Result<_, _>>()?;
        Ok(Some(MessageDetail { queue, partition: name, message, groups, errors, ledger }))
    }
}

impl PostgresStore {
    /// Creates the queue if there is none, and configures it. `None` if it was deleted meanwhile.
    async fn try_configure(
        &self,
        command: &ConfigureQueue,
    ) -> Result<Option<QueueDetail>, StoreError> {
        let ConfigureQueue { queue, namespace, task, options } = command;
        let named = NamedQueue { queue, namespace: namespace.clone(), task: task.clone() };
        self.make_queue(named.clone()).await?;
        let options = queue_options::to_columns(options);
        let written = self.configure_row(CONFIGURE, named, &options).await;
        written.map_err(StoreError::after_write)
    }

    /// Creates the queue if there is none.
    async fn make_queue(&self, named: NamedQueue<'_>) -> Result<(), StoreError> {
        let NamedQueue { queue, namespace, task } = named;
        let derived = queue.derived_scope();
        let scope = (namespace.or(derived.0), task.or(derived.1));
        let key = (queue.clone(), PartitionName::default_partition());
        self.queue.core.make_partitions(BTreeMap::from([(key, scope)]), false).await.map(drop)
    }

    /// Repeats a configuration whose queue was deleted meanwhile.
    async fn configure_again(
        &self,
        command: &ConfigureQueue,
    ) -> Result<Option<QueueDetail>, StoreError> {
        self.try_configure(command).await.map_err(StoreError::after_write)
    }

    /// Changes the columns that `options` names. `None` if there is no such queue.
    async fn configure_row(
        &self,
        operation: &'static str,
        named: NamedQueue<'_>,
        options: &str,
    ) -> Result<Option<QueueDetail>, StoreError> {
        let core = &self.queue.core;
        let NamedQueue { queue, namespace, task } = named;
        let act = Act {
            operation,
            sql: &core.sql.queue_configure,
            changed: Act::said,
            params: &[
                &queue.as_str(),
                &namespace.as_ref().map(Namespace::as_str),
                &task.as_ref().map(TaskName::as_str),
                &options,
            ],
        };
        let rows = core.recorded(act).await?;
        if Act::said(&rows) {
            self.queue(queue).await.map_err(StoreError::after_write)
        } else {
            Ok(None)
        }
    }

    /// Notifies other nodes of the new configuration; returns it with the changes for this node's
    /// own waiters.
    fn notify_configured(&self, detail: QueueDetail) -> (QueueDetail, Vec<Change>) {
        let changes = vec![Change {
            queue: detail.queue.clone(),
            partition: None,
            namespace: detail.namespace.clone(),
            task: detail.task.clone(),
            group: None,
            due_in: Duration::ZERO,
        }];
        self.shared.notifier.notify(&changes);
        (detail, changes)
    }
}

fn queue_detail(
    operation: &'static str,
    queue: &QueueName,
    row: &Row,
) -> Result<QueueDetail, StoreError> {
    let mut columns = Columns::new(operation, row);
    let id: i32 = columns.take()?;
    Ok(QueueDetail {
        id: id.into(),
        queue: queue.clone(),
        namespace: columns.name_if("namespace")?,
        task: columns.name_if("task")?,
        default_partition: PartitionId(columns.take()?),
        options: queue_options::from_columns(columns.take()?)
            .map_err(|error| rows::corrupt("queue", queue.to_string(), error))?,
    })
}

fn message_group(columns: &mut Columns<'_>) -> Result<(GroupName, MessageState, u32), StoreError> {
    let group = columns.name("group")?;
    let state = state_of(columns.take()?);
    Ok((group, state, u32::try_from(columns.take::<i32>()?).unwrap_or(0)))
}

fn ledger_entry(columns: &mut Columns<'_>) -> Result<LedgerEntry, StoreError> {
    Ok(LedgerEntry {
        group: columns.name("group")?,
        worker: columns.take()?,
        offered_at: columns.moment()?,
        leased_until: columns.moment()?,
        ended_at: columns.take::<Option<SystemTime>>()?.map(rows::timestamp),
        outcome: match columns.take::<i16>()? {
            0 => DeliveryOutcome::Open,
            1 => DeliveryOutcome::Acked,
            2 => DeliveryOutcome::Failed,
            3 => DeliveryOutcome::Expired,
            _ => DeliveryOutcome::Released,
        },
        first_offset: columns.take()?,
        last_offset: columns.take()?,
        messages: count(columns.take()?),
    })
}

pub(crate) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
