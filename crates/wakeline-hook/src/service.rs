//! The operations of webhooks. Each is one store call, followed by its hints.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    ApplicationRef, AttemptId, Change, EndpointRef, HookChange, HookChangeKind, HookMessageId,
    JobId, MESSAGE_PAYLOAD_BYTES_MAX, MessageRef, Timestamp,
};
use wakeline_encryption::EncryptionKeys;
use wakeline_store::hook::{
    DeliveryFilter, DeliveryJob, HookBackend, JobKind, JobSpec, ResendOutcome,
};
use wakeline_store::{HintOrigin, HintSink, LinkState, RunToCompletion, StoreError};
use wakeline_wake::{HintSource, Hub, HubOptions, Link, LongPollConfig, Snapshot, WakeMode};

use crate::api::HookApi;
use crate::dispatch::{DispatchOptions, Dispatcher, UndecryptableEndpoints};
use crate::error::HookError;
use crate::event_types::EventTypes;
use crate::guard::Guard;
use crate::meters::HookMeters;
use crate::secrets::EndpointEncryption;
use crate::send::request::{SigningContext, headers};
use crate::send::{EndpointCall, PingReport, SendOptions, Sender};
use crate::shares::Shares;

/// The number of connections that may be open for each slot, in use or idle.
const CONNECTIONS_PER_SLOT: usize = 2;

/// How webhooks run on this node.
#[derive(Debug, Clone)]
pub struct HookServiceOptions {
    /// How senders and pulling clients are notified of deliveries.
    pub mode: WakeMode,
    /// The settings of long polling.
    pub long_poll: LongPollConfig,
    /// How many deliveries are sent at a time, and how they are claimed.
    pub dispatch: DispatchOptions,
    /// How endpoints are called.
    pub send: SendOptions,
    /// The encryption keys for secrets and headers. Without them no endpoint can be created, and
    /// this node sends nothing.
    pub keys: Option<Arc<EncryptionKeys>>,
    /// The maximum size of a message's payload in bytes. The default is 1 MiB.
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

/// The operations of webhooks. Cheap to clone.
#[derive(Clone)]
pub struct HookService {
    pub(crate) inner: Arc<HookServiceInner>,
}

pub(crate) struct HookServiceInner {
    pub(crate) store: Arc<dyn HookBackend>,
    pub(crate) hub: Hub<HookApi>,
    pub(crate) sender: Sender,
    pub(crate) encryption: EndpointEncryption,
    pub(crate) meters: Arc<HookMeters>,
    pub(crate) dispatch: DispatchOptions,
    /// The shares of applications in the general slots.
    pub(crate) shares: Arc<Shares>,
    pub(crate) user_agent: String,
    pub(crate) max_wait: Duration,
    pub(crate) payload_bytes_max: usize,
    pub(crate) undecryptable: UndecryptableEndpoints,
    event_types: Arc<EventTypes>,
}

impl HookService {
    /// Starts the hub on the current tokio runtime. [`HookService::run`] sends the deliveries.
    pub fn start(store: Arc<dyn HookBackend>, options: HookServiceOptions) -> Self {
        let meters = Arc::new(HookMeters::new());
        let shares = Arc::new(options.dispatch.shares());
        let api = HookApi::new(Arc::clone(&store), Arc::clone(&meters), Arc::clone(&shares));
        let max_wait = options.long_poll.max_wait_time;
        let slots = usize::try_from(options.dispatch.slots).unwrap_or(usize::MAX);
        let connections_max = slots.max(1).saturating_mul(CONNECTIONS_PER_SLOT);
        let hub = Hub::start(
            Arc::new(api),
            HubOptions { label: "hook", mode: options.mode, long_poll: options.long_poll },
        );
        let inner = HookServiceInner {
            store,
            hub,
            sender: Sender::new(&options.send, connections_max),
            encryption: EndpointEncryption::new(options.keys),
            meters,
            dispatch: options.dispatch,
            shares,
            user_agent: options.send.user_agent,
            max_wait,
            payload_bytes_max: options.payload_bytes_max,
            undecryptable: UndecryptableEndpoints::default(),
            event_types: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sends deliveries and does background work until `shutdown`. Then calls in progress finish
    /// within the grace period, and deliveries that were not sent are released. A node without
    /// slots or without encryption keys does neither.
    pub async fn run(&self, shutdown: CancellationToken) {
        if let Some(reason) = self.sends_nothing() {
            tracing::warn!(reason, "this node sends no webhooks: other nodes must send them");
            return shutdown.cancelled().await;
        }
        Dispatcher::new(Arc::clone(&self.inner)).run(shutdown).await;
    }

    /// Why this node sends no webhooks, if it does not.
    pub fn sends_nothing(&self) -> Option<&'static str> {
        if self.inner.dispatch.slots == 0 {
            return Some("hook_slots is 0");
        }
        (!self.inner.encryption.has_keys()).then_some("no encryption key")
    }

    /// The sink that receives hints from the store.
    pub fn sink(&self) -> Arc<dyn HintSink> {
        Arc::new(HookHubSink {
            hub: self.inner.hub.clone(),
            event_types: Arc::clone(&self.inner.event_types),
        })
    }

    /// Whether hints wake the waiters of this node; in poll mode they do not.
    pub fn uses_hints(&self) -> bool {
        self.inner.hub.mode().uses_hints()
    }

    /// The store, for reading.
    pub fn store(&self) -> &Arc<dyn HookBackend> {
        &self.inner.store
    }

    /// A snapshot of the waiters, claims and state of the wake hub.
    pub fn wake_snapshot(&self) -> Snapshot {
        self.inner.hub.snapshot()
    }

    /// Ends all waits and allows no new ones: senders stop claiming.
    pub fn drain(&self) {
        self.inner.hub.drain();
    }

    /// Waits until no claim is in progress, and until deliveries claimed for waiters that are gone
    /// are released. Intended to follow [`HookService::drain`], before the store is closed.
    pub async fn wait_for_claims(&self) {
        self.inner.hub.wait_for_claims().await;
    }

    /// Requests one more attempt for a delivery.
    pub async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<ResendOutcome, HookError> {
        let (store, application) = (self.shared_store(), application.clone());
        let (message, endpoint) = (message.clone(), endpoint.clone());
        self.run_to_completion(async move { store.resend(&application, &message, &endpoint).await })
            .await
    }

    /// Cancels the waiting deliveries of a message. Returns how many; `None` if the message does
    /// not exist.
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
        self.run_to_completion(cancelling).await
    }

