//! Messages that are stored in the transaction of another write: of a turn, or of what users' own
//! transactions left behind.

use wakeline_core::HookChange;
use wakeline_store::StoreError;
use wakeline_store::hook::{EmitOutcome, EmitReply, NewMessage};

use super::{Asks, EMIT, Messages, Written, keys_of};
use crate::commands::apart;
use crate::connect::LinkTransaction;
use crate::hook::Core;
use crate::hook::wire::merge;

/// What became of messages that went along with another write.
#[derive(Default)]
pub(crate) struct EmittedAlong {
    /// One per message, in order.
    pub(crate) outcomes: Vec<EmitOutcome>,
    /// To be told once it is committed.
    pub(crate) changes: Vec<HookChange>,
}

impl Core {
    /// Stores messages in the transaction of another write. Locks as `hook_emit` does.
    pub(crate) async fn emit_along(
        &self,
        transaction: &LinkTransaction<'_>,
        messages: &[NewMessage],
    ) -> Result<EmittedAlong, StoreError> {
        let mut emitted = EmittedAlong::default();
        for reply in self.emit_each(transaction, messages.iter().collect()).await? {
            emitted.outcomes.push(reply.outcome);
            for change in reply.changes {
                merge(&mut emitted.changes, change);
            }
        }
        Ok(emitted)
    }

    /// The same, with an answer for each message.
    pub(in crate::hook) async fn emit_each(
        &self,
        transaction: &LinkTransaction<'_>,
        messages: Vec<&NewMessage>,
    ) -> Result<Vec<EmitReply>, StoreError> {
        let mut replies: Vec<Option<EmitReply>> = messages.iter().map(|_| None).collect();
        for (indexes, part) in apart(messages, |message| keys_of(message)) {
            let (arrays, asks) = (Messages::of(part.iter().copied()), Asks::default());
            let rows = transaction.query(&self.sql.emit, &arrays.params(&asks)).await?;
            let written = Written::read(&rows, &part, &asks)?;
            for (index, reply) in indexes.into_iter().zip(written.replies) {
                replies[index] = reply;
            }
        }
        let replies: Option<Vec<EmitReply>> = replies.into_iter().collect();
        replies.ok_or_else(|| StoreError::Fatal { operation: EMIT, source: "no answer".into() })
    }
}
