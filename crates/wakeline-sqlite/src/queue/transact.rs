//! Transactions: writes to queues, workflows and webhooks, all or nothing.

use wakeline_store::{
    SettleReply, StoreError, TransactCommand, TransactOutcome, TransactReply, Transacted,
};

use super::{push, schedule, settle};
use crate::error::Res;
use crate::flow;
use crate::hook;
use crate::session::DbSession;

/// Approximate size of a transaction on disk, or `None` if it only settles or cancels.
pub(super) fn bytes(command: &TransactCommand) -> Option<usize> {
    let grows = !command.pushes.is_empty()
        || !command.schedules.is_empty()
        || !command.envelopes.is_empty()
        || !command.emits.is_empty();
    let scheduled: usize =
        command.schedules.iter().map(|item| push::item_bytes(&item.message)).sum();
    let sent = flow::bytes(&command.envelopes) + hook::bytes(&command.emits);
    grows.then(|| push::bytes(&command.pushes) + scheduled + sent)
}

/// Refuses invalid commands.
pub(super) fn check(command: &TransactCommand) -> Result<(), StoreError> {
    command.check()
}

/// Runs all parts of the transaction, or rolls all of them back.
pub(super) fn transact(s: &mut DbSession<'_>, command: &TransactCommand) -> Res<TransactReply> {
    push::admit(s, command.pushes.is_empty() && command.schedules.is_empty())?;
    let mut done = Transacted::default();
    let mut changes = Vec::new();
    push::prepare_partitions(s, &command.pushes)?;
    for item in &command.cancels {
        done.cancels.push(schedule::cancel(s, item)?);
    }
    for item in &command.schedules {
        let (outcome, change) = schedule::schedule(s, item)?;
        done.schedules.push(outcome);
        changes.extend(change);
    }
    s.hint(&changes);
    let pushed = push::store(s, &command.pushes, false)?;
    done.pushes = pushed.outcomes;
    changes.extend(pushed.changes);
    let SettleReply { outcomes, changes: settled } = settle::settle(s, &command.settles)?;
    done.settles = outcomes;
    changes.extend(settled);
    let enqueued = flow::enqueue(s, &command.envelopes, &[])?;
    done.envelopes = enqueued.outcomes;
    let (emits, hook_changes) = hook::emit_all(s, &command.emits)?;
    done.emits = emits;
    let outcome = TransactOutcome::judge(done);
    if let TransactOutcome::Refused(refusal) = outcome {
        s.undo = true;
        return Ok(TransactReply::refused(refusal));
    }
    Ok(TransactReply { outcome, changes, flow_changes: enqueued.changes, hook_changes })
}