    /// Removes the payload of a message. Returns false if the message does not exist.
    pub async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, HookError> {
        Ok(self.inner.store.expunge_payload(application, message).await?)
    }

    /// Removes the response of an attempt. Returns false if the attempt does not exist.
    pub async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, HookError> {
        Ok(self.inner.store.expunge_response(application, message, attempt).await?)
    }

    /// Creates a job that changes many deliveries; `None` if the application does not exist.
    pub async fn start_job(
        &self,
        application: &ApplicationRef,
        kind: JobKind,
        filter: DeliveryFilter,
    ) -> Result<Option<DeliveryJob>, HookError> {
        let spec = JobSpec { id: JobId::generate(), kind, filter };
        let (store, application) = (self.shared_store(), application.clone());
        self.run_to_completion(async move {
            let started = store.start_job(&application, spec).await?;
            Ok(started.map_or((None, Vec::new()), |(job, changes)| (Some(job), changes)))
        })
        .await
    }

    /// Calls an endpoint with a signed `webhook.ping` message that is not stored, and reports its
    /// response. `None` if the endpoint does not exist.
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
        let keys = self.inner.encryption.decrypt_keys(found.id, &secrets)?;
        let own = self.inner.encryption.decrypt_headers(found.id, &found.headers)?;
        let at = jiff::Timestamp::now();
        let body = json!({ "type": "webhook.ping", "timestamp": at.to_string(), "data": {} });
        let body = body.to_string();
        let id = HookMessageId::generate().to_string();
        let envelope = SigningContext {
            id: &id,
            at: Timestamp(at.as_microsecond()),
            keys: &keys,
            style: found.options.header_style,
        };
        let headers = headers(&envelope, body.as_bytes(), &own, &self.inner.user_agent);
        let timeout = found.options.timeout;
        let (application, body) = (found.application, body.into());
        let call = EndpointCall { application, url: found.url, headers, body, timeout };
        Ok(Some(self.inner.sender.send(call).await.into()))
    }

    pub(crate) fn shared_store(&self) -> Arc<dyn HookBackend> {
        Arc::clone(&self.inner.store)
    }

    pub(crate) fn hub(&self) -> &Hub<HookApi> {
        &self.inner.hub
    }

    pub(crate) fn encryption(&self) -> &EndpointEncryption {
        &self.inner.encryption
    }

    pub(crate) fn guard(&self) -> &Guard {
        self.inner.sender.guard()
    }

    pub(crate) fn event_types(&self) -> &EventTypes {
        &self.inner.event_types
    }

    /// Runs a store call to completion and publishes its changes, so that the hints of a commit are
    /// not lost if the caller goes away.
    pub(crate) async fn run_to_completion<T, Call>(&self, call: Call) -> Result<T, HookError>
    where
        T: Send + 'static,
        Call: Future<Output = Result<(T, Vec<HookChange>), StoreError>> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        RunToCompletion::new(async move {
            let (value, changes) = call.await?;
            if notify(&inner.hub, &inner.event_types, &changes, HintSource::InProcess) {
                // The woken waiters run first; the result for this caller is not urgent.
                tokio::task::yield_now().await;
            }
            Ok(value)
        })
        .await
    }
}

/// Publishes changes to the hub and the cache of event types. Returns true if claims have begun.
fn notify(
    hub: &Hub<HookApi>,
    event_types: &EventTypes,
    changes: &[HookChange],
    source: HintSource,
) -> bool {
    if changes.iter().any(|change| change.what == HookChangeKind::EventTypes) {
        event_types.forget();
    }
    hub.hint(changes, source)
}

/// Passes the hints of a store on to the hub.
struct HookHubSink {
    hub: Hub<HookApi>,
    event_types: Arc<EventTypes>,
}

impl HintSink for HookHubSink {
    fn changed(&self, _: &[Change], _: HintOrigin) {}

    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        let source = match origin {
            HintOrigin::InProcess => HintSource::InProcess,
            HintOrigin::Notify => HintSource::Notify,
        };
        notify(&self.hub, &self.event_types, changes, source);
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
