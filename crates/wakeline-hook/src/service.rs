//! The hook face's operations, each one store call followed by its hints.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    ApplicationRef, AttemptId, Change, EndpointRef, HookChange, HookMessageId, HookWhat, JobId,
    MESSAGE_PAYLOAD_BYTES_MAX, MessageRef, Timestamp,
};
use wakeline_seal::KeyRing;
use wakeline_store::hook::{DeliveryFilter, HookBackend, Job, JobKind, JobSpec, ResendOutcome};
use wakeline_store::{Carried, HintOrigin, HintSink, LinkState, StoreError};
use wakeline_wake::{HintSource, Hub, HubOptions, Link, LongPollConfig, Snapshot, WakeMode};

use crate::dispatch::{DispatchOptions, Dispatcher, Unopened};
use crate::error::HookError;
use crate::event_types::EventTypes;
use crate::face::HookFace;
use crate::guard::Guard;
use crate::meters::Meters;
use crate::secrets::Vault;
use crate::send::request::{Envelope, headers};
use crate::send::{Call, PingReport, SendOptions, Sender};
use crate::shares::Shares;

/// Connections that are kept for each slot, in use and idle.
const CONNECTIONS_PER_SLOT: usize = 2;

/// How the hook face runs on this node.
#[derive(Debug, Clone)]
pub struct HookServiceOptions {
    /// How senders and pulling clients learn of work.
    pub mode: WakeMode,
    /// The settings of long polling.
    pub long_poll: LongPollConfig,
    /// How many deliveries are sent at a time, and how they are fetched.
    pub dispatch: DispatchOptions,
    /// How endpoints are called.
    pub send: SendOptions,
    /// Keys for secrets and headers. Without them no endpoint can be made, and this node sends
    /// nothing.
    pub keys: Option<Arc<KeyRing>>,
    /// Most bytes of a message's payload. 1 MiB.
    pub payload_bytes_max: usize,
}

impl Default for HookServiceOptions {
    fn default() -> Self {
        Self {
            mode: WakeMode::default(),
            long_poll: LongPollConfig::default(),
            dispatch: DispatchOptions::default(),
            send: SendOptions::default(),
            keys: None,
            payload_bytes_max: MESSAGE_PAYLOAD_BYTES_MAX,
        }
    }
}

/// The hook face's operations. Cheap to clone.
#[derive(Clone)]
pub struct HookService {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn HookBackend>,
    pub(crate) hub: Hub<HookFace>,
    pub(crate) sender: Sender,
    pub(crate) vault: Vault,
    pub(crate) meters: Arc<Meters>,
    pub(crate) dispatch: DispatchOptions,
    /// Of the slots for anything.
    pub(crate) shares: Arc<Shares>,
    pub(crate) user_agent: String,
    pub(crate) max_wait: Duration,
    pub(crate) payload_bytes_max: usize,
    pub(crate) unopened: Unopened,
    event_types: Arc<EventTypes>,
}

