//! Messages: browsing, intervening, and deleting them.
//!
//! # Where it sits
//! Implements `QueueMessages`. Nothing here is hot: each call is one statement or a few, on a
//! connection for general use.

use std::time::SystemTime;

use async_trait::async_trait;
use tokio_postgres::Row;
use wakeline_core::{
    Change, GroupName, MessageId, Namespace, PartitionId, PartitionName, QueueName, TaskName,
    TransactionId,
};
use wakeline_store::{
    BROWSE_EXAMINED_FACTOR, BROWSE_PARTITIONS_MAX, BrowsePosition, GIVE_UP_DISTANCE_MAX,
    Intervention, InterventionOutcome, ListedMessage, ListedMessages, MessageFilter, MessageKey,
    MessageState, Page, PartitionDetail, QueueMessages, StoreError,
};

use crate::PostgresStore;
use crate::access::Act;
use crate::admin::count;
use crate::rows::{self, Columns};

impl PostgresStore {
    /// Removes messages of a queue or of one of its partitions, in steps.
    async fn clear(
        &self,
        queue: &QueueName,
        partition: Option<&str>,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        const OPERATION: &str = "clear queue";
        let core = &self.queue.core;
        let (mut after, mut gone) = (0_i64, 0);
        loop {
            let params: crate::connect::Params<'_> =
                &[&queue.as_str(), &partition, &after, &dead_letters];
            let sql = &core.sql.queue_clear;
            // Only the first step is audited.
            let rows = if after == 0 {
                let changed = Act::any;
                core.recorded(Act { operation: OPERATION, sql, params, changed }).await?
            } else {
                let rows = core.general(OPERATION, sql, params).await;
                rows.map_err(StoreError::after_write)?
            };
            let Some(row) = rows.first() else { return Ok(None) };
            let mut columns = Columns::new(OPERATION, row);
            let next: Option<i64> = columns.take()?;
            gone += count(columns.take()?);
            match next {
                Some(next) => after = next,
                None => return Ok(Some(gone)),
            }
        }
    }
}

#[async_trait]
impl QueueMessages for PostgresStore {
    async fn browse(
        &self,
        filter: MessageFilter,
        place: Option<BrowsePosition>,
        limit: u32,
    ) -> Result<ListedMessages, StoreError> {
        const OPERATION: &str = "browse messages";
        let core = &self.queue.core;
        let (partition, before) =
            place.map_or((0, i64::MAX), |place| (place.partition.0, place.before));
        let small = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let params: crate::connect::Params<'_> = &[
            &filter.queue.as_ref().map(QueueName::as_str),
            &filter.partition.as_ref().map(PartitionName::as_str),
            &filter.namespace.as_ref().map(Namespace::as_str),
            &filter.task.as_ref().map(TaskName::as_str),
            &filter.state.map(state_number),
            &filter.from.map(rows::system_time),
            &filter.to.map(rows::system_time),
            &partition,
            &before,
            &small(limit),
            &small(limit.saturating_mul(BROWSE_EXAMINED_FACTOR)),
            &small(BROWSE_PARTITIONS_MAX),
        ];
        let rows = core.general(OPERATION, &core.sql.message_browse, params).await?;
        let mut list = ListedMessages::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let (next, before): (Option<i64>, Option<i64>) = (columns.take()?, columns.take()?);
            match next.zip(before) {
                Some((partition, before)) => {
                    let partition = PartitionId(partition);
                    list.next = Some(BrowsePosition { partition, before });
                }
                None => list.messages.push(listed(&mut columns)?),
            }
        }
        Ok(list)
    }

    async fn intervene(
        &self,
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> Result<(InterventionOutcome, Vec<Change>), StoreError> {
        const OPERATION: &str = "intervene";
        let core = &self.queue.core;
        let (bury, error) = match intervention {
            Intervention::Retry => (false, None),
            Intervention::GiveUp { error } => (true, error),
        };
        let error = error.map(|error| error.replace('\0', "\u{fffd}"));
        let params: crate::connect::Params<'_> = &[
            &message.partition.0,
            &message.transaction_id.as_str(),
            &group.as_str(),
            &bury,
            &error,
            &GIVE_UP_DISTANCE_MAX,
        ];
        let (sql, changed) = (&core.sql.message_intervene, Act::coded);
        let rows = core.recorded(Act { operation: OPERATION, sql, params, changed }).await?;
        let Some(row) = rows.first() else { return Ok((InterventionOutcome::Missing, Vec::new())) };
        let mut columns = Columns::new(OPERATION, row);
        let outcome = match columns.take::<i16>()? {
            0 => InterventionOutcome::Done,
            1 => return Ok((InterventionOutcome::Missing, Vec::new())),
            2 => InterventionOutcome::NoGroup,
            3 => InterventionOutcome::Leased,
            4 => InterventionOutcome::Settled,
            _ => InterventionOutcome::TooFar,
        };
        let change = rows::change(&mut columns)?;
        let due: Option<i64> = columns.take()?;
        let change =
            due.map(|due| Change { group: Some(group.clone()), due_in: rows::span(due), ..change });
        let changes: Vec<_> = change.into_iter().collect();
        self.shared.notifier.notify(&changes);
        Ok((outcome, changes))
    }

    async fn delete_message(&self, message: MessageKey) -> Result<(bool, Vec<Change>), StoreError> {
        const OPERATION: &str = "delete message";
        let core = &self.queue.core;
        let params: crate::connect::Params<'_> =
            &[&message.partition.0, &message.transaction_id.as_str()];
        let (sql, changed) = (&core.sql.message_delete, Act::coded);
        let rows = core.recorded(Act { operation: OPERATION, sql, params, changed }).await?;
        let existed = Act::coded(&rows);
        let mut changes = Vec::new();
        for row in rows.iter().skip(1) {
            let mut columns = Columns::new(OPERATION, row);
            let _outcome: i16 = columns.take()?;
            let change = rows::change(&mut columns)?;
            let (group, due) = (columns.name("group")?, columns.take()?);
            changes.push(Change { group: Some(group), due_in: rows::span(due), ..change });
        }
        self.shared.notifier.notify(&changes);
        Ok((existed, changes))
    }

    async fn clear_queue(
        &self,
        queue: &QueueName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        self.clear(queue, None, dead_letters).await
    }

    async fn clear_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        self.clear(queue, Some(partition.as_str()), dead_letters).await
    }

    async fn delete_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "delete partition";
        let core = &self.queue.core;
        if *partition == PartitionName::default_partition() {
            return Ok(false);
        }
        let params: crate::connect::Params<'_> = &[&queue.as_str(), &partition.as_str()];
        let (sql, changed) = (&core.sql.partition_delete, Act::said);
        let rows = core.recorded(Act { operation: OPERATION, sql, params, changed }).await?;
        let existed = rows.first().map(|row| Columns::new(OPERATION, row).take());
        Ok(existed.transpose()?.unwrap_or(false))
    }

    async fn partitions(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<PartitionDetail>, StoreError> {
        const OPERATION: &str = "list partitions";
        let core = &self.queue.core;
        let queue = queue.map(QueueName::as_str);
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let sql = &core.sql.partition_list;
        let rows = core.general(OPERATION, sql, &[&queue, &limit, &offset]).await?;
        rows.iter().map(|row| partition(OPERATION, row)).collect()
    }
}

