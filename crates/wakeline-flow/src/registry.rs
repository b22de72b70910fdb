//! The code that a process can run, by name and version.
//!
//! # Invariants
//! * Registering the same name and version twice is an error.
//! * An instance keeps the version that it began with ([`Registry::exact`]). A start that names no
//!   version takes the newest one ([`Registry::newest`]).

mod elsewhere;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wakeline_core::{ActivityName, Capability, NameError, OrchestrationName};

use crate::activity::{Activity, ActivityContext, FnNames, States};
use crate::capability::capability;
use crate::context::{Orchestration, OrchestrationContext};
use crate::engine::{CodeFuture, panicked};
use crate::error::{FlowError, IntoFlowError};
use crate::json::Json;

use elsewhere::Elsewhere;

/// The version of code that is registered without one.
pub const VERSION_DEFAULT: Version = Version::new(1, 0, 0);

/// The reason why a registry could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The same name, or the same name and version, was registered twice.
    #[error("{what} is registered twice: register it once, or under another name or version")]
    Duplicate {
        /// The name, or the name and version.
        what: String,
    },
    /// A text is not a valid name.
    #[error("{name:?} cannot be registered: {source}")]
    Name {
        /// The text that was given.
        name: String,
        /// The reason why it is invalid.
        #[source]
        source: NameError,
    },
    /// A text is not a valid version.
    #[error("{version:?} of {name} is not a version: write it like 1.2.0")]
    Version {
        /// The name of the orchestration.
        name: String,
        /// The text that was given.
        version: String,
    },
}

type RunOrchestration = Box<dyn Fn(OrchestrationContext, Json) -> CodeFuture + Send + Sync>;
type RunActivity =
    Box<dyn Fn(ActivityContext, Json) -> BoxFuture<'static, Result<Json, FlowError>> + Send + Sync>;

/// The code of one version of an orchestration.
pub struct OrchestrationCode {
    name: OrchestrationName,
    version: Version,
    run: RunOrchestration,
    /// The functions of the whole registry; set when the registry is built.
    fn_names: Arc<FnNames>,
}

impl OrchestrationCode {
    /// The name that the code is registered under.
    pub fn name(&self) -> &OrchestrationName {
        &self.name
    }

    /// The version that the code is registered under.
    pub fn version(&self) -> &Version {
        &self.version
    }

    pub(crate) fn run(&self, context: OrchestrationContext, input: Json) -> CodeFuture {
        (self.run)(context.with_fn_names(Arc::clone(&self.fn_names)), input)
    }
}

impl fmt::Debug for OrchestrationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrchestrationCode({}@{})", self.name, self.version)
    }
}

/// The code of an activity.
pub struct ActivityCode {
    run: RunActivity,
}

impl ActivityCode {
    /// Runs one attempt. A panic becomes an error.
    pub async fn run(&self, context: ActivityContext, input: Json) -> Result<Json, FlowError> {
        let attempt = AssertUnwindSafe(async { (self.run)(context, input).await }).catch_unwind();
        attempt.await.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
    }
}

impl fmt::Debug for ActivityCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ActivityCode")
    }
}

/// The code that a process can run.
#[derive(Debug, Default)]
pub struct Registry {
    orchestrations: HashMap<String, BTreeMap<Version, Arc<OrchestrationCode>>>,
    activities: HashMap<String, Arc<ActivityCode>>,
    states: Arc<States>,
    elsewhere: Elsewhere,
}

impl Registry {
    /// Creates a builder for a registry.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Returns the newest version of an orchestration. Pre-releases are considered only if there is
    /// no release.
    pub fn newest(&self, name: &str) -> Option<Arc<OrchestrationCode>> {
        let versions = self.orchestrations.get(name)?;
        let released = versions.iter().rev().find(|(version, _)| version.pre.is_empty());
        released.or_else(|| versions.last_key_value()).map(|(_, code)| Arc::clone(code))
    }

    /// Returns a particular version of an orchestration.
    pub fn exact(&self, name: &str, version: &str) -> Option<Arc<OrchestrationCode>> {
        let version = Version::parse(version).ok()?;
        self.orchestrations.get(name)?.get(&version).cloned()
    }

    /// Returns the newest version of an orchestration that is not older than the given one.
    /// Pre-releases are considered only if there is no release.
    pub fn newest_from(&self, name: &str, version: &str) -> Option<Arc<OrchestrationCode>> {
        let Ok(version) = Version::parse(version) else { return self.newest(name) };
        let mut versions = self.orchestrations.get(name)?.range(version..);
        let released = versions.clone().rev().find(|(version, _)| version.pre.is_empty());
        released.or_else(|| versions.next_back()).map(|(_, code)| Arc::clone(code))
    }

    /// Returns the code for a capability as [`Self::capabilities`] spells it.
    pub fn able(&self, capability: &Capability) -> Option<Arc<OrchestrationCode>> {
        let text = capability.as_str();
        // A name may contain the character that separates it from the version.
        let exact = text.rsplit_once('@').and_then(|(name, version)| self.exact(name, version));
        exact.or_else(|| self.newest(text))
    }

    /// Returns the code of an activity.
    pub fn activity(&self, name: &str) -> Option<Arc<ActivityCode>> {
        self.activities.get(name).cloned()
    }

    /// Returns the values that the program shares with its activities.
    pub(crate) fn states(&self) -> Arc<States> {
        Arc::clone(&self.states)
    }

