//! The changes of an emit whose first attempt was executed, but whose answer was lost.

use wakeline_core::{EndpointId, HookChange, HookChangeKind};
use wakeline_store::hook::{EmitOutcome, EmitReply, NewMessage};

use super::{EMIT, EmitResults};
use crate::connect::Params;
use crate::hook::HookCore;
use crate::rows::Columns;

impl HookCore {
    /// Adds the changes that the first attempt of a call would have returned for the messages that
    /// it stored.
    pub(super) async fn add_changes_of_first_attempt(
        &self,
        sent: &[&NewMessage],
        written: &mut EmitResults,
    ) {
        for (message, reply) in sent.iter().zip(&mut written.replies) {
            let Some(EmitReply { outcome: EmitOutcome::Repeated(same), changes, .. }) = reply
            else {
                continue;
            };
            if same.id != message.id {
                continue;
            }
            changes.push(HookChange::now(HookChangeKind::Push));
            // Its fan-out may be pending.
            changes.push(HookChange::now(HookChangeKind::Background));
            let params: Params<'_> = &[&same.application.0, &same.id.0];
            // The message is stored in any case. If this query fails, the sweeps of the pull
            // endpoints find their deliveries.
            let pulled = self.general(EMIT, &self.sql.pulled, params).await.unwrap_or_default();
            for endpoint in pulled.iter().filter_map(|row| Columns::new(EMIT, row).take().ok()) {
                changes.push(HookChange::now(HookChangeKind::Pull(EndpointId(endpoint))));
            }
        }
    }
}
