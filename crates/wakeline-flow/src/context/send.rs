//! Messages to queues, webhook endpoints and other instances, sent in the commit of the turn.

use std::panic::Location;

use serde::Serialize;
use wakeline_core::{
    ApplicationRef, Channel, EventTypeName, InstanceId, MESSAGE_PAYLOAD_BYTES_MAX, NameError,
    QueueName,
};

use super::OrchestrationContext;
use crate::error::FlowError;
use crate::event::EventKind;
use crate::json::Json;

/// The destination of a message: the name of a queue, or [`QueueSend`] with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSend {
    queue: String,
    partition: Option<String>,
}

impl QueueSend {
    /// Sends to the default partition of this queue.
    pub fn to(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), partition: None }
    }

    /// Sends to this partition of the queue.
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.partition = Some(partition.into());
        self
    }
}

impl From<&str> for QueueSend {
    fn from(queue: &str) -> Self {
        Self::to(queue)
    }
}

/// The destination of a webhook message: the id or uid of an application, or [`HookSend`] with
/// channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSend {
    application: String,
    channels: Vec<String>,
}

impl HookSend {
    /// Sends to the endpoints of an application, given by its id or uid.
    pub fn to(application: impl Into<String>) -> Self {
        Self { application: application.into(), channels: Vec::new() }
    }

    /// Adds a channel to the message.
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channels.push(channel.into());
        self
    }
}

impl From<&str> for HookSend {
    fn from(application: &str) -> Self {
        Self::to(application)
    }
}

impl From<&String> for HookSend {
    fn from(application: &String) -> Self {
        Self::to(application)
    }
}

impl OrchestrationContext {
    /// Sends a message to a queue. It is pushed exactly once, in the commit of this turn, even
    /// after a crash. An instance that is started again after it was deleted sends its messages
    /// again.
    #[track_caller]
    pub fn push<T: Serialize>(
        &self,
        to: impl Into<QueueSend>,
        payload: T,
    ) -> Result<(), FlowError> {
        let at = Location::caller();
        let QueueSend { queue, partition } = to.into();
        let payload = Json::of(&payload).map_err(|error| {
            FlowError::encoding(format!("the payload for queue {queue}"), &error)
        })?;
        let queue = QueueName::new(queue).map_err(refused)?;
        if let Some(partition) = &partition {
            wakeline_core::PartitionName::new(partition).map_err(refused)?;
        }
        self.shared.decide(at, EventKind::Pushed { queue, partition, payload });
        Ok(())
    }

    /// Sends a webhook message to the endpoints of an application. The message and its deliveries
    /// are created exactly once, in the commit of this turn, even after a crash. If the application
    /// does not exist then, or the payload does not fit the schema that its event type enforces,
    /// the message is dropped: this is logged and counted, and the orchestration continues. A
    /// payload of more than 1 MiB is an error here.
    #[track_caller]
    pub fn emit<T: Serialize>(
        &self,
        to: impl Into<HookSend>,
        event_type: &str,
        payload: T,
    ) -> Result<(), FlowError> {
        let at = Location::caller();
        let HookSend { application, channels } = to.into();
        let invalid = |error: &dyn std::fmt::Display| FlowError::application(error.to_string());
        let payload = Json::of(&payload).map_err(|error| {
            FlowError::encoding(format!("the payload of event type {event_type}"), &error)
        })?;
        let bytes = payload.as_str().len();
        if bytes > MESSAGE_PAYLOAD_BYTES_MAX {
            let most = MESSAGE_PAYLOAD_BYTES_MAX;
            return Err(invalid(&format!(
                "the payload of event type {event_type} has {bytes} bytes: at most {most} are \
                 allowed"
            )));
        }
        ApplicationRef::parse(&application).map_err(|error| invalid(&error))?;
        let event_type = EventTypeName::new(event_type).map_err(|error| invalid(&error))?;
        let named = |text: &String| Channel::new(text).map_err(|error| invalid(&error));
        let channels = channels.iter().map(named).collect::<Result<_, _>>()?;
        let emitted = EventKind::Emitted { application, event_type, channels, payload };
        self.shared.decide(at, emitted);
        Ok(())
    }

    /// Sends an event to another instance.
    #[track_caller]
    pub fn signal<T: Serialize>(
        &self,
        instance: &str,
        name: impl Into<String>,
        data: T,
    ) -> Result<(), FlowError> {
        let at = Location::caller();
        let name = name.into();
        let data = Json::of(&data)
            .map_err(|error| FlowError::encoding(format!("the data of event {name:?}"), &error))?;
        let instance = InstanceId::new(instance).map_err(refused)?;
        self.shared.decide(at, EventKind::Signalled { instance, name, data });
        Ok(())
    }
}

pub(super) fn refused(error: NameError) -> FlowError {
    FlowError::application(error.to_string())
}
