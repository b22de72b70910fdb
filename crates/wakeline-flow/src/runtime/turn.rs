//! One turn of an instance: from what was fetched to what is committed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wakeline_core::{InstanceId, error_chain};
use wakeline_store::flow::{InstanceState, Suspension};

use super::Shared;
use super::ack;
use super::commit::commit;
use super::incoming::{Beginning, Incoming};
use super::renewal::TurnRenewal;
use super::slots::Slot;
use super::sticky::{Stamp, Sticky};
use super::uncommitted::Uncommitted;
use super::unregistered;
use crate::closing::close_children;
use crate::engine::{Execution, Setting, Start};
use crate::error::{FailureKind, FlowError};
use crate::event::{Event, EventKind};
use crate::provider::{ItemHistory, OrchestrationAck, OrchestrationItem, ProviderError};

/// How long an instance that nothing here can run waits before it is looked at again.
const LATER: Duration = Duration::from_secs(5);

/// The same where only older code is here than the execution before had, as during a deploy.
const NEWER: Duration = Duration::from_millis(500);
/// How long messages wait that came before what begins their execution.
const EARLY: Duration = Duration::from_secs(1);

/// Runs turns.
pub(super) struct TurnRunner {
    shared: Arc<Shared>,
    sticky: Sticky,
    uncommitted: Uncommitted,
}

/// Why an instance is given up.
const POISONED: &str = "the instance was given up: every attempt to run its turn ended without a \
                        commit, because the process crashed, hung or lost its lease; see the \
                        logs of the processes that run it";

/// What a turn comes to.
enum Plan {
    /// Commit, and keep what is in memory.
    Commit(Box<OrchestrationAck>, Option<Execution>),
    /// The code does not fit: hold the instance back.
    Suspend(String),
    /// The same for an instance that has ended, which cannot be held back: a process with the
    /// newer release takes it.
    Leave(String),
    /// Nothing here can run it: look again later.
    Later(Duration),
    /// What begins the execution is not visible yet: nothing is delivered before.
    Early,
}

/// An execution in memory, ready for its messages.
enum Ready {
    Yes(Box<Execution>),
    No(Plan),
}

impl TurnRunner {
    pub(super) fn new(shared: Arc<Shared>, sticky: Sticky) -> Self {
        Self { shared, sticky, uncommitted: Uncommitted::default() }
    }

