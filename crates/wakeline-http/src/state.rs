//! The state that all routes share.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::Instant;
use wakeline_access::Access;
use wakeline_flow::Client;
use wakeline_flow::provider::StoreProvider;
use wakeline_hook::HookService;
use wakeline_queue::QueueService;
use wakeline_store::{FanOut, HintSink, Maintenance, MaintenanceSet, PushGate, SetMaintenance};

use crate::error::ApiError;

/// How long the result of a store ping is cached for probes.
const PING_KEPT: Duration = Duration::from_millis(500);

/// Limits and defaults of the HTTP API.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// How long a waiting pop waits if the request gives no timeout.
    pub default_timeout: Duration,
    /// How many messages a pop claims if the request gives no batch size.
    pub default_batch_len: u32,
    /// The maximum timeout of a waiting pop.
    pub wait_max: Duration,
    /// The maximum number of messages in a pop, push or ack.
    pub batch_len_max: u32,
    /// A pop claims no more messages once their payloads have this many bytes.
    pub pop_bytes_max: u64,
    /// The maximum size of a request body in bytes.
    pub body_bytes_max: usize,
    /// The time within which a request body must arrive.
    pub body_timeout: Duration,
    /// Origins whose pages may call the API from browsers; `*` allows all, empty allows none.
    pub cors_origins: Vec<String>,
    /// Host names that a server without credentials accepts, in addition to `localhost`, loopback
    /// addresses and the address that it listens on.
    pub allowed_hosts: Vec<String>,
    /// The address that the server listens on.
    pub listen: Option<IpAddr>,
    /// What happens to pushes during a maintenance whose request gives no mode.
    pub maintenance_pushes: PushGate,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(30),
            default_batch_len: 1,
            wait_max: Duration::from_secs(300),
            batch_len_max: 10_000,
            pop_bytes_max: 32 * 1024 * 1024,
            body_bytes_max: 16 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            cors_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            listen: None,
            maintenance_pushes: PushGate::Hold,
        }
    }
}

/// The services that the routes call.
#[derive(Clone)]
pub struct Apis {
    /// The queue service.
    pub queue: QueueService,
    /// The provider of orchestrations.
    pub flow: StoreProvider,
    /// The webhook service.
    pub hook: HookService,
    /// Authentication and permissions.
    pub access: Access,
}

/// The state that all routes share. Cheap to clone.
#[derive(Clone)]
pub struct AppState {
    shared: Arc<AppShared>,
}

struct AppShared {
    apis: Apis,
    flow: Client,
    settings: HttpSettings,
    metrics: Option<PrometheusHandle>,
    draining: AtomicBool,
    /// When the store was last pinged, and with which result.
    pinged: tokio::sync::Mutex<Option<(Instant, Result<Maintenance, ApiError>)>>,
    /// Receives the hints for orchestrations and webhooks that a queue transaction caused.
    others: Arc<dyn HintSink>,
}

impl AppState {
    /// Creates the state from the services. Without a metrics handle, `/metrics` is empty.
    pub fn new(apis: Apis, settings: HttpSettings, metrics: Option<PrometheusHandle>) -> Self {
        let draining = AtomicBool::new(false);
        let flow = Client::new(Arc::new(apis.flow.clone()));
        let others: [Arc<dyn HintSink>; 2] = [Arc::new(apis.flow.clone()), apis.hook.sink()];
        let others = Arc::new(FanOut(others.into()));
        let pinged = tokio::sync::Mutex::default();
        let shared = AppShared { apis, flow, settings, metrics, draining, pinged, others };
        Self { shared: Arc::new(shared) }
    }

    /// Authentication and permissions.
    pub fn access(&self) -> &Access {
        &self.shared.apis.access
    }

    /// The webhook service.
    pub fn hook(&self) -> &HookService {
        &self.shared.apis.hook
    }

    /// The orchestration client.
    pub fn flow(&self) -> &Client {
        &self.shared.flow
    }

    /// The queue service.
    pub fn queue(&self) -> &QueueService {
        &self.shared.apis.queue
    }

    /// The hint sink that wakes waiters of orchestrations and webhooks.
    pub(crate) fn others(&self) -> Arc<dyn HintSink> {
        Arc::clone(&self.shared.others)
    }

    /// Limits and defaults.
    pub fn settings(&self) -> &HttpSettings {
        &self.shared.settings
    }

    /// Marks this node as shutting down and answers all waiting requests.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.shared.apis.queue.drain();
        self.shared.apis.flow.drain();
        self.shared.apis.hook.drain();
    }

    /// Whether this node is shutting down.
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::SeqCst)
    }

    /// Pings the store and returns the maintenance state. The result is cached for a short time,
    /// because anyone may call the probes and not every call should cost a statement.
    pub(crate) async fn ping(&self) -> Result<Maintenance, ApiError> {
        let mut last = self.shared.pinged.lock().await;
        if let Some((at, outcome)) = &*last
            && at.elapsed() < PING_KEPT
        {
            return outcome.clone();
        }
        let outcome = match self.queue().store().ping().await {
            Ok(()) => self.queue().maintenance().await.map_err(ApiError::from),
            Err(error) => Err(error.into()),
        };
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }

    /// Changes the maintenance state and clears the cached ping, so that the next probe sees it.
    pub(crate) async fn set_maintenance(
        &self,
        set: SetMaintenance,
    ) -> Result<MaintenanceSet, ApiError> {
        let done = self.queue().set_maintenance(set).await;
        *self.shared.pinged.lock().await = None;
        Ok(done?)
    }

    pub(crate) fn render_metrics(&self) -> String {
        self.shared.metrics.as_ref().map(PrometheusHandle::render).unwrap_or_default()
    }
}

/// Bucket bounds for latencies, in seconds.
const SECONDS_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0];

/// Bucket bounds for batch sizes.
const COUNT_BUCKETS: [f64; 10] = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 1000.0];

/// Interval at which recorded samples are added to their histogram buckets.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// Installs the process-wide recorder behind `/metrics`. Returns `None` if a recorder is already
/// installed. Must be called within a tokio runtime: a task periodically adds samples to their
/// buckets, because the recorder otherwise keeps each sample until the metrics are read.
pub fn install_metrics() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS_BUCKETS)
        .and_then(|builder| builder.set_buckets(&COUNT_BUCKETS))
        .expect("the bucket lists are not empty");
    let metrics = builder.install_recorder().ok()?;
    let recorded = metrics.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(METRICS_UPKEEP).await;
            recorded.run_upkeep();
        }
    });
    Some(metrics)
}
