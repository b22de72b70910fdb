//! From a turn's ack to its commit.

use std::sync::Arc;

use wakeline_core::{ApplicationRef, EventTypeName};
use wakeline_store::flow::{
    Envelope, InstanceBirth, NewWork, Pinned, TurnCommit, TurnOutcome, Visible, WorkKey,
};
use wakeline_store::hook::EmitOutcome;

use super::reserved::{turn_grant, work_grant};
use super::{Inner, failed, token};
use crate::provider::envelope;
use crate::provider::item::{OrchestrationAck, ProviderError};

/// The commit of a turn.
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
        birth: ack.birth.map(|(name, parent)| InstanceBirth {
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

pub(super) async fn commit(
    inner: Arc<Inner>,
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
            // Unknown outcome: those set aside claim again, and find what was leased to them.
            let (turns_held, work_held) = (turns.requests.len(), work.requests.len());
            drop((turns, work));
            if turns_held + work_held > 0 {
                inner.hub.everything();
            }
            return Err(failed("ack", error));
        }
    };
    turns.serve(reply.turns, turn_grant);
    work.serve(reply.work, work_grant);
    inner.hint(reply.changes);
    if let Some(tell) = &inner.queue_hints
        && !reply.queue_changes.is_empty()
    {
        tell(&reply.queue_changes);
    }
    if let Some(tell) = &inner.hook_hints
        && !reply.hook_changes.is_empty()
    {
        tell(&reply.hook_changes);
    }
    if let TurnOutcome::Committed { emits: outcomes, .. } = &reply.outcome {
        emits.iter().zip(outcomes).for_each(|(emit, outcome)| note_emit(emit, outcome));
    }
    Ok(reply.outcome)
}

/// Counts messages to endpoints by what became of them, and says which had nowhere to go.
fn note_emit((application, event_type): &(ApplicationRef, EventTypeName), outcome: &EmitOutcome) {
    let word = match outcome {
        EmitOutcome::Stored(..) => "stored",
        EmitOutcome::Repeated(_) | EmitOutcome::Taken(_) => "repeated",
        EmitOutcome::KeyReused => "refused",
        EmitOutcome::NoApplication => {
            tracing::warn!(%application, %event_type, "a turn emits to an unknown application");
            "no_application"
        }
        EmitOutcome::Refused(reason) => {
            tracing::warn!(%application, %event_type, reason, "a turn emits what does not fit");
            "invalid"
        }
    };
    metrics::counter!("wakeline_flow_emits_total", "outcome" => word).increment(1);
}
