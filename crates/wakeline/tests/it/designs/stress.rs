//! Runs many orchestrations at the same time, for two seconds or longer with `--long`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wakeline::{
    ActivityContext, Client, FlowError, OrchestrationContext, Registry, Runtime, RuntimeOptions,
};

use super::{HOUR, patient};
use crate::support::{Store, long};

/// The number of orchestrations at the same time.
const CONCURRENT: usize = 20;
/// The number of activities of each, one after the other.
const ACTIVITIES: u32 = 5;
const ACTIVITY: Duration = Duration::from_millis(10);

fn duration() -> Duration {
    Duration::from_secs(if long() { 30 } else { 2 })
}

fn registry() -> Registry {
    let activity = async |_: ActivityContext, n: u32| {
        tokio::time::sleep(ACTIVITY).await;
        Ok::<_, FlowError>(n)
    };
    let orchestration = async |ctx: OrchestrationContext, (): ()| {
        let mut sum = 0;
        for n in 1..=ACTIVITIES {
            sum += ctx.activity::<_, u32>("task", n).await?;
        }
        Ok::<_, FlowError>(sum)
    };
    let registry = Registry::builder().orchestration("stress", orchestration);
    registry.activity("task", activity).build().expect("no name twice")
}

/// Starts one orchestration after the other until the time is up; every one must complete.
async fn load(client: Client, name: usize, completed: Arc<AtomicU64>) {
    let began = Instant::now();
    for round in 0.. {
        if began.elapsed() >= duration() {
            return;
        }
        let id = format!("{name}-{round}");
        client.start(&id, "stress", &()).await.expect("started");
        let sum: u32 = client.wait(&id, HOUR).await.expect("none fails");
        assert_eq!(sum, (1..=ACTIVITIES).sum::<u32>());
        completed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The design's `stress_test_long_poll_throughput`: 20 orchestrations at once, five activities of
/// 10 ms each, four dispatchers of each kind; 30 seconds with `--long`. None fails.
#[tokio::test]
async fn twenty_orchestrations_at_once_all_complete() {
    for store in Store::both().await {
        let provider = store.node(patient()).await.provider();
        let options = RuntimeOptions {
            orchestration_concurrency: 4,
            worker_concurrency: 4,
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(provider, registry(), options).await;
        let runtime = runtime.expect("started");
        let completed = Arc::new(AtomicU64::new(0));
        let load = |name| load(runtime.client(), name, Arc::clone(&completed));
        futures_util::future::join_all((0..CONCURRENT).map(load)).await;
        let completed = completed.load(Ordering::Relaxed);
        eprintln!("{}: {completed} orchestrations in {:?}", store.name(), duration());
        assert!(completed >= CONCURRENT as u64, "everybody completed at least one");
        runtime.shutdown(HOUR).await;
    }
}
