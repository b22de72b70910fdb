//! Runs one turn of an instance, from the fetched messages to the commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wakeline_core::{InstanceId, error_chain};
use wakeline_store::flow::{InstanceState, Suspension};

use super::RuntimeShared;
use super::ack;
use super::commit::commit;
use super::incoming::{Beginning, Incoming};
use super::renewal::TurnRenewal;
use super::slots::RunSlot;
use super::sticky::{Stamp, Sticky};
use super::uncommitted::Uncommitted;
use super::unregistered;
use crate::closing::close_children;
use crate::engine::{Execution, ExecutionSetup, ExecutionStart};
use crate::error::{FailureKind, FlowError};
use crate::event::{Event, EventKind};
use crate::provider::{ItemHistory, OrchestrationAck, OrchestrationItem, ProviderError};

/// How long an instance that this process cannot run waits before it can be fetched again.
const LATER: Duration = Duration::from_secs(5);

/// The delay if this process has only older code than the previous execution ran, as happens during
/// a deployment.
const NEWER: Duration = Duration::from_millis(500);
/// How long messages wait that arrived before the one that begins their execution.
const EARLY: Duration = Duration::from_secs(1);

/// Runs turns.
pub(super) struct TurnRunner {
    shared: Arc<RuntimeShared>,
    sticky: Sticky,
    uncommitted: Uncommitted,
}

/// The error of an instance that is given up.
const POISONED: &str = "the instance was given up: every attempt to run its turn ended without a \
                        commit, because the process crashed, hung or lost its lease; see the \
                        logs of the processes that run it";

/// What is done with a turn.
enum TurnPlan {
    /// Commit the turn, and keep the execution in memory.
    Commit(Box<OrchestrationAck>, Option<Execution>),
    /// Suspend the instance, because the code does not match its history.
    Suspend(String),
    /// Give back a turn of an instance that has ended and therefore cannot be suspended; a process
    /// with a newer release takes it.
    Leave(String),
    /// Give the turn back for later, because this process cannot run it.
    Later(Duration),
    /// Give the turn back, because the message that begins the execution is not yet visible.
    Early,
}

/// Whether an execution is ready for its messages.
enum ReadyExecution {
    Yes(Box<Execution>),
    No(TurnPlan),
}

impl TurnRunner {
    pub(super) fn new(shared: Arc<RuntimeShared>, sticky: Sticky) -> Self {
        Self { shared, sticky, uncommitted: Uncommitted::default() }
    }

