//! The status text and the key-value state of an instance.

use std::panic::Location;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wakeline_core::KvKey;

use super::OrchestrationContext;
use super::operation::decode;
use crate::error::FlowError;
use crate::event::EventKind;
use crate::json::Json;

impl OrchestrationContext {
    /// Sets a text that is shown with the instance and that clients can wait for. NUL characters
    /// are replaced by U+FFFD.
    #[track_caller]
    pub fn set_status(&self, status: impl Into<String>) {
        let status = Some(status.into());
        self.shared.decide(Location::caller(), EventKind::StatusSet { status });
    }

    /// Removes the status text.
    #[track_caller]
    pub fn clear_status(&self) {
        self.shared.decide(Location::caller(), EventKind::StatusSet { status: None });
    }

    /// Sets a value that clients can read and that later executions of the instance see.
    #[track_caller]
    pub fn kv_set<T: Serialize>(&self, key: &str, value: T) -> Result<(), FlowError> {
        let at = Location::caller();
        let json = Json::of(&value)
            .map_err(|error| FlowError::encoding(format!("the value of key {key:?}"), &error))?;
        let key = self::key(key)?;
        self.shared.with(at, |state| {
            state.kv.insert(key.clone(), json.clone());
            state.decide(EventKind::KvSet { key, value: Some(json) }, Some(at))
        });
        Ok(())
    }

    /// Returns the value of a key, as it was at the start of the execution or as this execution
    /// last changed it.
    pub fn kv_get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, FlowError> {
        let name = self::key(key)?;
        let value = self.shared.lock().kv.get(&name).cloned();
        value.map(|value| decode(format!("the value of key {key:?}"), Ok(value))).transpose()
    }

    /// Removes the value of a key.
    #[track_caller]
    pub fn kv_clear(&self, key: &str) -> Result<(), FlowError> {
        let at = Location::caller();
        let key = self::key(key)?;
        self.shared.with(at, |state| {
            state.kv.remove(&key);
            state.decide(EventKind::KvSet { key, value: None }, Some(at))
        });
        Ok(())
    }

    /// Removes all values.
    #[track_caller]
    pub fn kv_clear_all(&self) {
        let at = Location::caller();
        self.shared.with(at, |state| {
            state.kv.clear();
            state.decide(EventKind::KvCleared, Some(at))
        });
    }

    /// Returns the keys that have values, in order.
    pub fn kv_keys(&self) -> Vec<String> {
        self.shared.lock().kv.keys().map(|key| key.as_str().to_owned()).collect()
    }
}

fn key(text: &str) -> Result<KvKey, FlowError> {
    KvKey::new(text).map_err(|error| FlowError::application(error.to_string()))
}
