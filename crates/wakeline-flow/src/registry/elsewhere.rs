//! Declares activities and orchestrations that other processes run.
//!
//! # Invariants
//! * A name that is neither registered nor declared here is considered a mistake: a turn that calls
//!   it is not committed.

use std::collections::HashSet;

use wakeline_core::{ActivityName, OrchestrationName, nearest};

use super::{Registry, RegistryBuilder, RegistryError};
use crate::activity::ActivityContext;

/// The names that other processes run.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    activities: HashSet<String>,
    orchestrations: HashSet<String>,
    /// Whether other processes run every name that is not registered here.
    anything: bool,
}

impl Registry {
    /// Whether this process runs an activity, or it was declared that another process does.
    pub(crate) fn expects_activity(&self, name: &str) -> bool {
        let elsewhere = &self.elsewhere;
        elsewhere.anything
            || self.activities.contains_key(name)
            || elsewhere.activities.contains(name)
    }

    /// Whether this process runs an orchestration in any version, or it was declared that another
    /// process does.
    pub(crate) fn expects_orchestration(&self, name: &str) -> bool {
        let elsewhere = &self.elsewhere;
        elsewhere.anything
            || self.orchestrations.contains_key(name)
            || elsewhere.orchestrations.contains(name)
    }

    /// Returns the known activity whose name is most similar to an unknown one.
    pub(crate) fn nearest_activity(&self, name: &str) -> Option<&str> {
        let known = self.activities.keys().chain(&self.elsewhere.activities);
        nearest(name, known.map(String::as_str))
    }

    /// Returns the known orchestration whose name is most similar to an unknown one.
    pub(crate) fn nearest_orchestration(&self, name: &str) -> Option<&str> {
        let known = self.orchestrations.keys().chain(&self.elsewhere.orchestrations);
        nearest(name, known.map(String::as_str))
    }
}

impl RegistryBuilder {
    /// Declares that other processes run an activity. An orchestration of this registry that calls
    /// an activity which is neither registered nor declared in this way is suspended.
    pub fn activity_elsewhere(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        match ActivityName::new(&name) {
            Ok(_) => drop(self.registry.elsewhere.activities.insert(name)),
            Err(source) => drop(self.error.get_or_insert(RegistryError::Name { name, source })),
        }
        self
    }

    /// Declares that other processes run an activity, and that this function is registered there
    /// under the name, so that orchestrations can [call](crate::OrchestrationContext::call) it.
    pub fn activity_elsewhere_fn<I, F, R>(mut self, name: impl Into<String>, _code: F) -> Self
    where
        F: Fn(ActivityContext, I) -> R + 'static,
    {
        let name = name.into();
        self.fn_names.add::<F>(&name);
        self.activity_elsewhere(name)
    }

    /// Declares that other processes run an orchestration. An orchestration of this registry that
    /// starts a child which is neither registered nor declared in this way is suspended.
    pub fn orchestration_elsewhere(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        match OrchestrationName::new(&name) {
            Ok(_) => drop(self.registry.elsewhere.orchestrations.insert(name)),
            Err(source) => drop(self.error.get_or_insert(RegistryError::Name { name, source })),
        }
        self
    }

    /// Declares that other processes run every activity and orchestration that is not registered
    /// here, for names that come from data. A name that no process has registered is then reported
    /// only after a while, as [unclaimed](crate::Instance::unclaimed).
    pub fn anything_elsewhere(mut self) -> Self {
        self.registry.elsewhere.anything = true;
        self
    }
}
