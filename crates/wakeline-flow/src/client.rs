//! Starts, watches and manages orchestrations from outside.
//!
//! # Where it sits
//! It sits on top of a [`Provider`] and needs no runtime in the same process.
//!
//! # Invariants
//! * Waiting never polls: a waiting client registers with the provider's hub, as a dispatcher does.
//! * Starting is idempotent by instance id.

mod manage;
mod status;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use wakeline_core::{InstanceId, KvKey, NameError, OrchestrationName};
use wakeline_store::flow::{Envelope, Visible, Watched};

use crate::error::FlowError;
use crate::json::Json;
use crate::message::FlowMessage;
use crate::provider::{Enqueued, Provider, ProviderAdmin, ProviderError, SeenVersions, envelope};
use crate::registry::Registry;

pub use manage::UNCLAIMED_AFTER;
pub use status::{Instance, Status};

/// The longest single wait in a provider; a longer wait is split into several.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The reason why a call of a client failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no instance with this id.
    #[error("there is no instance {0}: check its id")]
    NotFound(InstanceId),
    /// The instance has ended.
    #[error("instance {0} has ended: read its result, or start another instance")]
    Ended(InstanceId),
    /// The awaited state was not reached within the timeout.
    #[error(
        "instance {instance} was still {state} after {waited:?}: wait longer, or inspect its \
         history"
    )]
    TimedOut {
        /// The instance that was awaited.
        instance: InstanceId,
        /// Its state when the timeout expired.
        state: &'static str,
        /// The timeout.
        waited: Duration,
    },
    /// The instance ended with an error.
    #[error("instance {instance} failed: {error}")]
    Failed {
        /// The instance that was awaited.
        instance: InstanceId,
        /// The error that it ended with.
        error: FlowError,
    },
    /// An id, a name or a key is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A value could not be encoded or decoded.
    #[error("{what} cannot be encoded as JSON, or cannot be decoded from it: {source}")]
    Codec {
        /// The value that could not be converted.
        what: &'static str,
        /// The error of the JSON library.
        #[source]
        source: serde_json::Error,
    },
    /// The provider does not support the operation named here.
    #[error("this provider cannot {0}: it has no management functions")]
    Unsupported(&'static str),
    /// The provider failed, for example because its store is unavailable.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl ClientError {
    fn codec(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Codec { what, source }
    }
}

/// Whether a start created an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// The instance was created and waits for its first turn.
    New,
    /// The instance already exists; nothing changed.
    Exists,
}

/// Starts, watches and manages orchestrations. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    provider: Arc<dyn Provider>,
    /// The registry whose newest version is started if the caller names no version.
    registry: Option<Arc<Registry>>,
}