fn partition(operation: &'static str, row: &Row) -> Result<PartitionDetail, StoreError> {
    let mut columns = Columns::new(operation, row);
    Ok(PartitionDetail {
        queue: columns.name("queue")?,
        namespace: columns.name_if("namespace")?,
        task: columns.name_if("task")?,
        partition: columns.name("partition")?,
        partition_id: PartitionId(columns.take()?),
        end: count(columns.take()?),
        last_push_at: columns.take::<Option<SystemTime>>()?.map(rows::timestamp),
    })
}

/// Reads a message; the columns of the position to continue from come before it.
fn listed(columns: &mut Columns<'_>) -> Result<ListedMessage, StoreError> {
    let (queue, namespace) = (columns.name("queue")?, columns.name_if("namespace")?);
    let (task, priority) = (columns.name_if("task")?, columns.take()?);
    let (partition, number) = (columns.name("partition")?, columns.take::<i64>()?);
    let (offset, id): (i64, uuid::Uuid) = (columns.take()?, columns.take()?);
    let transaction_id: String = columns.take()?;
    let broken = |error| rows::corrupt("message", format!("{number}/{offset}"), error);
    let transaction_id = TransactionId::new(transaction_id).map_err(broken)?;
    let (trace_id, producer) = (columns.take()?, columns.take()?);
    let created_at = columns.moment()?;
    let names: Option<Vec<String>> = columns.take()?;
    let states: Option<Vec<i16>> = columns.take()?;
    let mut groups = Vec::new();
    for (name, state) in names.unwrap_or_default().into_iter().zip(states.unwrap_or_default()) {
        groups.push((rows::name("group", name)?, state_of(state)));
    }
    Ok(ListedMessage {
        queue,
        namespace,
        task,
        priority,
        partition,
        partition_id: PartitionId(number),
        offset,
        id: MessageId(id),
        transaction_id,
        trace_id,
        producer,
        created_at,
        groups,
    })
}

/// Decodes the number of a state in the database.
pub(crate) fn state_of(number: i16) -> MessageState {
    match number {
        0 => MessageState::Pending,
        1 => MessageState::Processing,
        2 => MessageState::DeadLetter,
        _ => MessageState::Completed,
    }
}

fn state_number(state: MessageState) -> i16 {
    match state {
        MessageState::Pending => 0,
        MessageState::Processing => 1,
        MessageState::DeadLetter => 2,
        MessageState::Completed => 3,
    }
}
