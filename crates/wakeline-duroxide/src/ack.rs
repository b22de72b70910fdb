//! Converts an acknowledged turn to its commit.

use duroxide::providers::{
    ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem,
};
use duroxide::{Event, EventKind};
use wakeline_core::{Capability, InstanceId};
use wakeline_store::flow::{
    ExecutionEnd, InstanceState, KvChange, NewInstance, NewWork, Pinned, StatusChange, TurnCommit,
    WorkKey,
};

use crate::envelope;
use crate::error::permanent;
use crate::names;
use crate::provider::{DuroxideProvider, OP_ACK as OP};
use crate::token::TurnToken;
use crate::versions;

/// Everything that duroxide passes with an acknowledgement of a turn.
pub(crate) struct Ack {
    pub(crate) token: TurnToken,
    pub(crate) execution: u64,
    pub(crate) history_delta: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled_activities: Vec<ScheduledActivityIdentifier>,
}

impl Ack {
    pub(crate) async fn into_commit<S>(
        self,
        provider: &DuroxideProvider<S>,
    ) -> Result<TurnCommit, ProviderError> {
        let facts = &self.token.facts;
        let last_event = self.last_event(provider).await?;
        let needs = self.needs();
        let messages = self.orchestrator_items.iter();
        let messages: Result<_, _> = messages
            .map(|item| envelope::envelope_within(OP, item, &facts.instance, &needs))
            .collect();
        let new_instance = self.new_instance()?;
        let exists = new_instance.is_some() || facts.execution > 0;
        let pinned = if exists { self.pinned(provider, needs.clone()).await? } else { None };
        Ok(TurnCommit {
            token: self.token.token,
            execution: self.execution,
            new_instance,
            pinned,
            history: envelope::batch(OP, &self.history_delta, last_event)?,
            status: self.status(),
            kv: self.kv()?,
            end: self.end()?,
            work: self.work()?,
            cancelled_work: self.cancelled_work()?,
            messages: messages?,
            cancelled_messages: Vec::new(),
            clear: false,
            pushes: Vec::new(),
            emits: Vec::new(),
            turn_requests: Vec::new(),
            work_requests: Vec::new(),
        })
    }

    /// Returns the last event of the execution; for the current one the token contains it.
    async fn last_event<S>(&self, provider: &DuroxideProvider<S>) -> Result<u64, ProviderError> {
        let facts = &self.token.facts;
        if self.execution == facts.execution {
            return Ok(facts.last_event);
        }
        if self.execution > facts.execution {
            return Ok(0);
        }
        let executions = provider.executions(OP, &facts.instance).await?;
        let found = executions.into_iter().find(|other| other.execution == self.execution);
        Ok(found.map_or(0, |execution| execution.events))
    }

    /// The capability that the mailbox requires from now on. A new execution is pinned to its own
    /// version or to none.
    fn needs(&self) -> Capability {
        let facts = &self.token.facts;
        let before = facts.capability.clone().filter(|_| self.execution <= facts.execution);
        let pinned = self.metadata.pinned_duroxide_version.as_ref().map(versions::pinned);
        pinned.or(before).unwrap_or_else(versions::unpinned)
    }

    /// Returns the new capability and version of the execution; `None` if they do not change.
    async fn pinned<S>(
        &self,
        provider: &DuroxideProvider<S>,
        capability: Capability,
    ) -> Result<Option<Pinned>, ProviderError> {
        let facts = &self.token.facts;
        let version = self.metadata.orchestration_version.clone();
        let version = version.or_else(|| self.started().map(|started| started.version.to_owned()));
        let same = facts.capability.as_ref() == Some(&capability);
        if version.is_none() && same && self.execution <= facts.execution {
            return Ok(None);
        }
        let version = match version {
            Some(version) => Some(version),
            None => provider.version_of(OP, &facts.instance).await?,
        };
        Ok(Some(Pinned { capability, version }))
    }