    /// Runs a turn, and commits it or gives it back.
    pub(super) async fn run(&self, item: OrchestrationItem, slot: RunSlot<'_>) {
        let renewal = TurnRenewal::start(&self.shared, &item.lock_token);
        let (instance, token, life) = (item.instance.clone(), item.lock_token.clone(), item.life);
        let planned = self.plan(item).await;
        // Other turns run while this one is committed: commits of many turns share a transaction.
        drop(slot);
        let ended = match planned {
            Ok(TurnPlan::Commit(ack, execution)) => {
                match commit(&self.shared, &self.uncommitted, *ack, life).await {
                    Err(error @ ProviderError::Permanent { .. }) => {
                        let reason = format!(
                            "the turn cannot be committed: {}; fix the cause and resume the \
                             instance",
                            error_chain(&error)
                        );
                        self.suspend(&instance, &token, reason).await
                    }
                    // The attempt is not counted, because it is not the fault of the instance.
                    Err(error @ ProviderError::Retryable { .. }) => {
                        let provider = &self.shared.provider;
                        let abandoned =
                            provider.abandon_orchestration_item(&token, None, true).await;
                        abandoned.and(Err(error))
                    }
                    Ok(()) => {
                        self.keep(&instance, life, execution);
                        Ok(())
                    }
                    lost => lost,
                }
            }
            Ok(TurnPlan::Suspend(reason)) => self.suspend(&instance, &token, reason).await,
            Ok(TurnPlan::Leave(reason)) => {
                tracing::warn!(
                    %instance, reason,
                    "this process cannot run a turn of an ended instance: another one must run it"
                );
                self.shared.provider.abandon_orchestration_item(&token, Some(LATER), true).await
            }
            Ok(TurnPlan::Later(delay)) => {
                tracing::warn!(
                    %instance,
                    "this process has no code for an instance: another process must run it"
                );
                self.shared.provider.abandon_orchestration_item(&token, Some(delay), true).await
            }
            Ok(TurnPlan::Early) => {
                self.shared.provider.abandon_orchestration_item(&token, Some(EARLY), true).await
            }
            Err(error) => Err(error),
        };
        drop(renewal);
        match ended {
            Ok(()) => {}
            Err(ProviderError::LockLost) => {
                tracing::debug!(%instance, "a turn lost its lease; will try again");
            }
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(%instance, error, "a turn failed; will try again");
            }
        }
    }

    fn keep(&self, instance: &InstanceId, life: i64, execution: Option<Execution>) {
        if let Some(execution) = execution.filter(|execution| !execution.has_ended()) {
            let stamp = Stamp {
                life,
                execution: execution.execution(),
                last_event: execution.last_event(),
            };
            self.sticky.put(instance.clone(), stamp, execution);
        }
    }

    async fn suspend(
        &self,
        instance: &InstanceId,
        token: &str,
        reason: String,
    ) -> Result<(), ProviderError> {
        let reason = ack::printable(reason);
        // The whole text is stored with the instance; it is not logged, because the instance may be
        // suspended again at every start.
        let short = reason.lines().next().unwrap_or_default();
        tracing::error!(%instance, reason = short, "the instance is suspended");
        tracing::debug!(%instance, "the instance is suspended\n{reason}");
        metrics::counter!("wakeline_flow_suspended_total").increment(1);
        self.shared.suspended.store(true, Ordering::Relaxed);
        match self.shared.provider.admin() {
            Some(admin) => admin.suspend_item(token, Suspension::Mismatch { reason }).await,
            // The provider cannot suspend it, so the turn is given back with a delay, without
            // counting the attempt.
            None => self.shared.provider.abandon_orchestration_item(token, Some(LATER), true).await,
        }
    }

    async fn plan(&self, mut item: OrchestrationItem) -> Result<TurnPlan, ProviderError> {
        if let Some(reason) = item.corrupt.take() {
            let ended = item.state.is_some_and(InstanceState::is_ended);
            return Ok(if ended { TurnPlan::Leave(reason) } else { TurnPlan::Suspend(reason) });
        }
        let incoming = Incoming::sort(item);
        if incoming.is_early() {
            return Ok(TurnPlan::Early);
        }
        if !incoming.is_live() {
            if incoming.closes {
                self.close_children(&incoming.item).await?;
            }
            return Ok(TurnPlan::Commit(Box::new(ack::without_effect(incoming)), None));
        }
        let excused = self.uncommitted.excused(incoming.item.life);
        if incoming.item.attempt > self.shared.options.attempts_max.saturating_add(excused) {
            let error = FlowError {
                attempts: Some(incoming.item.attempt - 1),
                ..FlowError::new(FailureKind::Poison, POISONED)
            };
            let parent = self.parent(&incoming).await?;
            // The children are closed before the commit, because the commit removes all messages of
            // the instance and no other turn follows.
            self.close_children(&incoming.item).await?;
            return Ok(TurnPlan::Commit(Box::new(ack::given_up(incoming, parent, error)), None));
        }
        self.turn(incoming).await
    }

    async fn turn(&self, mut incoming: Incoming) -> Result<TurnPlan, ProviderError> {
        let mut execution = match self.ready(&mut incoming).await? {
            ReadyExecution::Yes(execution) => *execution,
            ReadyExecution::No(plan) => return Ok(plan),
        };
        let messages = std::mem::take(&mut incoming.messages);
        let result = match execution.deliver(messages, incoming.item.now.0) {
            Ok(result) => result,
            Err(nondeterminism) => return Ok(TurnPlan::Suspend(nondeterminism.to_string())),
        };
        if let Some(reason) = unregistered::find(&self.shared, &result.events) {
            return Ok(TurnPlan::Suspend(reason));
        }
        let warn_len = self.shared.options.history_warn_len;
        if incoming.item.last_event < warn_len && execution.last_event() >= warn_len {
            tracing::warn!(
                instance = %incoming.item.instance,
                events = execution.last_event(),
                "the history of an instance is long: call continue_as_new from time to time"
            );
        }
        let ack = ack::of(incoming, &execution, result);
        match ack {
            Ok(ack) => Ok(TurnPlan::Commit(Box::new(ack), Some(execution))),
            Err(error) => Ok(TurnPlan::Suspend(error.to_string())),
        }
    }

    /// Returns the execution: a new one, the one in memory, or one replayed from its history.
    async fn ready(&self, incoming: &mut Incoming) -> Result<ReadyExecution, ProviderError> {
        if let Some(beginning) = &incoming.beginning {
            return Ok(self.begun(incoming, beginning));
        }
        let item = &incoming.item;
        let stamp =
            Stamp { life: item.life, execution: item.execution, last_event: item.last_event };
        if let Some(execution) = self.sticky.take(&item.instance, stamp) {
            metrics::counter!("wakeline_flow_turns_total", "from" => "memory").increment(1);
            return Ok(match execution.nondeterminism() {
                Some(nondeterminism) => {
                    ReadyExecution::No(TurnPlan::Suspend(nondeterminism.to_string()))
                }
                None => ReadyExecution::Yes(Box::new(execution)),
            });
        }
        metrics::counter!("wakeline_flow_turns_total", "from" => "history").increment(1);
        let history = match std::mem::replace(&mut incoming.item.history, ItemHistory::Long) {
            ItemHistory::Whole(events) => events,
            ItemHistory::Long => {
                let item = &incoming.item;
                self.shared.provider.read(&item.instance, Some(item.execution)).await?
            }
        };
        Ok(self.replayed(incoming, history))
    }

    fn begun(&self, incoming: &Incoming, beginning: &Beginning) -> ReadyExecution {
        metrics::counter!("wakeline_flow_turns_total", "from" => "start").increment(1);
        let (name, registry) = (beginning.name.as_str(), &self.shared.registry);
        let (code, delay) = match (&beginning.version, &beginning.not_before) {
            (Some(version), _) => (registry.exact(name, version), LATER),
            (None, Some(version)) => (registry.newest_from(name, version), NEWER),
            (None, None) => (registry.newest(name), LATER),
        };
        let Some(code) = code else { return ReadyExecution::No(TurnPlan::Later(delay)) };
        let setup = setup(&incoming.item, beginning.execution);
        let start = ExecutionStart {
            input: beginning.input.clone(),
            parent: beginning.parent.clone(),
            seed: uuid::Uuid::new_v4().as_u64_pair().0,
            carried: beginning.carried.clone(),
        };
        match setup {
            Ok(setup) => ReadyExecution::Yes(Box::new(Execution::start(&code, setup, start))),
            Err(reason) => ReadyExecution::No(TurnPlan::Suspend(reason)),
        }
    }

    fn replayed(&self, incoming: &Incoming, history: Vec<Event>) -> ReadyExecution {
        let Some(EventKind::Started { name, version, .. }) =
            history.first().map(|event| &event.kind)
        else {
            let reason = "the history is corrupt: its first event does not name the orchestration"
                .to_owned();
            return ReadyExecution::No(TurnPlan::Suspend(reason));
        };
        let Some(code) = self.shared.registry.exact(name.as_str(), version) else {
            return ReadyExecution::No(TurnPlan::Later(LATER));
        };
        let setup = match setup(&incoming.item, incoming.item.execution) {
            Ok(setup) => setup,
            Err(reason) => return ReadyExecution::No(TurnPlan::Suspend(reason)),
        };
        match Execution::replay(&code, setup, history) {
            Ok(execution) => ReadyExecution::Yes(Box::new(execution)),
            Err(error) => ReadyExecution::No(TurnPlan::Suspend(error.to_string())),
        }
    }

    /// Closes the children of an instance that has ended or is given up. If its history cannot be
    /// read, the children are unknown; this is logged and not repeated forever.
    async fn close_children(&self, item: &OrchestrationItem) -> Result<(), ProviderError> {
        let (provider, instance) = (self.shared.provider.as_ref(), &item.instance);
        match close_children(provider, instance, item.execution, usize::MAX).await {
            Err(error @ ProviderError::Permanent { .. }) => {
                tracing::error!(
                    %instance, error = error_chain(&error),
                    "the children of an ended instance could not be closed"
                );
                Ok(())
            }
            closed => closed.map(drop),
        }
    }

    /// Returns the parent that waits for an instance that is given up.
    async fn parent(
        &self,
        incoming: &Incoming,
    ) -> Result<Option<crate::event::Parent>, ProviderError> {
        if let Some(beginning) = &incoming.beginning {
            return Ok(beginning.parent.clone());
        }
        if incoming.item.parent.is_none() {
            return Ok(None);
        }
        let item = &incoming.item;
        let history = self.shared.provider.read(&item.instance, Some(item.execution)).await?;
        Ok(history.into_iter().find_map(|event| match event.kind {
            EventKind::Started { parent, .. } => parent,
            _ => None,
        }))
    }
}

fn setup(item: &OrchestrationItem, execution: u64) -> Result<ExecutionSetup, String> {
    let decode = |entry: &wakeline_store::flow::KvEntry| {
        let value = serde_json::from_slice(&entry.value);
        value.map(|value| (entry.key.clone(), value)).map_err(|error| {
            format!("the value of key {:?} cannot be decoded: {error}", entry.key.as_str())
        })
    };
    let kv: Result<_, _> = item.kv.iter().map(decode).collect();
    Ok(ExecutionSetup { instance: item.instance.clone(), execution, kv: kv? })
}
