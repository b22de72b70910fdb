//! Messages that wait in lanes, also in those of instances that were never started.

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{InstanceId, Timestamp};

use crate::error::StoreError;

/// Messages wait under an id that was never started: they will be delivered with its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyMailbox {
    /// The id.
    pub instance: InstanceId,
    /// How many messages wait.
    pub messages: u64,
    /// When the first of them could be delivered: most often when it arrived.
    pub oldest_at: Timestamp,
}

/// Which mailboxes of ids that were never started to list. By default the first 100.
#[derive(Debug, Clone)]
pub struct ListMailboxes {
    /// Only those whose id begins with this.
    pub id_prefix: Option<String>,
    /// Only those behind this id: the last one of the page before.
    pub after: Option<InstanceId>,
    /// At most so many.
    pub limit: u32,
}

impl Default for ListMailboxes {
    fn default() -> Self {
        Self { id_prefix: None, after: None, limit: 100 }
    }
}

/// A message that waits in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMessage {
    /// Its place in the lane.
    pub seq: i64,
    /// When it can be delivered.
    pub visible_at: Timestamp,
    /// What the runtime put in.
    pub payload: Bytes,
}

/// Reads of messages that wait.
#[async_trait]
pub trait MailboxReader: Send + Sync {
    /// Ids under which messages wait and that were never started, in their order.
    async fn early_mailboxes(&self, list: ListMailboxes) -> Result<Vec<EarlyMailbox>, StoreError>;

    /// Messages in the lane of an id, in order of arrival, at most so many: of one that was never
    /// started, and of any instance.
    async fn waiting_messages(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<WaitingMessage>, StoreError>;
}
