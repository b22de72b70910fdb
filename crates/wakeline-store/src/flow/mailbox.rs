//! Messages that wait in mailboxes, including those of instances that were never started.

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{InstanceId, Timestamp};

use crate::error::StoreError;

/// A mailbox with messages for an instance that was never started. They are delivered once it
/// starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyMailbox {
    /// The id under which the messages wait.
    pub instance: InstanceId,
    /// The number of waiting messages.
    pub messages: u64,
    /// When the first of them became deliverable, usually its time of arrival.
    pub oldest_at: Timestamp,
}

/// Selects mailboxes of instances that were never started; by default the first 100.
#[derive(Debug, Clone)]
pub struct ListMailboxes {
    /// Only mailboxes whose id begins with this prefix.
    pub id_prefix: Option<String>,
    /// Only mailboxes after this id, the last one of the previous page.
    pub after: Option<InstanceId>,
    /// The maximum number of mailboxes to return.
    pub limit: u32,
}

impl Default for ListMailboxes {
    fn default() -> Self {
        Self { id_prefix: None, after: None, limit: 100 }
    }
}

/// A message that waits in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMessage {
    /// The message's sequence number within its mailbox.
    pub seq: i64,
    /// When the message can be delivered.
    pub visible_at: Timestamp,
    /// The message as encoded by the runtime.
    pub payload: Bytes,
}

/// Reads messages that wait in mailboxes.
#[async_trait]
pub trait MailboxReader: Send + Sync {
    /// Ids of instances that were never started and for which messages wait, in order of the ids.
    async fn early_mailboxes(&self, list: ListMailboxes) -> Result<Vec<EarlyMailbox>, StoreError>;

    /// Up to `limit` messages in the mailbox of an id, in order of arrival. Works for any instance
    /// and for ids that were never started.
    async fn waiting_messages(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<WaitingMessage>, StoreError>;
}
