//! What samples wait for. Their own limits are for an idle machine: these are longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::{Event, EventKind};

const LIMIT: Duration = Duration::from_secs(60);

/// Whether the history of an instance comes to be as expected.
pub(crate) async fn wait_for_history(
    store: Arc<dyn Provider>,
    instance: &str,
    is_expected: impl Fn(&[Event]) -> bool,
    _limit_ms: u64,
) -> bool {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        if is_expected(&store.read(instance).await.expect("the history is read")) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// Whether an instance comes to wait for an event.
pub(crate) async fn wait_for_subscription(
    store: Arc<dyn Provider>,
    instance: &str,
    event: &str,
    limit_ms: u64,
) -> bool {
    let is_there = |history: &[Event]| {
        history.iter().any(|step| match &step.kind {
            EventKind::ExternalSubscribed { name } | EventKind::QueueSubscribed { name } => {
                name == event
            }
            _ => false,
        })
    };
    wait_for_history(store, instance, is_there, limit_ms).await
}
