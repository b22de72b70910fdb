//! Starting, watching and steering orchestrations from outside.
//!
//! # Where it sits
//! Over a [`Provider`]; needs no runtime in the same process.
//!
//! # Invariants
//! * Waiting never polls: a wait is an intention in the provider's hub like a dispatcher's fetch.
//! * Starting is idempotent by the instance's id.

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
use crate::message::WorkItem;
use crate::provider::{Enqueued, Provider, ProviderAdmin, ProviderError, Seen, envelope};
use crate::registry::Registry;

pub use manage::UNCLAIMED_AFTER;
pub use status::{Instance, Status};

/// The longest single wait in a provider; a longer one is made of several.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Why a client's call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no such instance.
    #[error("there is no instance {0}: check its id")]
    NotFound(InstanceId),
    /// The instance has ended.
    #[error("instance {0} has ended: read its result, or start another instance")]
    Ended(InstanceId),
    /// It did not happen in time.
    #[error(
        "instance {instance} was still {state} after {waited:?}: wait longer, or see its history"
    )]
    TimedOut {
        /// Which.
        instance: InstanceId,
        /// How it stood.
        state: &'static str,
        /// How long the wait was.
        waited: Duration,
    },
    /// The orchestration failed.
    #[error("instance {instance} failed: {error}")]
    Failed {
        /// Which.
        instance: InstanceId,
        /// Why.
        error: FlowError,
    },
    /// A name is not one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A value could not be encoded or decoded.
    #[error("{what} cannot be encoded as JSON, or decoded into the type of the code: {source}")]
    Codec {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The provider does not support the call.
    #[error("this provider cannot {0}: it has no functions for management")]
    Unsupported(&'static str),
    /// The provider failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl ClientError {
    fn codec(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Codec { what, source }
    }
}

/// Whether a start made something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// It will begin.
    New,
    /// The instance exists, or waits to begin; nothing changed.
    Exists,
}

/// Starts, watches and steers orchestrations. A handle.
#[derive(Clone)]
pub struct Client {
    provider: Arc<dyn Provider>,
    /// Whose versions are started where none is named.
    registry: Option<Arc<Registry>>,
}

