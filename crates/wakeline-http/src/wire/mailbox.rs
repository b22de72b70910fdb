//! Messages that wait for orchestrations on the wire.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_flow::Json;
use wakeline_flow::provider::MailboxItem;
use wakeline_store::flow::EarlyMailbox;

use crate::render;

/// An id under which messages wait and that was never started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EarlyMailboxAnswer {
    /// The id.
    instance: String,
    /// How many messages wait.
    messages: u64,
    /// When the first of them could be delivered: most often when it arrived.
    oldest_at: String,
}

impl From<EarlyMailbox> for EarlyMailboxAnswer {
    fn from(mailbox: EarlyMailbox) -> Self {
        Self {
            instance: mailbox.instance.to_string(),
            messages: mailbox.messages,
            oldest_at: render::time(mailbox.oldest_at),
        }
    }
}

/// A page of ids under which messages wait and that were never started, by id.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailboxesAnswer {
    /// The ids.
    pub(crate) mailboxes: Vec<EarlyMailboxAnswer>,
    /// Pass it as `cursor` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// A message that waits.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailboxItemAnswer {
    /// start, event, cancel, activity_done, child_done, timer, continue_as_new, close_children, or
    /// unknown if a newer release wrote it.
    kind: &'static str,
    /// Of a start the orchestration, of an event its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Of a start its input, of an event what it carries, of a cancellation the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    data: Option<Json>,
    /// When it can be delivered: most often when it arrived.
    visible_at: String,
}

impl From<MailboxItem> for MailboxItemAnswer {
    fn from(item: MailboxItem) -> Self {
        Self {
            kind: item.kind,
            name: item.name,
            data: item.data,
            visible_at: render::time(item.visible_at),
        }
    }
}

/// The messages that wait for an instance, or under an id that was never started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailboxAnswer {
    /// The id.
    pub(crate) instance: String,
    /// Its messages, in order.
    pub(crate) messages: Vec<MailboxItemAnswer>,
}
