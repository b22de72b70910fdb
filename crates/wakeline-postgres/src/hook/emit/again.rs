//! What is said of an emit's first try, if that was carried out but its answer was lost.

use wakeline_core::{EndpointId, HookChange, HookWhat};
use wakeline_store::hook::{EmitOutcome, EmitReply, NewMessage};

use super::{EMIT, Written};
use crate::connect::Params;
use crate::hook::Core;
use crate::rows::Columns;

impl Core {
    /// Adds what the first try of a call would have said of the messages that it stored.
    pub(super) async fn tell_of_first_try(&self, sent: &[&NewMessage], written: &mut Written) {
        for (message, reply) in sent.iter().zip(&mut written.replies) {
            let Some(EmitReply { outcome: EmitOutcome::Repeated(same), changes, .. }) = reply
            else {
                continue;
            };
            if same.id != message.id {
                continue;
            }
            changes.push(HookChange::now(HookWhat::Push));
            // Its fan-out may wait.
            changes.push(HookChange::now(HookWhat::Chores));
            let params: Params<'_> = &[&same.application.0, &same.id.0];
            // The message is stored either way; a sweep finds what is not told.
            let pulled = self.general(EMIT, &self.sql.pulled, params).await.unwrap_or_default();
            for endpoint in pulled.iter().filter_map(|row| Columns::new(EMIT, row).take().ok()) {
                changes.push(HookChange::now(HookWhat::Pull(EndpointId(endpoint))));
            }
        }
    }
}
