//! Tests from the test plans of the designs on which orchestrations are based (see
//! `docs/reference/designs.md`). The fallback poll comes after an hour, so whatever happens here is
//! caused by a hint, a timer or degraded polling.

mod fetching;
mod idle;
mod own_provider;
mod raw_rows;
mod stress;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use wakeline::core::{Capability, InstanceId, OrchestrationName};
use wakeline::provider::{Enqueued, OrchestrationItem, Provider};
use wakeline::{FlowMessage, Json, LongPollConfig};

const HOUR: Duration = Duration::from_secs(3600);
/// How long a turn is leased.
const LOCK: Duration = HOUR;
/// A poll timeout that no test reaches.
const POLL: Option<Duration> = Some(HOUR);

/// Allows waits of any length, without help from the fallback poll.
fn patient() -> LongPollConfig {
    LongPollConfig {
        fallback_poll_interval: HOUR,
        max_wait_time: HOUR,
        notify_delivery_timeout: HOUR,
        ..LongPollConfig::default()
    }
}

/// Makes degraded polling visible quickly.
fn quick() -> LongPollConfig {
    LongPollConfig {
        degraded_poll_interval: Duration::from_millis(50),
        aggressive_poll_duration: Duration::from_millis(300),
        aggressive_exit_threshold: 3,
        ..patient()
    }
}

/// Creates a message that starts an instance.
fn start(instance: &str) -> FlowMessage {
    FlowMessage::StartOrchestration {
        instance: InstanceId::new(instance).expect("valid"),
        name: OrchestrationName::new("work").expect("valid"),
        version: None,
        input: Json::null(),
        parent: None,
    }
}

/// The capability that an instance of [`start`] needs.
fn capability() -> Capability {
    Capability::new("work").expect("valid")
}

async fn send(provider: &Arc<dyn Provider>, instance: &str, delay: Option<Duration>) {
    let sent = provider.enqueue_for_orchestrator(start(instance), delay).await;
    assert_eq!(sent.expect("sent"), Enqueued::Queued);
}

async fn fetch(
    provider: &Arc<dyn Provider>,
    poll_timeout: Option<Duration>,
) -> Option<OrchestrationItem> {
    provider.fetch_orchestration_item(LOCK, poll_timeout).await.expect("fetched")
}

/// Starts a fetch that waits in the background.
fn waiting(provider: &Arc<dyn Provider>) -> tokio::task::JoinHandle<Option<OrchestrationItem>> {
    let provider = Arc::clone(provider);
    tokio::spawn(async move { fetch(&provider, POLL).await })
}

/// Returns the item of a waiting fetch, which comes long before any fallback poll.
async fn soon(waiting: tokio::task::JoinHandle<Option<OrchestrationItem>>) -> OrchestrationItem {
    let fetched = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    fetched.expect("woken").expect("no panic").expect("an item")
}
