//! Messages that are stored in the transaction of another write: of a turn, or of what users' own
//! transactions left behind.

use std::collections::HashMap;

use bytes::Bytes;
use wakeline_core::{EventTypeName, HookChange};
use wakeline_store::StoreError;
use wakeline_store::hook::{EmitOutcome, EmitReply, EventSchema, NewMessage};

use super::{Asks, EMIT, Messages, Written, keys_of};
use crate::commands::apart;
use crate::connect::LinkTransaction;
use crate::error;
use crate::hook::Core;
use crate::hook::wire::merge;
use crate::rows::Columns;

/// What became of messages that went along with another write.
#[derive(Default)]
pub(crate) struct EmittedAlong {
    /// One per message, in order.
    pub(crate) outcomes: Vec<EmitOutcome>,
    /// To be told once it is committed.
    pub(crate) changes: Vec<HookChange>,
}

impl Core {
    /// Stores messages in the transaction of another write, except those that do not fit their
    /// event types. Locks as `hook_emit` does.
    pub(crate) async fn emit_along(
        &self,
        transaction: &LinkTransaction<'_>,
        messages: &[NewMessage],
    ) -> Result<EmittedAlong, StoreError> {
        let mut emitted = EmittedAlong::default();
        if messages.is_empty() {
            return Ok(emitted);
        }
        let refusals = self.refusals(transaction, messages).await?;
        let fit = messages.iter().zip(&refusals).filter(|(_, refusal)| refusal.is_none());
        let fit = fit.map(|(message, _)| message).collect();
        let mut replies = self.emit_each(transaction, fit).await?.into_iter();
        for refusal in refusals {
            let Some(reply) = refusal.map_or_else(|| replies.next(), |why| Some(refused(why)))
            else {
                continue;
            };
            emitted.outcomes.push(reply.outcome);
            for change in reply.changes {
                merge(&mut emitted.changes, change);
            }
        }
        Ok(emitted)
    }

    /// By message, why it does not fit its event type.
    async fn refusals(
        &self,
        transaction: &LinkTransaction<'_>,
        messages: &[NewMessage],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let mut names: Vec<&str> =
            messages.iter().map(|message| message.event_type.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut enforced: HashMap<String, Vec<u8>> = HashMap::new();
        for row in &transaction.query(&self.sql.enforced, &[&names]).await? {
            let mut columns = Columns::new(EMIT, row);
            enforced.insert(columns.take()?, columns.take()?);
        }
        if enforced.is_empty() {
            return Ok(messages.iter().map(|_| None).collect());
        }
        let checks: Vec<_> = (messages.iter())
            .map(|one| {
                let schemas = enforced.get(one.event_type.as_str()).cloned()?;
                Some((one.event_type.clone(), schemas, one.payload.clone()))
            })
            .collect();
        let refusal = |(name, schemas, payload): (EventTypeName, Vec<u8>, Bytes)| {
            EventSchema::refusal(&name, &schemas, &payload)
        };
        let check = move || checks.into_iter().map(|check| check.and_then(refusal)).collect();
        // Off the async threads: a large schema and payload take a while.
        let checked = tokio::task::spawn_blocking(check).await;
        checked.map_err(|error| StoreError::Fatal { operation: EMIT, source: error.into() })
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
        replies.ok_or_else(|| error::no_result(EMIT))
    }
}

fn refused(reason: String) -> EmitReply {
    EmitReply { outcome: EmitOutcome::Refused(reason), leased: Vec::new(), changes: Vec::new() }
}