    /// Returns the instance to create, if there is none and the turn writes something about it.
    fn new_instance(&self) -> Result<Option<NewInstance>, ProviderError> {
        let facts = &self.token.facts;
        let named = self.metadata.orchestration_name.as_deref();
        let writes = !self.history_delta.is_empty() || self.metadata.status.is_some();
        if facts.execution > 0 || (named.is_none() && !writes) {
            return Ok(None);
        }
        let started = self.started();
        let name = named
            .or(started.as_ref().map(|started| started.name))
            .or(facts.started.as_deref())
            .unwrap_or("Unknown");
        let parent = self.metadata.parent_instance_id.as_deref();
        let parent = parent.or(started.as_ref().and_then(|started| started.parent));
        let event = started.as_ref().and_then(|started| started.parent_event).unwrap_or(0);
        let parent = parent.map(|parent| names::instance(OP, parent)).transpose()?;
        let name = names::orchestration(OP, name)?;
        Ok(Some(NewInstance { name, parent: parent.map(|parent| (parent, event)) }))
    }

    fn started(&self) -> Option<StartedFacts<'_>> {
        self.history_delta.iter().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                name, version, parent_instance, parent_id, ..
            } => Some(StartedFacts {
                name,
                version,
                parent: parent_instance.as_deref(),
                parent_event: *parent_id,
            }),
            _ => None,
        })
    }

    /// Returns the last status of the turn. Earlier ones are not stored, so the version of the
    /// status increases by one.
    fn status(&self) -> Vec<StatusChange> {
        let last = self.history_delta.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(status.clone()),
            _ => None,
        });
        last.map(|text| text.map_or(StatusChange::Clear, StatusChange::Set)).into_iter().collect()
    }

    fn kv(&self) -> Result<Vec<KvChange>, ProviderError> {
        let mut changes = Vec::new();
        for event in &self.history_delta {
            match &event.kind {
                EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                    let value = envelope::value(value, *last_updated_at_ms);
                    changes.push(KvChange::Set(names::key(OP, key)?, value));
                }
                EventKind::KeyValueCleared { key } => {
                    changes.push(KvChange::Clear(names::key(OP, key)?));
                }
                EventKind::KeyValuesCleared => changes.push(KvChange::ClearAll),
                _ => {}
            }
        }
        Ok(changes)
    }

    fn end(&self) -> Result<ExecutionEnd, ProviderError> {
        let output = self.metadata.output.clone().map(Into::into);
        match self.metadata.status.as_deref() {
            None | Some("Running") => Ok(ExecutionEnd::Open),
            Some("Completed") => {
                Ok(ExecutionEnd::Ended { state: InstanceState::Completed, output })
            }
            Some("Failed") => Ok(ExecutionEnd::Ended { state: InstanceState::Failed, output }),
            Some("ContinuedAsNew") => Ok(ExecutionEnd::ContinuedAsNew { output }),
            Some(status) => Err(permanent(OP, format!("unknown status {status}"))),
        }
    }

    fn work(&self) -> Result<Vec<NewWork>, ProviderError> {
        let own = |work: NewWork| self.check_own(&work.instance.clone()).map(|()| work);
        self.worker_items.iter().map(|item| envelope::work(OP, item).and_then(own)).collect()
    }

    fn cancelled_work(&self) -> Result<Vec<WorkKey>, ProviderError> {
        let key = |cancelled: &ScheduledActivityIdentifier| {
            self.check_own(&names::instance(OP, &cancelled.instance)?)?;
            let (execution, activity) = (cancelled.execution_id, cancelled.activity_id);
            Ok(WorkKey { execution, activity })
        };
        self.cancelled_activities.iter().map(key).collect()
    }

    /// Checks that a turn schedules and cancels only activities of its own instance.
    fn check_own(&self, instance: &InstanceId) -> Result<(), ProviderError> {
        if *instance == self.token.facts.instance {
            return Ok(());
        }
        let own = &self.token.facts.instance;
        Err(permanent(
            OP,
            format!("the turn of instance {own} contains an activity of instance {instance}"),
        ))
    }
}

/// The facts in the first event of an execution.
struct StartedFacts<'a> {
    name: &'a str,
    version: &'a str,
    parent: Option<&'a str>,
    parent_event: Option<u64>,
}