impl Client {
    /// Creates a client over a provider.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, registry: None }
    }

    /// Creates a client that starts the newest version in this registry if the caller names none.
    pub(crate) fn with_registry(provider: Arc<dyn Provider>, registry: Arc<Registry>) -> Self {
        Self { provider, registry: Some(registry) }
    }

    /// The provider that this client calls.
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }

    fn admin(&self, what: &'static str) -> Result<&dyn ProviderAdmin, ClientError> {
        self.provider.admin().ok_or(ClientError::Unsupported(what))
    }

    /// Starts an orchestration. Idempotent by instance id.
    ///
    /// The client of a runtime starts the newest version that the runtime has registered. Any other
    /// client leaves the version open: the worker that takes the first turn runs its own newest
    /// version, which during a rolling deployment may be the old or the new one.
    pub async fn start(
        &self,
        instance: &str,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<Started, ClientError> {
        let input = Json::of(input).map_err(ClientError::codec("the input"))?;
        self.start_raw(instance, name, None, input).await
    }

    /// Starts a particular version of an orchestration. Idempotent by instance id.
    pub async fn start_version(
        &self,
        instance: &str,
        name: &str,
        version: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<Started, ClientError> {
        let input = Json::of(input).map_err(ClientError::codec("the input"))?;
        self.start_raw(instance, name, Some(version.to_owned()), input).await
    }

    /// Starts an orchestration whose input is already JSON.
    pub async fn start_raw(
        &self,
        instance: &str,
        name: &str,
        version: Option<String>,
        input: Json,
    ) -> Result<Started, ClientError> {
        let newest = || Some(self.registry.as_ref()?.newest(name)?.version().to_string());
        let start = start(instance, name, version.or_else(newest), input)?;
        match self.provider.enqueue_for_orchestrator(start, None).await? {
            Enqueued::Queued => Ok(Started::New),
            Enqueued::Exists | Enqueued::Ended => Ok(Started::Exists),
        }
    }

    /// Raises an event for an instance that is running or waiting for its first turn. Returns
    /// [`ClientError::NotFound`] if there is no such instance; see [`Client::raise_event_early`].
    pub async fn raise_event(
        &self,
        instance: &str,
        name: &str,
        data: &(impl Serialize + Sync + ?Sized),
    ) -> Result<(), ClientError> {
        self.find(instance).await?;
        self.raise_event_early(instance, name, data).await
    }

    /// Raises an event for an instance that may not have been started yet: the event is then stored
    /// under the id and delivered after the start. A misspelt id is therefore not an error.
    pub async fn raise_event_early(
        &self,
        instance: &str,
        name: &str,
        data: &(impl Serialize + Sync + ?Sized),
    ) -> Result<(), ClientError> {
        let data = Json::of(data).map_err(ClientError::codec("the event"))?;
        let instance = InstanceId::new(instance)?;
        let name = name.to_owned();
        self.send(FlowMessage::EventRaised { instance, name, data }).await
    }

    /// Requests cancellation of an instance. Its code may clean up first; see
    /// [`OrchestrationContext::cancelled`](crate::OrchestrationContext::cancelled). Returns
    /// [`ClientError::NotFound`] if there is no such instance.
    pub async fn cancel(&self, instance: &str, reason: &str) -> Result<(), ClientError> {
        self.find(instance).await?;
        let instance = InstanceId::new(instance)?;
        let reason = reason.to_owned();
        self.send(FlowMessage::CancelInstance { instance, reason, parent: None }).await
    }

    /// Fails if there is no such instance. A provider without management functions is assumed to
    /// have it.
    async fn find(&self, instance: &str) -> Result<(), ClientError> {
        let id = InstanceId::new(instance)?;
        let Some(admin) = self.provider.admin() else { return Ok(()) };
        match admin.instance(&id).await? {
            Watched::Missing => Err(ClientError::NotFound(id)),
            Watched::Found(_) => Ok(()),
        }
    }

    /// Builds the message that starts an orchestration, to be enqueued in a transaction of the
    /// store. Idempotent by instance id, as [`Client::start_raw`] is.
    pub fn start_envelope(
        instance: &str,
        name: &str,
        version: Option<String>,
        input: Json,
    ) -> Result<Envelope, ClientError> {
        let start = start(instance, name, version, input)?;
        Ok(envelope::envelope(&start, Visible::Now)?)
    }

    /// Builds the message that raises an event, to be enqueued in a transaction of the store.
    pub fn event_envelope(instance: &str, name: &str, data: Json) -> Result<Envelope, ClientError> {
        let instance = InstanceId::new(instance)?;
        let raised = FlowMessage::EventRaised { instance, name: name.to_owned(), data };
        Ok(envelope::envelope(&raised, Visible::Now)?)
    }

    async fn send(&self, item: FlowMessage) -> Result<(), ClientError> {
        let instance = item.instance().clone();
        match self.provider.enqueue_for_orchestrator(item, None).await? {
            Enqueued::Ended => Err(ClientError::Ended(instance)),
            Enqueued::Queued | Enqueued::Exists => Ok(()),
        }
    }

    /// Returns the current status of an instance.
    pub async fn status(&self, instance: &str) -> Result<Status, ClientError> {
        let instance = InstanceId::new(instance)?;
        let watched = self.admin("read instances")?.instance(&instance).await?;
        let mut status = Status::of(watched)?;
        self.note_unclaimed(status.instance_mut().into_iter()).await?;
        Ok(status)
    }

    /// Waits until an instance has ended, and decodes its result.
    pub async fn wait<T: DeserializeOwned>(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let id = InstanceId::new(instance)?;
        match self.wait_for(&id, SeenVersions::default(), timeout).await? {
            Status::Ended(ended) => match ended.result {
                Ok(output) => output.to().map_err(ClientError::codec("the output")),
                Err(error) => Err(ClientError::Failed { instance: id, error }),
            },
            Status::Missing => Err(ClientError::NotFound(id)),
            other => {
                let state = other.name();
                Err(ClientError::TimedOut { instance: id, state, waited: timeout })
            }
        }
    }

    /// Waits until an instance has ended or the timeout expires, and returns its status at that
    /// time.
    pub async fn wait_for_end(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<Status, ClientError> {
        self.wait_for(&InstanceId::new(instance)?, SeenVersions::default(), timeout).await
    }

    /// Waits until the status text has a newer version than `seen_version` (0: none was seen), the
    /// instance has ended, or the timeout expires. Returns the status at that time.
    pub async fn wait_for_status(
        &self,
        instance: &str,
        seen_version: u64,
        timeout: Duration,
    ) -> Result<Status, ClientError> {
        let seen = SeenVersions { status_version: Some(seen_version), kv_version: None };
        self.wait_for(&InstanceId::new(instance)?, seen, timeout).await
    }

    /// Waits until a key has a value. Returns `None` if the instance ends without one.
    pub async fn wait_for_kv<T: DeserializeOwned>(
        &self,
        instance: &str,
        key: &str,
        timeout: Duration,
    ) -> Result<Option<T>, ClientError> {
        let (id, key) = (InstanceId::new(instance)?, KvKey::new(key)?);
        let deadline = Instant::now() + timeout;
        // The version is read before the value, so that a change in between ends the wait.
        let mut status = self.status(instance).await?;
        loop {
            let values = self.admin("read values")?.kv(&id, Some(&key)).await?;
            if let Some(entry) = values.first() {
                let value = serde_json::from_slice(&entry.value);
                return value.map(Some).map_err(ClientError::codec("the value"));
            }
            let kv_version = match &status {
                Status::Missing => return Err(ClientError::NotFound(id)),
                Status::Ended(_) => return Ok(None),
                Status::Pending(instance) | Status::Running(instance) => instance.kv_version,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let state = status.name();
                return Err(ClientError::TimedOut { instance: id, state, waited: timeout });
            }
            let seen = SeenVersions { status_version: None, kv_version: Some(kv_version) };
            status = self.wait_for(&id, seen, left).await?;
        }
    }

    /// Waits until an instance has ended, is missing, or has a newer status text or key-value state
    /// than the versions given (0: none was seen), and returns its status. Returns `None` if the
    /// timeout expires first.
    pub async fn wait_for_news(
        &self,
        instance: &str,
        status_version: Option<u64>,
        kv_version: Option<u64>,
        timeout: Duration,
    ) -> Result<Option<Status>, ClientError> {
        let seen = SeenVersions { status_version, kv_version };
        self.news(&InstanceId::new(instance)?, seen, timeout).await
    }

    async fn wait_for(
        &self,
        instance: &InstanceId,
        seen: SeenVersions,
        timeout: Duration,
    ) -> Result<Status, ClientError> {
        match self.news(instance, seen, timeout).await? {
            Some(status) => Ok(status),
            None => Status::of(self.admin("read instances")?.instance(instance).await?),
        }
    }

    async fn news(
        &self,
        instance: &InstanceId,
        seen: SeenVersions,
        timeout: Duration,
    ) -> Result<Option<Status>, ClientError> {
        let admin = self.admin("wait for instances")?;
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = admin.wait(instance, seen, left.min(WAIT_MAX)).await?;
            match waited {
                Some(watched) => return Status::of(watched).map(Some),
                None if left.is_zero() => return Ok(None),
                None => {}
            }
        }
    }
}

fn start(
    instance: &str,
    name: &str,
    version: Option<String>,
    input: Json,
) -> Result<FlowMessage, ClientError> {
    Ok(FlowMessage::StartOrchestration {
        instance: InstanceId::new(instance)?,
        name: OrchestrationName::new(name)?,
        version,
        input,
        parent: None,
    })
}
