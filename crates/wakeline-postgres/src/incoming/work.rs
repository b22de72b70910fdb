//! Decodes rows of the table `incoming` into the writes that they request.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use tokio_postgres::Row;
use wakeline_core::{
    ApplicationRef, Channel, EventId, EventTypeName, HookMessageId, MESSAGE_RETENTION_DEFAULT,
    MessageId, NameError, PartitionName, QueueName, TransactionId, check_json_depth,
    lane_partition,
};
use wakeline_store::PushItem;
use wakeline_store::flow::Visible;
use wakeline_store::hook::NewMessage;

use crate::rows;

/// A message for a queue, with the number of its row.
pub(super) struct IncomingItem {
    pub(super) seq: i64,
    pub(super) item: PushItem,
    /// The time when it becomes available; `None` for a normal push.
    pub(super) due: Option<Visible>,
}

/// The writes that some rows request.
#[derive(Default)]
pub(super) struct IncomingWork {
    pub(super) items: Vec<IncomingItem>,
    /// The queues with length limits, with the partitions of their items.
    pub(super) limited: BTreeMap<QueueName, Vec<PartitionName>>,
    pub(super) messages: Vec<NewMessage>,
    /// The numbers of the rows of `messages`.
    pub(super) emitted: Vec<i64>,
    /// The numbers of the rows that can be deleted.
    pub(super) done: Vec<i64>,
}

impl IncomingWork {
    /// Adds a row. The error says why the row can never be taken over.
    pub(super) fn add(&mut self, seq: i64, row: &Row) -> Result<(), String> {
        match row.get::<_, Option<&str>>("application") {
            None => {
                let item = item(row).map_err(|error| error.to_string())?;
                check_json_depth(&item.payload).map_err(|error| error.to_string())?;
                let due: Option<SystemTime> = row.get("deliver_at");
                let due = due.map(|at| Visible::At(rows::timestamp(at)));
                if row.get("limited") {
                    let partitions = self.limited.entry(item.queue.clone()).or_default();
                    partitions.push(item.partition.clone());
                }
                self.items.push(IncomingItem { seq, item, due });
            }
            Some(application) => {
                let message = message(application, row)?;
                check_json_depth(&message.payload).map_err(|error| error.to_string())?;
                self.messages.push(message);
                self.emitted.push(seq);
            }
        }
        Ok(())
    }
}

fn item(row: &Row) -> Result<PushItem, NameError> {
    let transaction_id = TransactionId::new(row.get::<_, &str>("transaction_id"))?;
    let partition = PartitionName::new(row.get::<_, &str>("partition"))?;
    let lanes = u32::try_from(row.get::<_, i64>("lanes")).unwrap_or(0);
    let laned = lanes > 0 && partition == PartitionName::default_partition();
    Ok(PushItem {
        queue: QueueName::new(row.get::<_, &str>("queue"))?,
        partition: if laned { lane_partition(&transaction_id, lanes) } else { partition },
        id: MessageId::generate(),
        transaction_id,
        trace_id: None,
        payload: Bytes::from(row.get::<_, String>("payload")),
        producer: None,
    })
}

fn message(application: &str, row: &Row) -> Result<NewMessage, String> {
    let channels: Option<Vec<Option<&str>>> = row.get("channels");
    let channels = channels.unwrap_or_default().into_iter();
    let channels = channels.map(|name| Channel::new(name.unwrap_or_default()));
    let event_id: Option<&str> = row.get("event_id");
    Ok(NewMessage {
        id: HookMessageId(row.get("message_id")),
        application: ApplicationRef::parse(application).map_err(|error| error.to_string())?,
        create_application: None,
        event_type: EventTypeName::new(row.get::<_, &str>("event_type"))
            .map_err(|error| error.to_string())?,
        event_id: event_id.map(EventId::parse).transpose().map_err(|error| error.to_string())?,
        channels: channels.collect::<Result<_, _>>().map_err(|error| error.to_string())?,
        payload: Bytes::from(row.get::<_, String>("payload")),
        retention: MESSAGE_RETENTION_DEFAULT,
        only: None,
        idempotency: None,
    })
}
