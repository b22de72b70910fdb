//! A webhook service with the oracle as its store, and receivers.

mod receiver;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EndpointOptions, EndpointRef, EventTypeName,
    HookMessageId,
};
use wakeline_encryption::EncryptionKeys;
use wakeline_hook::{
    ApplicationIn, Emit, EndpointIn, Guard, HookService, HookServiceOptions, SendOptions,
};
use wakeline_store::hook::{
    Attempt, AttemptFilter, Created, Delivery, EmitOutcome, Endpoint, HookBackend, PageOrder,
    PageRequest,
};
use wakeline_testkit::oracle::MemoryStore;

pub(crate) use receiver::{Answer, Receiver, Request};

/// A time limit that is longer than any step of these tests.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A running webhook service.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn HookBackend>,
    pub(crate) service: HookService,
    pub(crate) shutdown: CancellationToken,
    pub(crate) running: JoinHandle<()>,
    pub(crate) application: ApplicationId,
}

/// Options that allow loopback.
pub(crate) fn options() -> HookServiceOptions {
    HookServiceOptions {
        send: SendOptions { guard: loopback(), ..SendOptions::default() },
        keys: Some(Arc::new(keys())),
        ..HookServiceOptions::default()
    }
}

pub(crate) fn loopback() -> Guard {
    Guard { allow: vec!["127.0.0.0/8".parse().expect("a subnet")], https_only: false }
}

/// Encryption keys that all nodes of a test share.
fn keys() -> EncryptionKeys {
    EncryptionKeys::parse("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("a key")
}

/// Encryption keys that no other node has.
pub(crate) fn other_keys() -> EncryptionKeys {
    EncryptionKeys::parse(&EncryptionKeys::generate("test").expect("random")).expect("a key")
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::with(options()).await
    }

    pub(crate) async fn with(options: HookServiceOptions) -> Self {
        Self::over(Arc::new(MemoryStore::with_real_clock()), options).await
    }

    pub(crate) async fn over(store: Arc<dyn HookBackend>, options: HookServiceOptions) -> Self {
        let service = HookService::start(store.clone(), options);
        let shutdown = CancellationToken::new();
        let (runner, until) = (service.clone(), shutdown.clone());
        let running = tokio::spawn(async move { runner.run(until).await });
        let application = ApplicationIn { name: "app".to_owned(), ..ApplicationIn::default() };
        let made = service.create_application(application, None).await.expect("stored");
        let Created::New(application) = made else { panic!("{made:?}") };
        Self { store, service, shutdown, running, application: application.id }
    }

    pub(crate) fn app(&self) -> ApplicationRef {
        ApplicationRef::Id(self.application)
    }

    pub(crate) async fn endpoint(&self, url: &str, options: EndpointOptions) -> EndpointId {
        let endpoint = EndpointIn { url: url.to_owned(), options, ..EndpointIn::default() };
        self.make(endpoint).await
    }

    pub(crate) async fn make(&self, endpoint: EndpointIn) -> EndpointId {
        let made = self.service.create_endpoint(&self.app(), endpoint, None).await.expect("stored");
        let Created::New(endpoint) = made else { panic!("{made:?}") };
        endpoint.id
    }

    pub(crate) async fn look(&self, endpoint: EndpointId) -> Endpoint {
        let endpoint = EndpointRef::Id(endpoint);
        let found = self.service.store().endpoint(&self.app(), &endpoint).await.expect("read");
        found.expect("it exists")
    }

    pub(crate) async fn emit(&self, payload: &str) -> HookMessageId {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        let emit = Emit::new(self.app(), event_type("invoice.paid"), payload);
        match self.service.emit(emit).await.expect("stored") {
            EmitOutcome::Stored(message, _) => message.id,
            other => panic!("{other:?}"),
        }
    }

    /// The attempts so far, in order.
    pub(crate) async fn attempts(&self) -> Vec<Attempt> {
        let filter = AttemptFilter { with_content: true, ..AttemptFilter::default() };
        let page = PageRequest {
            limit: 1_000,
            after: None,
            order: PageOrder::Ascending,
            backwards: false,
        };
        self.store.attempts(self.application, filter, page).await.expect("read").items
    }

    /// Waits until there are `count` attempts, and returns them.
    pub(crate) async fn attempted(&self, count: usize) -> Vec<Attempt> {
        eventually(async || self.attempts().await.len() >= count).await;
        self.attempts().await
    }

    pub(crate) async fn delivery(&self, to: EndpointId, message: HookMessageId) -> Delivery {
        let found = self.store.deliveries_to(to, vec![message]).await.expect("read");
        found.into_iter().next().flatten().expect("it exists")
    }

    /// Stops the service as a server does.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.service.drain();
        tokio::time::timeout(LONG, self.running).await.expect("it stops").expect("no panic");
        self.service.wait_for_claims().await;
    }
}

pub(crate) fn event_type(name: &str) -> EventTypeName {
    EventTypeName::new(name).expect("valid")
}

/// Waits until a condition holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it comes to hold");
}

/// A schedule of retries with these waits in milliseconds.
pub(crate) fn schedule(millis: &[u64]) -> EndpointOptions {
    let waits = millis.iter().map(|wait| Duration::from_millis(*wait)).collect();
    EndpointOptions { schedule: Some(waits), ..EndpointOptions::default() }
}
