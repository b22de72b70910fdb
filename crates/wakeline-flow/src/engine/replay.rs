//! Histories as files, and their replay against the code of today.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wakeline_core::{InstanceId, KvKey};

use super::{Execution, Foreign, Mismatch, Setting};
use crate::event::{Event, EventKind};
use crate::json::Json;
use crate::registry::Registry;

/// The history of one execution, with all that a replay needs. Its JSON is stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Whose.
    pub instance: InstanceId,
    /// Which execution.
    pub execution: u64,
    /// The key-value state at the start of the execution.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kv: BTreeMap<KvKey, Json>,
    /// The events, the first one first.
    pub events: Vec<Event>,
}

pub(super) const NO_START: &str = "the first event must say which orchestration was started";

/// Why a history could not be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// The code decides otherwise. Suspend the instance.
    #[error(transparent)]
    Mismatch(#[from] Box<Mismatch>),
    /// The code waits for something that is not durable. Suspend the instance.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// The history cannot have been written by this crate.
    #[error(
        "the history is corrupt at event {event}: {what}; restore it from a backup, or delete the \
         instance"
    )]
    Broken {
        /// Number of the event.
        event: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No code of this name and version is registered.
    #[error("no code is registered for {capability}: register it with `orchestration_versioned`")]
    Unregistered {
        /// What was looked for.
        capability: String,
    },
}

/// Replays a history against the code of its version: an error if the code decides otherwise.
pub fn replay(registry: &Registry, history: &History) -> Result<(), ReplayError> {
    let Some(EventKind::Started { name, version, .. }) = history.events.first().map(|e| &e.kind)
    else {
        return Err(ReplayError::Broken { event: 1, what: NO_START });
    };
    let code = registry.exact(name.as_str(), version).ok_or_else(|| {
        let capability = format!("{name}@{version}");
        ReplayError::Unregistered { capability }
    })?;
    let setting = Setting {
        instance: history.instance.clone(),
        execution: history.execution,
        kv: history.kv.clone(),
    };
    Execution::replay(&code, setting, history.events.iter().cloned()).map(drop)
}
