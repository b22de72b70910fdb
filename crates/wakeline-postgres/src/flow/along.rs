//! Messages to instances in the transaction of another write.

use tokio_postgres::types::{Json, ToSql};
use wakeline_core::FlowChange;
use wakeline_store::StoreError;
use wakeline_store::flow::{EnqueueOutcome, Envelope};

use super::Core;
use super::enqueue::{self, Written};
use super::wire::{Blobs, MessageForm, TurnRequestForm};
use crate::connect::LinkTransaction;

const OPERATION: &str = "enqueue in a transaction";

/// Messages with all names resolved.
pub(crate) struct Enqueue {
    messages: Vec<MessageForm>,
}

impl Enqueue {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

impl Core {
    /// Resolves names, which must not happen within the transaction.
    pub(crate) async fn enqueue_form(
        &self,
        envelopes: Vec<Envelope>,
    ) -> Result<Enqueue, StoreError> {
        Ok(Enqueue { messages: self.messages(envelopes).await? })
    }

    /// Puts messages into lanes in the transaction of another write. Locks as `flow_enqueue` does.
    pub(crate) async fn enqueue_along(
        &self,
        transaction: &LinkTransaction<'_>,
        enqueue: &Enqueue,
    ) -> Result<(Vec<EnqueueOutcome>, Vec<FlowChange>), StoreError> {
        let mut blobs = Blobs::default();
        let messages: Vec<_> =
            enqueue.messages.iter().map(|message| message.json(1, &mut blobs)).collect();
        let requests: Vec<TurnRequestForm> = Vec::new();
        let params: &[&(dyn ToSql + Sync)] =
            &[&1i32, &Json(&messages), &Json(&requests), blobs.param()];
        let rows = transaction.query(&self.sql.enqueue, params).await?;
        let written = Written::read(OPERATION, &rows)?;
        let outcomes = written.codes.iter().map(|code| enqueue::outcome(code.unwrap_or(0)));
        let outcomes = outcomes.collect();
        Ok((outcomes, written.changes.into_iter().map(|(_, change)| change).collect()))
    }

    /// Tells other nodes what was committed along with another write.
    pub(crate) fn tell(&self, changes: &[FlowChange]) {
        self.hints.tell(&self.shared, changes.iter().cloned());
    }
}
