//! What every route shares.

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

/// How long probes go by what the store last said.
const PING_KEPT: Duration = Duration::from_millis(500);

/// Limits and defaults of the HTTP face.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// How long a waiting pop waits if it does not say.
    pub default_timeout: Duration,
    /// How many messages a pop takes if it does not say.
    pub default_batch_len: u32,
    /// Longest wait that a pop may ask for.
    pub wait_max: Duration,
    /// Most messages that a pop may ask for, and that a push or ack may carry.
    pub batch_len_max: u32,
    /// Once a pop has so many bytes of payload it takes no more messages.
    pub pop_bytes_max: u64,
    /// Longest request body.
    pub body_bytes_max: usize,
    /// Time in which a request body must have arrived.
    pub body_timeout: Duration,
    /// Origins whose pages may call from browsers; `*` for all. None, unless set.
    pub cors_origins: Vec<String>,
    /// Names by which clients call the server while it asks for no credentials, besides those of
    /// this machine and the address it listens on.
    pub allowed_hosts: Vec<String>,
    /// The address that the server listens on.
    pub listen: Option<IpAddr>,
    /// What becomes of pushes during a maintenance that does not say.
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

/// What the routes are about.
#[derive(Clone)]
pub struct Faces {
    /// Queues.
    pub queue: QueueService,
    /// Orchestrations.
    pub flow: StoreProvider,
    /// Webhooks.
    pub hook: HookService,
    /// Who calls, and what they may do.
    pub access: Access,
}

/// What every route shares. Cheap to clone.
#[derive(Clone)]
pub struct AppState {
    shared: Arc<Shared>,
}

struct Shared {
    faces: Faces,
    flow: Client,
    settings: HttpSettings,
    metrics: Option<PrometheusHandle>,
    draining: AtomicBool,
    /// When the store was last asked whether it answers, and what it said.
    pinged: tokio::sync::Mutex<Option<(Instant, Result<Maintenance, ApiError>)>>,
    /// Who else is told of what a transaction of the queue made available.
    others: Arc<dyn HintSink>,
}

impl AppState {
    /// State over the faces. Without a metrics handle `/metrics` is empty.
    pub fn new(faces: Faces, settings: HttpSettings, metrics: Option<PrometheusHandle>) -> Self {
        let draining = AtomicBool::new(false);
        let flow = Client::new(Arc::new(faces.flow.clone()));
        let others: [Arc<dyn HintSink>; 2] = [Arc::new(faces.flow.clone()), faces.hook.sink()];
        let others = Arc::new(FanOut(others.into()));
        let pinged = tokio::sync::Mutex::default();
        let shared = Shared { faces, flow, settings, metrics, draining, pinged, others };
        Self { shared: Arc::new(shared) }
    }

    /// Who calls, and what they may do.
    pub fn access(&self) -> &Access {
        &self.shared.faces.access
    }

    /// The webhooks' operations.
    pub fn hook(&self) -> &HookService {
        &self.shared.faces.hook
    }

    /// The orchestrations' operations.
    pub fn flow(&self) -> &Client {
        &self.shared.flow
    }

    /// The queue's operations.
    pub fn queue(&self) -> &QueueService {
        &self.shared.faces.queue
    }

    /// Tells waiters of orchestrations and webhooks.
    pub(crate) fn others(&self) -> Arc<dyn HintSink> {
        Arc::clone(&self.shared.others)
    }

    /// Limits and defaults.
    pub fn settings(&self) -> &HttpSettings {
        &self.shared.settings
    }

    /// Says that this node is going away, and answers everyone who waits.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.shared.faces.queue.drain();
        self.shared.faces.flow.drain();
        self.shared.faces.hook.drain();
    }

    /// Whether this node is going away.
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::SeqCst)
    }

    /// Whether the store answers, and what is suspended, as of a moment ago: probes are open to
    /// everybody, and must not cost a statement each.
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

    /// Suspends or resumes, and lets the next probe see it.
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

/// Bucket bounds for counts of things handled together.
const COUNT_BUCKETS: [f64; 10] = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 1000.0];

/// How often recorded samples are added to their buckets.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// Installs the process-wide recorder behind `/metrics`. `None` if another one was there before.
/// Must be called in a runtime: a task adds samples to their buckets, because the recorder keeps
/// each of them until then or until somebody reads the metrics.
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
