//! Wire types of messages that wait for orchestrations.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_flow::Json;
use wakeline_flow::provider::MailboxItem;
use wakeline_store::flow::EarlyMailbox;

use crate::render;

/// The mailbox of an instance that has messages waiting but was never started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EarlyMailboxAnswer {
    /// The id of the instance.
    instance: String,
    /// The number of waiting messages.
    messages: u64,
    /// When the oldest message became deliverable, which is usually when it arrived.
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

/// A page of mailboxes of instances that were never started, ordered by id.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailboxesAnswer {
    /// The mailboxes.
    pub(crate) mailboxes: Vec<EarlyMailboxAnswer>,
    /// The `cursor` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// A message that waits for an instance.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailboxItemAnswer {
    /// `start`, `event`, `cancel`, `activity_done`, `child_done`, `timer`, `continue_as_new`,
    /// `close_children`, or `unknown` if a newer release wrote the message.
    kind: &'static str,
    /// The name of the orchestration to start, or of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The input of a start, the data of an event, or the reason of a cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    data: Option<Json>,
    /// When the message becomes deliverable, which is usually when it arrived.
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

/// The messages that wait for an instance, which may not be started yet.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailboxAnswer {
    /// The id of the instance.
    pub(crate) instance: String,
    /// The messages in order.
    pub(crate) messages: Vec<MailboxItemAnswer>,
}
