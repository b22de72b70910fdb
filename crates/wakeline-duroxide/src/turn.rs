//! Fetches turns, and converts them to duroxide's orchestration items.

use std::collections::HashMap;
use std::time::Duration;

use duroxide::providers::{
    DispatcherCapabilityFilter, KvEntry, OrchestrationItem, ProviderError, WorkItem,
};
use duroxide::{Event, EventKind, INITIAL_EXECUTION_ID};
use tokio::time::Instant;
use uuid::Uuid;
use wakeline_core::Capabilities;
use wakeline_store::flow::{ExecutionEnd, InlineHistory, TurnCommit, TurnItem, TurnRequest};

use crate::envelope;
use crate::error::{of_flow, permanent};
use crate::names;
use crate::provider::DuroxideProvider;
use crate::token::TurnToken;
use crate::versions::exceeds_known;

const OP: &str = "fetch_orchestration_item";

/// The delay of messages that were fetched although no message has started their instance.
const UNSTARTED_DELAY: Duration = Duration::from_secs(5);

/// An item, its lock token and the number of its attempt.
pub(crate) type Fetched = (OrchestrationItem, String, u32);

impl<S> DuroxideProvider<S> {
    /// Leases the turn of an instance that the filter allows.
    pub(crate) async fn fetch_turn(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<Fetched>, ProviderError> {
        if exceeds_known(filter) {
            self.looked_up.get_or_try_init(|| self.look_up_versions(OP)).await?;
        }
        let deadline = Instant::now() + poll_timeout;
        let mut news = self.versions.news();
        loop {
            news.mark_unchanged();
            let Some(capabilities) = self.versions.allowed(filter) else { return Ok(None) };
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = Some(left).filter(|left| !left.is_zero());
            let filtered = capabilities != Capabilities::Any;
            let request = TurnRequest { key: Uuid::now_v7(), lease: lock_timeout, capabilities };
            let turn = tokio::select! {
                biased;
                turn = self.inner.take_turn(request, patience) => turn.map_err(of_flow(OP))?,
                Ok(()) = news.changed(), if filtered && patience.is_some() => continue,
            };
            let Some(turn) = turn else { return Ok(None) };
            if let Some(fetched) = self.fetched(turn).await? {
                return Ok(Some(fetched));
            }
        }
    }

    /// Converts a leased turn; `None` if there is no instance and the messages were disposed of.
    async fn fetched(&self, turn: TurnItem) -> Result<Option<Fetched>, ProviderError> {
        let messages = decode_messages(&turn);
        let started = messages.as_ref().ok().and_then(|messages| start(messages));
        if turn.execution == 0
            && started.is_none()
            && let Ok(messages) = &messages
        {
            self.dispose(&turn, messages).await?;
            return Ok(None);
        }
        let token = TurnToken::of(&turn, started.map(|(name, _)| name.to_owned())).to_string();
        let attempt = turn.attempt;
        let history = self.turn_history(&turn).await?;
        let version = match &history {
            Ok(events) => started_version(events),
            Err(_) => None,
        };
        let version = match (version, started) {
            (Some(version), _) => Some(version),
            (None, Some((_, version))) if turn.execution == 0 => version.map(str::to_owned),
            _ => self.version_of(OP, &turn.instance).await?,
        };
        let name = turn.name.as_ref().map(|name| names::unescape(name.as_str()));
        let name = name.or_else(|| started.map(|(name, _)| name.to_owned()));
        let kv_snapshot = snapshot(&turn);
        let error = [history.as_ref().err(), messages.as_ref().err(), kv_snapshot.as_ref().err()];
        let history_error = error.into_iter().flatten().next().cloned();
        let corrupt = history_error.is_some();
        let item = OrchestrationItem {
            instance: names::unescape(turn.instance.as_str()),
            orchestration_name: name.unwrap_or_else(|| "Unknown".to_owned()),
            execution_id: turn.execution.max(INITIAL_EXECUTION_ID),
            version: version.unwrap_or_else(|| "unknown".to_owned()),
            history: history.ok().filter(|_| !corrupt).unwrap_or_default(),
            messages: messages.unwrap_or_default(),
            history_error,
            kv_snapshot: kv_snapshot.ok().filter(|_| !corrupt).unwrap_or_default(),
        };
        Ok(Some((item, token, attempt)))
    }

    /// Handles messages to an instance that does not exist. Queue messages are dropped; others wait
    /// for a start.
    async fn dispose(&self, turn: &TurnItem, messages: &[WorkItem]) -> Result<(), ProviderError> {
        if !messages.iter().all(|message| matches!(message, WorkItem::QueueMessage { .. })) {
            let abandoned = self.inner.give_back(turn.token, UNSTARTED_DELAY, true).await;
            return abandoned.map_err(of_flow(OP));
        }
        let (instance, dropped) = (&turn.instance, messages.len());
        tracing::warn!(
            %instance, dropped,
            "dropped queue messages to an instance that does not exist"
        );
        // If the lease was lost meanwhile, the next fetch gets the messages.
        self.inner.commit_turn(nothing(turn)).await.map(drop).map_err(of_flow(OP))
    }

    /// Returns the events of a turn's execution, or the reason why they cannot be decoded.
    async fn turn_history(
        &self,
        turn: &TurnItem,
    ) -> Result<Result<Vec<Event>, String>, ProviderError> {
        let decoded = match &turn.history {
            InlineHistory::Complete(batches) => envelope::events(batches),
            InlineHistory::TooLong => {
                let batches = self.batches(OP, &turn.instance, Some(turn.execution)).await;
                match batches {
                    Ok(batches) => envelope::events(&batches),
                    Err(error) => {
                        // The attempt is not counted, because it is not the fault of the instance.
                        let _ = self.inner.give_back(turn.token, Duration::ZERO, true).await;
                        return Err(error);
                    }
                }
            }
        };
        Ok(decoded.map_err(|error| format!("the history cannot be decoded: {error}")))
    }
}

fn decode_messages(turn: &TurnItem) -> Result<Vec<WorkItem>, String> {
    let decoded = turn.messages.iter().map(|message| serde_json::from_slice(&message.payload));
    decoded
        .collect::<Result<_, _>>()
        .map_err(|error| format!("a message cannot be decoded: {error}"))
}

/// Returns the name and version in the first message that starts an execution.
fn start(messages: &[WorkItem]) -> Option<(&str, Option<&str>)> {
    messages.iter().find_map(|message| match message {
        WorkItem::StartOrchestration { orchestration, version, .. }
        | WorkItem::ContinueAsNew { orchestration, version, .. } => {
            Some((orchestration.as_str(), version.as_deref()))
        }
        _ => None,
    })
}

fn started_version(events: &[Event]) -> Option<String> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { version, .. } => Some(version.clone()),
        _ => None,
    })
}

fn snapshot(turn: &TurnItem) -> Result<HashMap<String, KvEntry>, String> {
    let entries = turn.kv.iter().cloned().map(|entry| envelope::kv_entry(OP, entry));
    entries.collect::<Result<_, _>>().map_err(|error| permanent(OP, error).message)
}

/// Creates the commit of a turn that only removes its messages.
fn nothing(turn: &TurnItem) -> TurnCommit {
    TurnCommit {
        token: turn.token,
        execution: turn.execution,
        new_instance: None,
        pinned: None,
        history: None,
        status: Vec::new(),
        kv: Vec::new(),
        end: ExecutionEnd::Open,
        work: Vec::new(),
        cancelled_work: Vec::new(),
        messages: Vec::new(),
        cancelled_messages: Vec::new(),
        clear: false,
        pushes: Vec::new(),
        emits: Vec::new(),
        turn_requests: Vec::new(),
        work_requests: Vec::new(),
    }
}