impl HookService {
    /// Starts the hub on the current tokio runtime. Deliveries are sent by [`HookService::run`].
    pub fn start(store: Arc<dyn HookBackend>, options: HookServiceOptions) -> Self {
        let meters = Arc::new(Meters::new());
        let shares = Arc::new(options.dispatch.shares());
        let face = HookFace::new(Arc::clone(&store), Arc::clone(&meters), Arc::clone(&shares));
        let max_wait = options.long_poll.max_wait_time;
        let slots = usize::try_from(options.dispatch.slots).unwrap_or(usize::MAX);
        let connections_max = slots.max(1).saturating_mul(CONNECTIONS_PER_SLOT);
        let hub = Hub::start(
            Arc::new(face),
            HubOptions { label: "hook", mode: options.mode, long_poll: options.long_poll },
        );
        let inner = Inner {
            store,
            hub,
            sender: Sender::new(&options.send, connections_max),
            vault: Vault::new(options.keys),
            meters,
            dispatch: options.dispatch,
            shares,
            user_agent: options.send.user_agent,
            max_wait,
            payload_bytes_max: options.payload_bytes_max,
            unopened: Unopened::default(),
            event_types: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sends deliveries and does background work until `shutdown`; then calls under way finish
    /// within the grace, and what was not sent is given back. A node without slots or without a
    /// key ring does neither.
    pub async fn run(&self, shutdown: CancellationToken) {
        if let Some(reason) = self.sends_nothing() {
            tracing::warn!(reason, "webhooks are off on this node, and left to others");
            return shutdown.cancelled().await;
        }
        Dispatcher::new(Arc::clone(&self.inner)).run(shutdown).await;
    }

    /// Why this node sends no webhooks, if it does not.
    pub fn sends_nothing(&self) -> Option<&'static str> {
        if self.inner.dispatch.slots == 0 {
            return Some("hook_slots is 0");
        }
        (!self.inner.vault.has_keys()).then_some("no encryption key")
    }

    /// Takes hints in: for who listens on behalf of several faces.
    pub fn sink(&self) -> Arc<dyn HintSink> {
        Arc::new(HubSink {
            hub: self.inner.hub.clone(),
            event_types: Arc::clone(&self.inner.event_types),
        })
    }

    /// Whether hints wake anybody here; in poll mode they do not.
    pub fn uses_hints(&self) -> bool {
        self.inner.hub.mode().uses_hints()
    }

    /// The store, for reading.
    pub fn store(&self) -> &Arc<dyn HookBackend> {
        &self.inner.store
    }

    /// Waiters, claims and state of the wake layer.
    pub fn wake_snapshot(&self) -> Snapshot {
        self.inner.hub.snapshot()
    }

    /// Answers all who wait, and lets nobody wait any more: senders stop fetching.
    pub fn drain(&self) {
        self.inner.hub.drain();
    }

    /// Waits until no claim is under way and what was claimed for nobody is released. Meant to
    /// follow [`HookService::drain`], before the store is closed.
    pub async fn settled(&self) {
        self.inner.hub.settled().await;
    }

    /// Makes one more attempt for a delivery.
    pub async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<ResendOutcome, HookError> {
        let (store, application) = (self.shared_store(), application.clone());
        let (message, endpoint) = (message.clone(), endpoint.clone());
        self.to_the_end(async move { store.resend(&application, &message, &endpoint).await }).await
    }

    /// Cancels what waits of a message. How many; `None` if there is no such message.
    pub async fn cancel(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Result<Option<u64>, HookError> {
        let (store, application) = (self.shared_store(), application.clone());
        let (message, endpoint) = (message.clone(), endpoint.cloned());
        let cancelling = async move {
            let cancelled = store.cancel(&application, &message, endpoint.as_ref()).await?;
            let (count, changes) = cancelled.unzip();
            Ok((count, changes.unwrap_or_default()))
        };
        self.to_the_end(cancelling).await
    }

    /// Removes the payload of a message. False if there is no such message.
    pub async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, HookError> {
        Ok(self.inner.store.expunge_payload(application, message).await?)
    }

    /// Removes what an endpoint answered. False if there is no such attempt.
    pub async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, HookError> {
        Ok(self.inner.store.expunge_response(application, message, attempt).await?)
    }

    /// Makes a job that changes many deliveries; `None` if there is no such application.
    pub async fn start_job(
        &self,
        application: &ApplicationRef,
        kind: JobKind,
        filter: DeliveryFilter,
    ) -> Result<Option<Job>, HookError> {
        let spec = JobSpec { id: JobId::generate(), kind, filter };
        let (store, application) = (self.shared_store(), application.clone());
        self.to_the_end(async move {
            let started = store.start_job(&application, spec).await?;
            Ok(started.map_or((None, Vec::new()), |(job, changes)| (Some(job), changes)))
        })
        .await
    }

    /// Calls an endpoint with a signed `webhook.ping` that is not stored, and says how it
    /// answered. `None` if there is no such endpoint.
    pub async fn ping(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<PingReport>, HookError> {
        let store = &self.inner.store;
        let Some(found) = store.endpoint(application, endpoint).await? else { return Ok(None) };
        if found.options.pull {
            return Err(HookError::invalid(
                "endpoint",
                "is a pull endpoint, which the server does not call: name one with a url",
            ));
        }
        let secrets = store.secrets(application, endpoint).await?;
        let keys = self.inner.vault.open_keys(found.id, &secrets)?;
        let own = self.inner.vault.open_headers(found.id, &found.headers)?;
        let at = jiff::Timestamp::now();
        let body = json!({ "type": "webhook.ping", "timestamp": at.to_string(), "data": {} });
        let body = body.to_string();
        let id = HookMessageId::generate().to_string();
        let envelope = Envelope {
            id: &id,
            at: Timestamp(at.as_microsecond()),
            keys: &keys,
            style: found.options.header_style,
        };
        let headers = headers(&envelope, body.as_bytes(), &own, &self.inner.user_agent);
        let timeout = found.options.timeout;
        let (application, body) = (found.application, body.into());
        let call = Call { application, url: found.url, headers, body, timeout };
        Ok(Some(self.inner.sender.send(call).await.into()))
    }

    pub(crate) fn shared_store(&self) -> Arc<dyn HookBackend> {
        Arc::clone(&self.inner.store)
    }

    pub(crate) fn hub(&self) -> &Hub<HookFace> {
        &self.inner.hub
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.inner.vault
    }

    pub(crate) fn guard(&self) -> &Guard {
        self.inner.sender.guard()
    }

    pub(crate) fn event_types(&self) -> &EventTypes {
        &self.inner.event_types
    }

    /// Runs a store call and gives its hints, to the end: a caller that goes away must not take
    /// the hints of a commit with it.
    pub(crate) async fn to_the_end<T, Call>(&self, call: Call) -> Result<T, HookError>
    where
        T: Send + 'static,
        Call: Future<Output = Result<(T, Vec<HookChange>), StoreError>> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        Carried::new(async move {
            let (value, changes) = call.await?;
            if tell(&inner.hub, &inner.event_types, &changes, HintSource::InProcess) {
                // Those who wait for it go first; the answer to this caller is not urgent.
                tokio::task::yield_now().await;
            }
            Ok(value)
        })
        .await
    }
}

/// Tells all whom changes concern. True if claims are on their way.
fn tell(
    hub: &Hub<HookFace>,
    event_types: &EventTypes,
    changes: &[HookChange],
    source: HintSource,
) -> bool {
    if changes.iter().any(|change| change.what == HookWhat::EventTypes) {
        event_types.forget();
    }
    hub.hint(changes, source)
}

/// Passes a store's hints on to the hub.
struct HubSink {
    hub: Hub<HookFace>,
    event_types: Arc<EventTypes>,
}

impl HintSink for HubSink {
    fn changed(&self, _: &[Change], _: HintOrigin) {}

    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        let source = match origin {
            HintOrigin::InProcess => HintSource::InProcess,
            HintOrigin::Notify => HintSource::Notify,
        };
        tell(&self.hub, &self.event_types, changes, source);
    }

    fn everything(&self) {
        self.event_types.forget();
        self.hub.everything();
    }

    fn link(&self, state: LinkState) {
        self.hub.link(match state {
            LinkState::Up => Link::Up,
            LinkState::Down { reason } => Link::Down { reason },
            LinkState::Off { reason } => Link::Off { reason },
        });
    }
}
