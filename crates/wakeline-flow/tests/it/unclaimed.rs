//! Tests of the metric of unclaimed work.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_flow::{Client, Registry, Runtime, RuntimeOptions, UNCLAIMED_AFTER};
use wakeline_testkit::oracle::MemoryStore;

/// The metric counts as in a server, not only what the runtime fails.
#[tokio::test(start_paused = true)]
async fn unclaimed_work_is_counted_before_it_fails() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = Arc::new(StoreProvider::new(store, StoreProviderOptions::default()));
    let client = Client::new(provider.clone());
    client.start("i", "unknown", &()).await.expect("started");
    tokio::time::sleep(UNCLAIMED_AFTER).await;
    let options = RuntimeOptions {
        unclaimed_timeout: Some(4 * UNCLAIMED_AFTER),
        ..RuntimeOptions::default()
    };
    let registry = Registry::builder().anything_elsewhere().build().expect("a registry");
    let runtime = Runtime::start_with_options(provider, registry, options).await;
    let runtime = runtime.expect("started");
    // Waits for one round.
    tokio::time::sleep(UNCLAIMED_AFTER + Duration::from_secs(1)).await;
    let metrics = handle.render();
    assert!(metrics.contains("wakeline_flow_unclaimed 1"), "{metrics}");
    assert_eq!(client.status("i").await.expect("read").name(), "pending");
    runtime.shutdown(Duration::ZERO).await;
}