impl Client {
    /// A client over a provider.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, registry: None }
    }

    /// A client that starts the newest version of this registry where none is named.
    pub(crate) fn with_registry(provider: Arc<dyn Provider>, registry: Arc<Registry>) -> Self {
        Self { provider, registry: Some(registry) }
    }

    /// The provider behind it.
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }

    fn admin(&self, what: &'static str) -> Result<&dyn ProviderAdmin, ClientError> {
        self.provider.admin().ok_or(ClientError::Unsupported(what))
    }

    /// Starts an orchestration. Idempotent by the instance's id.
    ///
    /// The client of a runtime starts the newest version that the runtime has registered. Any other
    /// client names none: whichever worker takes the instance runs its newest version, so that
    /// during a rolling deployment it may be the old one or the new one.
    pub async fn start(
        &self,
        instance: &str,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<Started, ClientError> {
        let input = Json::of(input).map_err(ClientError::codec("the input"))?;
        self.start_raw(instance, name, None, input).await
    }

    /// Starts a certain version of an orchestration. Idempotent by the instance's id.
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

    /// Starts an orchestration whose input is JSON already.
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

    /// Raises an event for an instance that runs or waits for its first turn.
    /// [`ClientError::NotFound`] if there is none: see [`Client::raise_event_early`].
    pub async fn raise_event(
        &self,
        instance: &str,
        name: &str,
        data: &(impl Serialize + Sync + ?Sized),
    ) -> Result<(), ClientError> {
        self.find(instance).await?;
        self.raise_event_early(instance, name, data).await
    }

    /// Raises an event for an instance that may not have been started yet: then the event is kept
    /// under its id, and delivered after its start. Nobody notices if the id is misspelt.
    pub async fn raise_event_early(
        &self,
        instance: &str,
        name: &str,
        data: &(impl Serialize + Sync + ?Sized),
    ) -> Result<(), ClientError> {
        let data = Json::of(data).map_err(ClientError::codec("the event"))?;
        let instance = InstanceId::new(instance)?;
        let name = name.to_owned();
        self.send(WorkItem::EventRaised { instance, name, data }).await
    }

    /// Asks an instance to end. Its code may clean up first; see
    /// [`OrchestrationContext::cancelled`](crate::OrchestrationContext::cancelled).
    /// [`ClientError::NotFound`] if there is none.
    pub async fn cancel(&self, instance: &str, reason: &str) -> Result<(), ClientError> {
        self.find(instance).await?;
        let instance = InstanceId::new(instance)?;
        let reason = reason.to_owned();
        self.send(WorkItem::CancelInstance { instance, reason, parent: None }).await
    }

    /// Fails if there is no such instance. A provider that cannot tell is taken to have it.
    async fn find(&self, instance: &str) -> Result<(), ClientError> {
        let id = InstanceId::new(instance)?;
        let Some(admin) = self.provider.admin() else { return Ok(()) };
        match admin.instance(&id).await? {
            Watched::Missing => Err(ClientError::NotFound(id)),
            Watched::There(_) => Ok(()),
        }
    }

    /// What starts an orchestration as part of a transaction of a store: idempotent by the
    /// instance's id, as [`Client::start_raw`].
    pub fn start_envelope(
        instance: &str,
        name: &str,
        version: Option<String>,
        input: Json,
    ) -> Result<Envelope, ClientError> {
        let start = start(instance, name, version, input)?;
        Ok(envelope::envelope(&start, Visible::Now)?)
    }

    /// What raises an event as part of a transaction of a store.
    pub fn event_envelope(instance: &str, name: &str, data: Json) -> Result<Envelope, ClientError> {
        let instance = InstanceId::new(instance)?;
        let raised = WorkItem::EventRaised { instance, name: name.to_owned(), data };
        Ok(envelope::envelope(&raised, Visible::Now)?)
    }

    async fn send(&self, item: WorkItem) -> Result<(), ClientError> {
        let instance = item.instance().clone();
        match self.provider.enqueue_for_orchestrator(item, None).await? {
            Enqueued::Ended => Err(ClientError::Ended(instance)),
            Enqueued::Queued | Enqueued::Exists => Ok(()),
        }
    }

    /// How an instance stands.
    pub async fn status(&self, instance: &str) -> Result<Status, ClientError> {
        let instance = InstanceId::new(instance)?;
        let watched = self.admin("read instances")?.instance(&instance).await?;
        let mut status = Status::of(watched)?;
        self.note_unclaimed(status.instance_mut().into_iter()).await?;
        Ok(status)
    }

    /// Waits for the end of an instance, and decodes what it returned.
    pub async fn wait<T: DeserializeOwned>(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let id = InstanceId::new(instance)?;
        match self.wait_for(&id, Seen::default(), timeout).await? {
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

    /// Waits until an instance has ended, and says how it stands then, or at the end of the time.
    pub async fn wait_for_end(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<Status, ClientError> {
        self.wait_for(&InstanceId::new(instance)?, Seen::default(), timeout).await
    }

    /// Waits until the status text has a newer version than the one seen (0 for none), or the
    /// instance has ended, or the time is over; says how it stands then.
    pub async fn wait_for_status(
        &self,
        instance: &str,
        seen_version: u64,
        timeout: Duration,
    ) -> Result<Status, ClientError> {
        let seen = Seen { status_version: Some(seen_version), kv_version: None };
        self.wait_for(&InstanceId::new(instance)?, seen, timeout).await
    }

    /// Waits until a key has a value. `None` if the instance ends without one.
    pub async fn wait_for_kv<T: DeserializeOwned>(
        &self,
        instance: &str,
        key: &str,
        timeout: Duration,
    ) -> Result<Option<T>, ClientError> {
        let (id, key) = (InstanceId::new(instance)?, KvKey::new(key)?);
        let deadline = Instant::now() + timeout;
        // The version is read before the value: a change in between wakes the wait.
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
            let seen = Seen { status_version: None, kv_version: Some(kv_version) };
            status = self.wait_for(&id, seen, left).await?;
        }
    }

    /// Waits until an instance has ended, is missing, or has a newer status text or key-value state
    /// than was seen (0 for none); says how it stands then. `None` if the time is over first.
    pub async fn wait_for_news(
        &self,
        instance: &str,
        status_version: Option<u64>,
        kv_version: Option<u64>,
        timeout: Duration,
    ) -> Result<Option<Status>, ClientError> {
        let seen = Seen { status_version, kv_version };
        self.news(&InstanceId::new(instance)?, seen, timeout).await
    }

    async fn wait_for(
        &self,
        instance: &InstanceId,
        seen: Seen,
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
        seen: Seen,
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
) -> Result<WorkItem, ClientError> {
    Ok(WorkItem::StartOrchestration {
        instance: InstanceId::new(instance)?,
        name: OrchestrationName::new(name)?,
        version,
        input,
        parent: None,
    })
}
