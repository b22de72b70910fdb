//! Messages to queues and to other instances, in the turn's own commit.

use std::panic::Location;

use serde::Serialize;
use wakeline_core::{InstanceId, NameError, QueueName};

use super::OrchestrationContext;
use crate::error::FlowError;
use crate::event::EventKind;
use crate::json::Json;

/// Where a message goes: the name of a queue, or [`QueueSend`] with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSend {
    queue: String,
    partition: Option<String>,
}

impl QueueSend {
    /// A queue.
    pub fn to(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), partition: None }
    }

    /// One of its partitions.
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

impl OrchestrationContext {
    /// Sends a message to a queue. It is there when this turn is committed, once, whatever
    /// crashes.
    #[track_caller]
    pub fn push<T: Serialize>(
        &self,
        to: impl Into<QueueSend>,
        payload: T,
    ) -> Result<(), FlowError> {
        let at = Location::caller();
        let QueueSend { queue, partition } = to.into();
        let payload = Json::of(&payload).map_err(|error| FlowError::codec(&queue, &error))?;
        let queue = QueueName::new(queue).map_err(refused)?;
        if let Some(partition) = &partition {
            wakeline_core::PartitionName::new(partition).map_err(refused)?;
        }
        self.shared.decide(at, EventKind::Pushed { queue, partition, payload });
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
        let data = Json::of(&data).map_err(|error| FlowError::codec(&name, &error))?;
        let instance = InstanceId::new(instance).map_err(refused)?;
        self.shared.decide(at, EventKind::Signalled { instance, name, data });
        Ok(())
    }
}

pub(super) fn refused(error: NameError) -> FlowError {
    FlowError::application(error.to_string())
}