    /// Adds an activity or replaces one. Meant for tests.
    pub fn with_activity<I, O, E, F, R>(
        mut self,
        activity: impl Into<Activity<I, O>>,
        code: F,
    ) -> Self
    where
        F: Fn(ActivityContext, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        E: IntoFlowError,
    {
        let name = activity.into().into_name();
        self.activities.insert(name, Arc::new(erased(code)));
        self
    }

    /// Whether any activity is registered.
    pub fn has_activities(&self) -> bool {
        !self.activities.is_empty()
    }

    /// Returns the names of the activities that this process can run.
    pub fn activity_names(&self) -> BTreeSet<ActivityName> {
        self.activities.keys().filter_map(|name| ActivityName::new(name).ok()).collect()
    }

    /// Returns the capabilities of this process: for each orchestration its name, and its name with
    /// each version.
    pub fn capabilities(&self) -> Vec<Capability> {
        let mut all = Vec::new();
        for code in self.orchestrations.values().flat_map(BTreeMap::values) {
            let version = code.version.to_string();
            all.extend(capability(&code.name, None));
            all.extend(capability(&code.name, Some(&version)));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Erases the types of an activity.
fn erased<I, O, E, F, R>(code: F) -> ActivityCode
where
    F: Fn(ActivityContext, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    E: IntoFlowError,
{
    let code = Arc::new(code);
    let run: RunActivity = Box::new(move |context, input| {
        let code = Arc::clone(&code);
        Box::pin(async move {
            let input = input.to().map_err(|e| FlowError::input::<I>(&e))?;
            let output = code(context, input).await.map_err(E::into_flow_error)?;
            Json::of(&output).map_err(|e| FlowError::encoding("the result", &e))
        })
    });
    ActivityCode { run }
}

/// Collects code for a [`Registry`].
#[derive(Debug, Default)]
pub struct RegistryBuilder {
    registry: Registry,
    fn_names: FnNames,
    error: Option<RegistryError>,
}

impl RegistryBuilder {
    /// Registers an orchestration as version 1.0.0.
    pub fn orchestration<I, O, E, F, R>(
        self,
        orchestration: impl Into<Orchestration<I, O>>,
        code: F,
    ) -> Self
    where
        F: Fn(OrchestrationContext, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        E: IntoFlowError,
    {
        self.orchestration_versioned(orchestration, &VERSION_DEFAULT.to_string(), code)
    }

    /// Registers a version of an orchestration. Keep older versions registered as long as instances
    /// run them.
    pub fn orchestration_versioned<I, O, E, F, R>(
        mut self,
        orchestration: impl Into<Orchestration<I, O>>,
        version: &str,
        code: F,
    ) -> Self
    where
        F: Fn(OrchestrationContext, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        E: IntoFlowError,
    {
        let name = orchestration.into();
        let code = Arc::new(code);
        let run: RunOrchestration = Box::new(move |context, input| {
            let code = Arc::clone(&code);
            Box::pin(async move {
                let input = input.to().map_err(|e| FlowError::input::<I>(&e))?;
                let output = code(context, input).await.map_err(E::into_flow_error)?;
                Json::of(&output).map_err(|e| FlowError::encoding("the result", &e))
            })
        });
        if let Err(error) = self.add(name.name(), version, run) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Registers an activity. Histories contain its name, so the code may be moved and renamed as
    /// long as this name stays the same. A function or closure can then be called without its name,
    /// with [`OrchestrationContext::call`].
    pub fn activity<I, O, E, F, R>(mut self, activity: impl Into<Activity<I, O>>, code: F) -> Self
    where
        F: Fn(ActivityContext, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        E: IntoFlowError,
    {
        let name = activity.into().into_name();
        if let Err(source) = ActivityName::new(&name) {
            self.error.get_or_insert(RegistryError::Name { name, source });
            return self;
        }
        let known = self.registry.activities.insert(name.clone(), Arc::new(erased(code)));
        if known.is_some() {
            let what = format!("activity {name}");
            self.error.get_or_insert(RegistryError::Duplicate { what });
        }
        self.fn_names.add::<F>(&name);
        self
    }

    /// Shares a value with all activities, which get it by its type with
    /// [`ActivityContext::state`]; for example a connection pool or a client. There is at most one
    /// value of each type: wrap values in types of your own to have several.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        if !Arc::make_mut(&mut self.registry.states).add(state) {
            let what = format!("state of type {}", std::any::type_name::<T>());
            self.error.get_or_insert(RegistryError::Duplicate { what });
        }
        self
    }

    /// Builds the registry. Fails with the first error of the calls before.
    pub fn build(mut self) -> Result<Registry, RegistryError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let fn_names = Arc::new(self.fn_names);
        let all = self.registry.orchestrations.values_mut().flat_map(BTreeMap::values_mut);
        for code in all {
            let code = Arc::get_mut(code).expect("not shared before the registry is built");
            code.fn_names = Arc::clone(&fn_names);
        }
        Ok(self.registry)
    }

    fn add(
        &mut self,
        name: &str,
        version: &str,
        run: RunOrchestration,
    ) -> Result<(), RegistryError> {
        let invalid = |source| RegistryError::Name { name: name.to_owned(), source };
        let parsed = Version::parse(version).map_err(|_| RegistryError::Version {
            name: name.to_owned(),
            version: version.to_owned(),
        })?;
        let of = OrchestrationName::new(name).map_err(invalid)?;
        capability(&of, Some(version)).map_err(invalid)?;
        let versions = self.registry.orchestrations.entry(name.to_owned()).or_default();
        let fn_names = Arc::default();
        let code = OrchestrationCode { name: of, version: parsed.clone(), run, fn_names };
        match versions.insert(parsed, Arc::new(code)) {
            None => Ok(()),
            Some(_) => Err(RegistryError::Duplicate { what: format!("{name}@{version}") }),
        }
    }
}
