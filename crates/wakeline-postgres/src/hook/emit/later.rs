//! Messages whose deliveries are created after they are stored.

use tokio_postgres::Row;
use wakeline_core::{HookChange, HookChangeKind};
use wakeline_store::StoreError;
use wakeline_store::hook::{EmitOutcome, EmitReply};

use super::EMIT;
use crate::hook::wire::{index, merge, small};
use crate::rows::Columns;

/// Records in the reply that the deliveries of a message are created later, as background work.
pub(super) fn note(row: &Row, replies: &mut [Option<EmitReply>]) -> Result<(), StoreError> {
    let mut columns = Columns::from(EMIT, row, 1);
    let command = index(columns.take()?);
    columns.skip(1);
    let at_least = small(columns.take()?);
    if let Some(EmitReply { outcome: EmitOutcome::Stored(_, deliveries), changes, .. }) =
        &mut replies[command]
    {
        *deliveries = at_least;
        merge(changes, HookChange::now(HookChangeKind::Background));
    }
    Ok(())
}
