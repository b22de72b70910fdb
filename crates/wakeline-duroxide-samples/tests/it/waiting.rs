//! The waits of the samples, with longer limits than the original ones for an idle machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::{Event, EventKind};

const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the history of an instance is as expected; returns false at the timeout.
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

/// Waits until an instance waits for an event; returns false at the timeout.
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
