//! Sorts the messages of a fetched turn: the one that begins an execution, those that the runtime
//! answers itself, and those for the code.

use wakeline_core::{OrchestrationName, Timestamp};
use wakeline_store::flow::InstanceState;

use crate::error::{ErrorOrigin, FailureKind, FlowError};
use crate::event::{Parent, Raised};
use crate::json::Json;
use crate::message::FlowMessage;
use crate::provider::OrchestrationItem;

/// The start of an execution.
pub(super) struct Beginning {
    pub(super) execution: u64,
    pub(super) name: OrchestrationName,
    pub(super) version: Option<String>,
    /// The oldest version that may continue the instance if no version is given.
    pub(super) not_before: Option<String>,
    pub(super) input: Json,
    pub(super) parent: Option<Parent>,
    pub(super) carried: Vec<Raised>,
}

/// A fetched turn with its messages sorted.
pub(super) struct Incoming {
    /// The turn, without its messages.
    pub(super) item: OrchestrationItem,
    pub(super) beginning: Option<Beginning>,
    /// The messages for the code, in order.
    pub(super) messages: Vec<FlowMessage>,
    /// Whether the instance has ended and its children are to be closed.
    pub(super) closes: bool,
    /// The parents of starts that have no effect because the id is in use.
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

    fn add(&mut self, message: FlowMessage) {
        match message {
            FlowMessage::StartOrchestration { name, version, input, parent, .. } => {
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
            FlowMessage::ContinueAsNew {
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
            FlowMessage::CloseChildren { .. } => self.closes = true,
            message => self.messages.push(message),
        }
    }

    /// Creates the messages to parents that tried to start an instance with an id that is in use. A
    /// start that was delivered twice is not refused: `own` is the parent that waits for the
    /// instance.
    pub(super) fn refusals(&self, own: Option<&Parent>) -> Vec<(FlowMessage, Option<Timestamp>)> {
        let refusal = |parent: &Parent| {
            let message = format!(
                "an instance with the id {} exists already: give the child another id",
                self.item.instance
            );
            let origin = ErrorOrigin::Child { name: None, instance: self.item.instance.clone() };
            let error = FlowError::new(FailureKind::Application, message).with_origin(origin);
            FlowMessage::child_done(parent.clone(), Err(error))
        };
        let refused = self.unstarted.iter().filter(|parent| Some(*parent) != own);
        refused.map(|parent| (refusal(parent), None)).collect()
    }

    /// Whether the messages have to wait because the one that begins the next execution is not yet
    /// visible.
    pub(super) fn is_early(&self) -> bool {
        let begins = matches!(self.item.state, None | Some(InstanceState::ContinuedAsNew));
        begins && self.beginning.is_none() && !self.messages.is_empty()
    }

    /// Whether there is an execution that messages can be delivered to.
    pub(super) fn is_live(&self) -> bool {
        self.beginning.is_some() || self.item.state == Some(InstanceState::Running)
    }
}