    /// Runs a turn and commits it, or gives it back.
    pub(super) async fn run(&self, item: OrchestrationItem, slot: Slot<'_>) {
        let renewal = TurnRenewal::start(&self.shared, &item.lock_token);
        let (instance, token, life) = (item.instance.clone(), item.lock_token.clone(), item.life);
        let planned = self.plan(item).await;
        // Others run while this one is committed: commits of many turns share a transaction.
        drop(slot);
        let ended = match planned {
            Ok(Plan::Commit(ack, execution)) => {
                match commit(&self.shared, &self.uncommitted, *ack, life).await {
                    Err(error @ ProviderError::Permanent { .. }) => {
                        let reason = format!(
                            "the turn cannot be committed: {}; fix the cause and resume the \
                             instance",
                            error_chain(&error)
                        );
                        self.suspend(&instance, &token, reason).await
                    }
                    // It is not the instance's fault, if the provider still hears that.
                    Err(error @ ProviderError::Retryable { .. }) => {
                        let provider = &self.shared.provider;
                        let given = provider.abandon_orchestration_item(&token, None, true).await;
                        given.and(Err(error))
                    }
                    Ok(()) => {
                        self.keep(&instance, life, execution);
                        Ok(())
                    }
                    lost => lost,
                }
            }
            Ok(Plan::Suspend(reason)) => self.suspend(&instance, &token, reason).await,
            Ok(Plan::Leave(reason)) => {
                tracing::warn!(%instance, reason, "an ended instance is left to another process");
                self.shared.provider.abandon_orchestration_item(&token, Some(LATER), true).await
            }
            Ok(Plan::Later(delay)) => {
                tracing::warn!(
                    %instance,
                    "no code is registered here for this instance: it is left to another process"
                );
                self.shared.provider.abandon_orchestration_item(&token, Some(delay), true).await
            }
            Ok(Plan::Early) => {
                self.shared.provider.abandon_orchestration_item(&token, Some(EARLY), true).await
            }
            Err(error) => Err(error),
        };
        drop(renewal);
        match ended {
            Ok(()) => {}
            Err(ProviderError::LockLost) => {
                tracing::debug!(%instance, "a turn lost its lease, and will be tried again");
            }
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(%instance, error, "a turn failed, and will be tried again");
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
        // The whole text is stored with the instance, which comes here again at every start.
        let short = reason.lines().next().unwrap_or_default();
        tracing::error!(%instance, reason = short, "the instance is suspended");
        tracing::debug!(%instance, "the instance is suspended\n{reason}");
        metrics::counter!("wakeline_flow_suspended_total").increment(1);
        self.shared.suspended.store(true, Ordering::Relaxed);
        match self.shared.provider.admin() {
            Some(admin) => admin.suspend_item(token, Suspension::Mismatch { reason }).await,
            // It cannot be held back, so it comes back; rarely, and uncounted.
            None => self.shared.provider.abandon_orchestration_item(token, Some(LATER), true).await,
        }
    }

    async fn plan(&self, mut item: OrchestrationItem) -> Result<Plan, ProviderError> {
        if let Some(reason) = item.corrupt.take() {
            let ended = item.state.is_some_and(InstanceState::is_ended);
            return Ok(if ended { Plan::Leave(reason) } else { Plan::Suspend(reason) });
        }
        let incoming = Incoming::sort(item);
        if incoming.is_early() {
            return Ok(Plan::Early);
        }
        if !incoming.is_live() {
            if incoming.closes {
                self.close_children(&incoming.item).await?;
            }
            return Ok(Plan::Commit(Box::new(ack::nobody(incoming)), None));
        }
        let excused = self.uncommitted.excused(incoming.item.life);
        if incoming.item.attempt > self.shared.options.attempts_max.saturating_add(excused) {
            let error = FlowError {
                attempts: Some(incoming.item.attempt - 1),
                ..FlowError::new(FailureKind::Poison, POISONED)
            };
            let parent = self.parent(&incoming).await?;
            // First, because the commit removes all messages of the lane, and nothing else will
            // come of this instance any more.
            self.close_children(&incoming.item).await?;
            return Ok(Plan::Commit(Box::new(ack::given_up(incoming, parent, error)), None));
        }
        self.turn(incoming).await
    }

    async fn turn(&self, mut incoming: Incoming) -> Result<Plan, ProviderError> {
        let mut execution = match self.ready(&mut incoming).await? {
            Ready::Yes(execution) => *execution,
            Ready::No(plan) => return Ok(plan),
        };
        let messages = std::mem::take(&mut incoming.messages);
        let result = match execution.deliver(messages, incoming.item.now.0) {
            Ok(result) => result,
            Err(foreign) => return Ok(Plan::Suspend(foreign.to_string())),
        };
        if let Some(reason) = unregistered::find(&self.shared, &result.events) {
            return Ok(Plan::Suspend(reason));
        }
        let warn_len = self.shared.options.history_warn_len;
        if incoming.item.last_event < warn_len && execution.last_event() >= warn_len {
            tracing::warn!(
                instance = %incoming.item.instance,
                events = execution.last_event(),
                "the history is long: use continue_as_new from time to time"
            );
        }
        let ack = ack::of(incoming, &execution, result);
        match ack {
            Ok(ack) => Ok(Plan::Commit(Box::new(ack), Some(execution))),
            Err(error) => Ok(Plan::Suspend(error.to_string())),
        }
    }

    /// The execution: begun, still in memory, or replayed.
    async fn ready(&self, incoming: &mut Incoming) -> Result<Ready, ProviderError> {
        if let Some(beginning) = &incoming.beginning {
            return Ok(self.begun(incoming, beginning));
        }
        let item = &incoming.item;
        let stamp =
            Stamp { life: item.life, execution: item.execution, last_event: item.last_event };
        if let Some(execution) = self.sticky.take(&item.instance, stamp) {
            metrics::counter!("wakeline_flow_turns_total", "from" => "memory").increment(1);
            return Ok(match execution.foreign() {
                Some(foreign) => Ready::No(Plan::Suspend(foreign.to_string())),
                None => Ready::Yes(Box::new(execution)),
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

    fn begun(&self, incoming: &Incoming, beginning: &Beginning) -> Ready {
        metrics::counter!("wakeline_flow_turns_total", "from" => "start").increment(1);
        let (name, registry) = (beginning.name.as_str(), &self.shared.registry);
        let (code, delay) = match (&beginning.version, &beginning.not_before) {
            (Some(version), _) => (registry.exact(name, version), LATER),
            (None, Some(version)) => (registry.newest_from(name, version), NEWER),
            (None, None) => (registry.newest(name), LATER),
        };
        let Some(code) = code else { return Ready::No(Plan::Later(delay)) };
        let setting = setting(&incoming.item, beginning.execution);
        let start = Start {
            input: beginning.input.clone(),
            parent: beginning.parent.clone(),
            seed: uuid::Uuid::new_v4().as_u64_pair().0,
            carried: beginning.carried.clone(),
        };
        match setting {
            Ok(setting) => Ready::Yes(Box::new(Execution::start(&code, setting, start))),
            Err(reason) => Ready::No(Plan::Suspend(reason)),
        }
    }

    fn replayed(&self, incoming: &Incoming, history: Vec<Event>) -> Ready {
        let Some(EventKind::Started { name, version, .. }) =
            history.first().map(|event| &event.kind)
        else {
            let reason = "the history is corrupt: it has no first event that says what was started"
                .to_owned();
            return Ready::No(Plan::Suspend(reason));
        };
        let Some(code) = self.shared.registry.exact(name.as_str(), version) else {
            return Ready::No(Plan::Later(LATER));
        };
        let setting = match setting(&incoming.item, incoming.item.execution) {
            Ok(setting) => setting,
            Err(reason) => return Ready::No(Plan::Suspend(reason)),
        };
        match Execution::replay(&code, setting, history) {
            Ok(execution) => Ready::Yes(Box::new(execution)),
            Err(error) => Ready::No(Plan::Suspend(error.to_string())),
        }
    }

    /// Closes the children of an instance that has ended, or is given up. A history that cannot be
    /// read does not say which; that is not worth trying for ever.
    async fn close_children(&self, item: &OrchestrationItem) -> Result<(), ProviderError> {
        let (provider, instance) = (self.shared.provider.as_ref(), &item.instance);
        match close_children(provider, (instance, item.execution), usize::MAX).await {
            Err(error @ ProviderError::Permanent { .. }) => {
                tracing::error!(%instance, error = error_chain(&error), "children were not closed");
                Ok(())
            }
            closed => closed.map(drop),
        }
    }

    /// Who waits for an instance that is given up.
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

fn setting(item: &OrchestrationItem, execution: u64) -> Result<Setting, String> {
    let decode = |entry: &wakeline_store::flow::KvEntry| {
        let value = serde_json::from_slice(&entry.value);
        value.map(|value| (entry.key.clone(), value)).map_err(|error| {
            format!("the value of key {:?} cannot be decoded: {error}", entry.key.as_str())
        })
    };
    let kv: Result<_, _> = item.kv.iter().map(decode).collect();
    Ok(Setting { instance: item.instance.clone(), execution, kv: kv? })
}
