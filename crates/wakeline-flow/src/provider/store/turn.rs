//! Converts the ack of a turn into its commit, and commits it.

use std::sync::Arc;

use wakeline_core::{ApplicationRef, EventTypeName};
use wakeline_store::flow::{
    Envelope, NewInstance, NewWork, Pinned, TurnCommit, TurnOutcome, Visible, WorkKey,
};
use wakeline_store::hook::EmitOutcome;

use super::reserved::{turn_result, work_result};
use super::{StoreProviderInner, failed, token};
use crate::provider::envelope;
use crate::provider::item::{OrchestrationAck, ProviderError};

/// Converts the ack of a turn into a commit.
pub(super) fn commit_of(ack: OrchestrationAck) -> Result<TurnCommit, ProviderError> {
    let mut messages = Vec::with_capacity(ack.orchestrator_items.len());
    for (item, at) in &ack.orchestrator_items {
        messages.push(envelope::envelope(item, envelope::visible(*at))?);
    }
    let work: Result<_, _> = ack.worker_items.iter().map(envelope::work).collect();
    let key = |activity| WorkKey { execution: ack.execution, activity };
    Ok(TurnCommit {
        token: token(&ack.lock_token)?,
        execution: ack.execution,
        new_instance: ack.new_instance.map(|(name, parent)| NewInstance {
            name,
            parent: parent.map(|parent| (parent.instance, parent.event)),
        }),
        pinned: ack
            .pinned
            .map(|(capability, version)| Pinned { capability, version: Some(version) }),
        history: envelope::batch(&ack.history_delta)?,
        status: ack.status,
        kv: ack.kv,
        end: ack.end,
        work: work?,
        cancelled_work: ack.cancelled_activities.into_iter().map(key).collect(),
        messages,
        cancelled_messages: ack
            .cancelled_timers
            .into_iter()
            .map(|event| (ack.execution, event))
            .collect(),
        clear: ack.clear,
        pushes: ack.pushes,
        emits: ack.emits,
        turn_requests: Vec::new(),
        work_requests: Vec::new(),
    })
}

/// Commits a turn, serves reserved waiters, and publishes the changes.
pub(super) async fn commit(
    inner: Arc<StoreProviderInner>,
    mut commit: TurnCommit,
) -> Result<TurnOutcome, ProviderError> {
    let due_now = |message: &&Envelope| matches!(message.visible, Visible::Now);
    let turns = inner.reserve_turns(commit.messages.iter().filter(due_now).count());
    let work = inner.reserve_work(commit.work.iter().map(NewWork::route));
    commit.turn_requests.clone_from(&turns.requests);
    commit.work_requests.clone_from(&work.requests);
    let emits: Vec<_> = (commit.emits.iter())
        .map(|emit| (emit.application.clone(), emit.event_type.clone()))
        .collect();
    let reply = match inner.store.commit_turn(commit).await {
        Ok(reply) => reply,
        Err(error) => {
            // The outcome is unknown: the reserved waiters claim again, and find what was leased to
            // them.
            let (turns_held, work_held) = (turns.requests.len(), work.requests.len());
            drop((turns, work));
            if turns_held + work_held > 0 {
                inner.hub.everything();
            }
            return Err(failed("ack", error));
        }
    };
    turns.serve(reply.turns, turn_result);
    work.serve(reply.work, work_result);
    inner.hint(reply.changes);
    if let Some(notify) = &inner.queue_hints
        && !reply.queue_changes.is_empty()
    {
        notify(&reply.queue_changes);
    }
    if let Some(notify) = &inner.hook_hints
        && !reply.hook_changes.is_empty()
    {
        notify(&reply.hook_changes);
    }
    if let TurnOutcome::Committed { emits: outcomes, .. } = &reply.outcome {
        for ((application, event_type), outcome) in emits.iter().zip(outcomes) {
            note_emit(application, event_type, outcome);
        }
    }
    Ok(reply.outcome)
}

/// Counts a webhook message by its outcome, and logs one that could not be sent.
fn note_emit(application: &ApplicationRef, event_type: &EventTypeName, outcome: &EmitOutcome) {
    let word = match outcome {
        EmitOutcome::Stored(..) => "stored",
        EmitOutcome::Repeated(_) | EmitOutcome::Taken(_) => "repeated",
        EmitOutcome::KeyReused => "refused",
        EmitOutcome::NoApplication => {
            tracing::warn!(
                %application, %event_type,
                "a turn emitted a message to an unknown application"
            );
            "no_application"
        }
        EmitOutcome::Refused(reason) => {
            tracing::warn!(%application, %event_type, reason, "a turn emitted an invalid message");
            "invalid"
        }
    };
    metrics::counter!("wakeline_flow_emits_total", "outcome" => word).increment(1);
}
