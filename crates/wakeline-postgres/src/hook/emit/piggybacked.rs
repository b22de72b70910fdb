//! Messages that are stored in the transaction of another write: of a turn, of a transaction of the
//! queue, or of the takeover of rows that users' own transactions have inserted into `incoming`.

use std::collections::HashMap;

use bytes::Bytes;
use wakeline_core::{EventTypeName, HookChange};
use wakeline_store::StoreError;
use wakeline_store::hook::{EmitOutcome, EmitReply, EventSchema, NewMessage};

use super::{EMIT, EmitArrays, EmitResults, RequestArrays, keys_of};
use crate::commands::apart;
use crate::connect::PgTransaction;
use crate::error;
use crate::hook::HookCore;
use crate::hook::wire::merge;
use crate::rows::Columns;

/// The results of messages that were stored with another write.
#[derive(Default)]
pub(crate) struct PiggybackedEmits {
    /// One outcome per message, in order.
    pub(crate) outcomes: Vec<EmitOutcome>,
    /// The changes to be published after the commit.
    pub(crate) changes: Vec<HookChange>,
}

impl HookCore {
    /// Stores messages in the transaction of another write, except those that do not match the
    /// schemas of their event types. It takes the same locks as `hook_emit`.
    pub(crate) async fn emit_piggybacked(
        &self,
        transaction: &PgTransaction<'_>,
        messages: &[NewMessage],
    ) -> Result<PiggybackedEmits, StoreError> {
        let mut emitted = PiggybackedEmits::default();
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

    /// Returns for each message why it does not match the schemas of its event type, if so.
    async fn refusals(
        &self,
        transaction: &PgTransaction<'_>,
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
        // Run on a blocking thread, because a large schema and payload take a while.
        let checked = tokio::task::spawn_blocking(check).await;
        checked.map_err(|error| StoreError::Fatal { operation: EMIT, source: error.into() })
    }

    /// Stores messages without checking schemas, and returns a reply for each message.
    pub(in crate::hook) async fn emit_each(
        &self,
        transaction: &PgTransaction<'_>,
        messages: Vec<&NewMessage>,
    ) -> Result<Vec<EmitReply>, StoreError> {
        let mut replies: Vec<Option<EmitReply>> = messages.iter().map(|_| None).collect();
        for (indexes, part) in apart(messages, |message| keys_of(message)) {
            let (arrays, requests) =
                (EmitArrays::of(part.iter().copied()), RequestArrays::default());
            let rows = transaction.query(&self.sql.emit, &arrays.params(&requests)).await?;
            let written = EmitResults::read(&rows, &part, &requests)?;
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
