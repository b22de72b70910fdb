//! Messages to instances that are stored in the transaction of another write.

use tokio_postgres::types::{Json, ToSql};
use wakeline_core::FlowChange;
use wakeline_store::StoreError;
use wakeline_store::flow::{EnqueueOutcome, Envelope};

use super::FlowCore;
use super::enqueue::{self, EnqueueResults};
use super::wire::{Blobs, MessageForm, TurnRequestForm};
use crate::connect::PgTransaction;

const OPERATION: &str = "enqueue in a transaction";

/// Messages with all names resolved.
pub(crate) struct Enqueue {
    messages: Vec<MessageForm>,
}

impl Enqueue {
    /// Returns whether there is nothing to store.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

impl FlowCore {
    /// Resolves the names of messages. Call it before the transaction begins.
    pub(crate) async fn enqueue_form(
        &self,
        envelopes: Vec<Envelope>,
    ) -> Result<Enqueue, StoreError> {
        Ok(Enqueue { messages: self.messages(envelopes).await? })
    }

    /// Stores messages in the transaction of another write. It takes the same locks as
    /// `flow_enqueue`.
    pub(crate) async fn enqueue_piggybacked(
        &self,
        transaction: &PgTransaction<'_>,
        enqueue: &Enqueue,
    ) -> Result<(Vec<EnqueueOutcome>, Vec<FlowChange>), StoreError> {
        let mut blobs = Blobs::default();
        let messages: Vec<_> =
            enqueue.messages.iter().map(|message| message.json(1, &mut blobs)).collect();
        let requests: Vec<TurnRequestForm> = Vec::new();
        let params: &[&(dyn ToSql + Sync)] =
            &[&1i32, &Json(&messages), &Json(&requests), blobs.param()];
        let rows = transaction.query(&self.sql.enqueue, params).await?;
        let written = EnqueueResults::read(OPERATION, &rows)?;
        let outcomes = written.codes.iter().map(|code| enqueue::outcome(code.unwrap_or(0)));
        let outcomes = outcomes.collect();
        Ok((outcomes, written.changes.into_iter().map(|(_, change)| change).collect()))
    }

    /// Notifies other nodes of messages that were committed with another write.
    pub(crate) fn notify(&self, changes: &[FlowChange]) {
        self.hints.notify(&self.shared, changes.iter().cloned());
    }
}
