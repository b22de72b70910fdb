//! Histories as files, and their replay against the code that is registered now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wakeline_core::{InstanceId, KvKey};

use super::{Execution, ExecutionSetup, Mismatch, Nondeterminism};
use crate::event::{Event, EventKind};
use crate::json::Json;
use crate::registry::Registry;

/// The history of one execution, with everything that a replay needs. Its JSON format is stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The instance that the history belongs to.
    pub instance: InstanceId,
    /// The number of the execution.
    pub execution: u64,
    /// The key-value state at the start of the execution.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kv: BTreeMap<KvKey, Json>,
    /// The events in order.
    pub events: Vec<Event>,
}

pub(super) const NO_START: &str = "the first event must be the start of an orchestration";

/// The reason why a history could not be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// The code makes other decisions. The instance should be suspended.
    #[error(transparent)]
    Mismatch(#[from] Box<Mismatch>),
    /// The code waits for something that is not durable. The instance should be suspended.
    #[error(transparent)]
    Nondeterminism(#[from] Nondeterminism),
    /// The history was not written by this crate, or was damaged.
    #[error(
        "the history is corrupt at event {event}: {what}; restore it from a backup, or delete the \
         instance"
    )]
    Corrupt {
        /// The id of the invalid event.
        event: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No code of this name and version is registered.
    #[error("no code is registered for {capability}: register it with `orchestration_versioned`")]
    Unregistered {
        /// The name and version that were looked up.
        capability: String,
    },
}

/// Replays a history against the code of its version. Fails if the code makes other decisions.
pub fn replay(registry: &Registry, history: &History) -> Result<(), ReplayError> {
    let Some(EventKind::Started { name, version, .. }) = history.events.first().map(|e| &e.kind)
    else {
        return Err(ReplayError::Corrupt { event: 1, what: NO_START });
    };
    let code = registry.exact(name.as_str(), version).ok_or_else(|| {
        let capability = format!("{name}@{version}");
        ReplayError::Unregistered { capability }
    })?;
    let setup = ExecutionSetup {
        instance: history.instance.clone(),
        execution: history.execution,
        kv: history.kv.clone(),
    };
    Execution::replay(&code, setup, history.events.iter().cloned()).map(drop)
}
