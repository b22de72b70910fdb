//! What a fetched turn brings, sorted: what begins an execution, what is for somebody else to hear,
//! and what the code gets.

use wakeline_core::{OrchestrationName, Timestamp};
use wakeline_store::flow::InstanceState;

use crate::error::{ErrorOrigin, FailureKind, FlowError};
use crate::event::{Parent, Raised};
use crate::json::Json;
use crate::message::WorkItem;
use crate::provider::OrchestrationItem;

/// How an execution begins.
pub(super) struct Beginning {
    pub(super) execution: u64,
    pub(super) name: OrchestrationName,
    pub(super) version: Option<String>,
    /// Without a version: older code than this does not go on.
    pub(super) not_before: Option<String>,
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
    /// Whether the instance has ended and its children are to be closed.
    pub(super) closes: bool,
    /// Who waits for starts that begin nothing, because the id is taken.
    unstarted: Vec<Parent>,
}

impl Incoming {
    pub(super) fn sort(mut item: OrchestrationItem) -> Self {
        let messages = std::mem::take(&mut item.messages);
        let mut incoming = Self {
            item,
            beginning: None,
            messages: Vec::new(),
            closes: false,
            unstarted: Vec::new(),
        };
        for message in messages {
            incoming.add(message);
        }
        incoming
    }

    fn add(&mut self, message: WorkItem) {
        match message {
            WorkItem::StartOrchestration { name, version, input, parent, .. } => {
                if self.item.execution == 0 && self.beginning.is_none() {
                    self.beginning = Some(Beginning {
                        execution: 1,
                        name,
                        version,
                        not_before: None,
                        input,
                        parent,
                        carried: Vec::new(),
                    });
                } else {
                    self.unstarted.extend(parent);
                }
            }
            WorkItem::ContinueAsNew {
                execution,
                name,
                version,
                not_before,
                input,
                parent,
                carried,
                ..
            } => {
                let continued = self.item.state == Some(InstanceState::ContinuedAsNew);
                if continued && execution == self.item.execution + 1 && self.beginning.is_none() {
                    self.beginning = Some(Beginning {
                        execution,
                        name,
                        version,
                        not_before,
                        input,
                        parent,
                        carried,
                    });
                }
            }
            WorkItem::CloseChildren { .. } => self.closes = true,
            message => self.messages.push(message),
        }
    }

    /// What those are told who wanted to start an instance of an id that is taken. A start that
    /// came twice is not refused: `own` waits for the instance.
    pub(super) fn refusals(&self, own: Option<&Parent>) -> Vec<(WorkItem, Option<Timestamp>)> {
        let refusal = |parent: &Parent| {
            let words = format!(
                "an instance with the id {} exists already: give the child another id",
                self.item.instance
            );
            let origin = ErrorOrigin::Child { name: None, instance: self.item.instance.clone() };
            let error = FlowError::new(FailureKind::Application, words).with_origin(origin);
            WorkItem::child_done(parent.clone(), Err(error))
        };
        let strangers = self.unstarted.iter().filter(|parent| Some(*parent) != own);
        strangers.map(|parent| (refusal(parent), None)).collect()
    }

    /// Whether messages have to wait for what begins the next execution: it is not visible yet.
    pub(super) fn is_early(&self) -> bool {
        let begins = matches!(self.item.state, None | Some(InstanceState::ContinuedAsNew));
        begins && self.beginning.is_none() && !self.messages.is_empty()
    }

    /// Whether there is an execution to deliver to.
    pub(super) fn is_live(&self) -> bool {
        self.beginning.is_some() || self.item.state == Some(InstanceState::Running)
    }
}
