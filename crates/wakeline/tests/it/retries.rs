//! Tests that activities waiting for a retry can be listed.

use std::time::Duration;

use wakeline::provider::PendingActivity;
use wakeline::{
    ActivityContext, Backoff, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime,
};

use crate::support::{Store, eventually};

const HOUR_LATER: Backoff = Backoff::Fixed { delay_ms: 3_600_000 };

async fn charge(_: ActivityContext, (): ()) -> Result<(), FlowError> {
    Err(FlowError::application("card\0declined"))
}

async fn order(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.activity::<_, ()>("charge", ()).attempts(3).backoff(HOUR_LATER).await
}

#[tokio::test]
async fn a_retried_activity_shows_attempts_last_error_and_next_attempt() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let registry = Registry::builder().orchestration("order", order).activity("charge", charge);
        let registry = registry.build().expect("a registry");
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        client.start("o", "order", &()).await.expect("started");
        let pending = async || client.pending_activities("o", 10).await.expect("read");
        let failed = async || pending().await.iter().any(|one| one.last_error.is_some());
        eventually("a try has failed", failed).await;
        let PendingActivity { name, attempts, running, last_error, next_try_at, .. } =
            pending().await.remove(0);
        assert_eq!((name.as_str(), attempts, running), ("charge", 1, false), "{}", store.name());
        let error = last_error.expect("it was just seen");
        assert!(error.starts_with("card") && error.ends_with("declined"), "{error:?}");
        assert!(next_try_at.is_some(), "{}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}
