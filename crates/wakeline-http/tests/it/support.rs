//! A node over the in-memory oracle, and helpers that send requests to it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use wakeline_access::{Access, AccessOptions};
use wakeline_encryption::EncryptionKeys;
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_hook::{Guard, HookService, HookServiceOptions, SendOptions};
use wakeline_http::{Apis, AppState, HttpSettings, app};
use wakeline_queue::{QueueService, QueueServiceOptions};
use wakeline_testkit::oracle::MemoryStore;

pub(crate) struct Node {
    pub(crate) app: Router,
    pub(crate) state: AppState,
    pub(crate) flow: StoreProvider,
    pub(crate) store: Arc<MemoryStore>,
    /// The metrics that `/metrics` renders, for tests that install the recorder for their thread.
    pub(crate) recorder: PrometheusRecorder,
    listening: tokio_util::sync::DropGuard,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the answer is JSON")
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().expect("an error text").to_owned()
    }
}

fn keys() -> Arc<EncryptionKeys> {
    let key = EncryptionKeys::generate("test").expect("random");
    Arc::new(EncryptionKeys::parse(&key).expect("a key"))
}

impl Node {
    pub(crate) async fn start() -> Self {
        Self::with(HttpSettings::default()).await
    }

    pub(crate) async fn with(settings: HttpSettings) -> Self {
        Self::over(settings, Some(keys())).await
    }

    pub(crate) async fn over(settings: HttpSettings, keys: Option<Arc<EncryptionKeys>>) -> Self {
        Self::guarded(settings, keys, AccessOptions::default()).await
    }

    /// A node that requires an API key.
    pub(crate) async fn keyed(key: &str) -> Self {
        let access = AccessOptions { api_key: Some(key.to_owned()), ..AccessOptions::default() };
        Self::guarded(HttpSettings::default(), Some(keys()), access).await
    }

    pub(crate) async fn guarded(
        settings: HttpSettings,
        keys: Option<Arc<EncryptionKeys>>,
        access: AccessOptions,
    ) -> Self {
        let store = Arc::new(MemoryStore::with_real_clock());
        let flow = StoreProvider::new(store.clone(), StoreProviderOptions::default());
        let queue = QueueService::start(store.clone(), QueueServiceOptions::default());
        let allow = vec!["127.0.0.0/8".parse().expect("a range")];
        let send = SendOptions { guard: Guard { allow, https_only: false }, ..Default::default() };
        let options = HookServiceOptions { send, keys, ..HookServiceOptions::default() };
        let hook = HookService::start(store.clone(), options);
        let listening = CancellationToken::new();
        let (service, token) = (queue.clone(), listening.clone());
        tokio::spawn(async move { service.listen(token).await });
        let access = Access::start(store.clone(), access).await.expect("the oracle answers");
        let apis = Apis { queue, flow: flow.clone(), hook, access };
        let recorder = PrometheusBuilder::new().build_recorder();
        let state = AppState::new(apis, settings, Some(recorder.handle()));
        let (app, listening) = (app(state.clone()), listening.drop_guard());
        Self { app, state, flow, store, recorder, listening }
    }

    /// A node that runs the background work of queues.
    pub(crate) async fn working() -> Self {
        let node = Self::start().await;
        let (queue, listening) = (node.state.queue().clone(), node.listening.disarm());
        let token = listening.clone();
        tokio::spawn(async move { queue.run(token).await });
        Self { listening: listening.drop_guard(), ..node }
    }

    /// A node that sends webhooks.
    pub(crate) async fn sending() -> Self {
        let node = Self::start().await;
        let (hook, listening) = (node.state.hook().clone(), node.listening.disarm());
        let token = listening.clone();
        tokio::spawn(async move { hook.run(token).await });
        Self { listening: listening.drop_guard(), ..node }
    }

    /// Sends a request and expects a status.
    pub(crate) async fn expect(&self, status: u16, method: &str, path: &str, body: Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.call(method, path, body).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {text}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.app.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        self.call("POST", path, body).await
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<String>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.into()))
            .expect("a request");
        self.send(request).await
    }

    pub(crate) async fn push(&self, queue: &str, ids: &[&str]) -> Value {
        let items: Vec<_> = ids
            .iter()
            .map(|id| json!({"queue": queue, "payload": {"id": id}, "transactionId": id}))
            .collect();
        let answer = self.post("/api/v1/push", json!({"items": items}).to_string());
        let answer = answer.await;
        assert_eq!(answer.status, StatusCode::CREATED, "{:?}", String::from_utf8(answer.body));
        answer.json()
    }

    /// Waits until the given number of pops is waiting.
    pub(crate) async fn parked(&self, count: usize) {
        for _ in 0..1000 {
            if self.state.queue().wake_snapshot().waiters == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{count} pops never parked: {:?}", self.state.queue().wake_snapshot());
    }
}

impl Answer {
    /// Sends a GET request to a router, for tasks that cannot borrow a node.
    pub(crate) async fn of(app: Router, path: &str) -> Self {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let response = app.oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes().to_vec();
        Self { status: parts.status, headers: parts.headers, body }
    }
}
