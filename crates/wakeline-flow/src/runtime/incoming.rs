//! What a fetched turn brings, sorted: what begins an execution, what is for somebody else to hear,
//! and what the code gets.

use wakeline_core::OrchestrationName;
use wakeline_store::flow::InstanceState;

use crate::error::{FailureKind, FlowError};
use crate::event::{Parent, Raised};
use crate::json::Json;
use crate::message::WorkItem;
use crate::provider::OrchestrationItem;

/// How an execution begins.
pub(super) struct Beginning {
    pub(super) execution: u64,
    pub(super) name: OrchestrationName,
    pub(super) version: Option<String>,
    pub(super) input: Json,
    pub(super) parent: Option<Parent>,
    pub(super) carried: Vec<Raised>,
}

/// A fetched turn, its messages sorted.
pub(super) struct Incoming {
    /// The turn, without its messages.
    pub(super) item: OrchestrationItem,
    pub(super) beginning: Option<Beginning>,
    /// What the code gets, in order.
    pub(super) messages: Vec<WorkItem>,
    /// What those hear who wanted to start an instance of an id that is taken.
    pub(super) refusals: Vec<WorkItem>,
}

impl Incoming {
    pub(super) fn sort(mut item: OrchestrationItem) -> Self {
        let messages = std::mem::take(&mut item.messages);
        let mut incoming =
            Self { item, beginning: None, messages: Vec::new(), refusals: Vec::new() };
        for message in messages {
            incoming.add(message);
        }
        incoming
    }

    fn add(&mut self, message: WorkItem) {
        match message {
            WorkItem::StartOrchestration { name, version, input, parent, instance } => {
                if self.item.execution == 0 && self.beginning.is_none() {
                    let carried = Vec::new();
                    self.beginning =
                        Some(Beginning { execution: 1, name, version, input, parent, carried });
                } else if let Some(parent) = parent.filter(|parent| !self.is_own(parent)) {
                    let words = format!("an instance {instance} exists already");
                    self.refusals.push(WorkItem::ChildDone {
                        instance: parent.instance,
                        execution: parent.execution,
                        event: parent.event,
                        result: Err(FlowError::new(FailureKind::Application, words)),
                    });
                }
            }
            WorkItem::ContinueAsNew {
                execution, name, version, input, parent, carried, ..
            } => {
                let continued = self.item.state == Some(InstanceState::ContinuedAsNew);
                if continued && execution == self.item.execution + 1 && self.beginning.is_none() {
                    self.beginning =
                        Some(Beginning { execution, name, version, input, parent, carried });
                }
            }
            message => self.messages.push(message),
        }
    }

    /// A start that came twice is not a stranger's.
    fn is_own(&self, parent: &Parent) -> bool {
        self.item
            .parent
            .as_ref()
            .is_some_and(|(instance, event)| *instance == parent.instance && *event == parent.event)
    }

    /// Whether there is an execution to deliver to.
    pub(super) fn is_live(&self) -> bool {
        self.beginning.is_some() || self.item.state == Some(InstanceState::Running)
    }
}
