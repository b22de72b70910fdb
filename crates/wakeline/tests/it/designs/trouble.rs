//! Tests that lost listeners, lost connections and hints without a claim cost only latency.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::core::{FlowChange, FlowChangeKind};
use wakeline::provider::Provider;
use wakeline::{
    Client, FlowError, LongPollConfig, NotifyMode, OrchestrationContext, PostgresOptions,
    PostgresProvider, Registry, Runtime, RuntimeOptions,
};
use wakeline_store::{HintOrigin, HintSink};

use super::{HOUR, capability, patient, quick, send, soon, waiting};
use crate::support::{Database, Proxy, eventually};

async fn connect(options: PostgresOptions, long_poll: LongPollConfig) -> PostgresProvider {
    PostgresProvider::connect(options, long_poll).await.expect("connected")
}

/// Creates a node whose calls go through a proxy while its listener does not.
async fn cuttable(database: &Database, long_poll: LongPollConfig) -> (Proxy, PostgresProvider) {
    let proxy = database.proxy().await;
    let options = PostgresOptions {
        url: database.url_through(&proxy),
        listen_url: Some(database.0.url()),
        ..database.options()
    };
    (proxy, connect(options, long_poll).await)
}

fn degraded(node: &PostgresProvider) -> bool {
    node.snapshot().degraded.is_some()
}

async fn linked(node: &PostgresProvider) {
    let up = || async { node.snapshot().link == wakeline::Link::Up && !degraded(node) };
    eventually("the listener is up", up).await;
}

/// The design's `test_listener_reconnects_on_failure` and
/// `test_falls_back_to_polling_on_listener_failure`.
#[tokio::test]
async fn a_lost_listener_is_replaced_by_polling_until_it_reconnects() {
    let database = Database::create().await;
    let proxy = database.proxy().await;
    let listen_url = Some(database.url_through(&proxy));
    let node = connect(PostgresOptions { listen_url, ..database.options() }, quick()).await;
    let (fetcher, sender): (Arc<dyn Provider>, Arc<dyn Provider>) =
        (Arc::new(node.clone()), Arc::new(database.node(patient()).await));
    linked(&node).await;
    let fetching = waiting(&fetcher);
    proxy.cut();
    eventually("the loss is noticed", || async { degraded(&node) }).await;
    send(&sender, "during the cut", None).await;
    assert_eq!(soon(fetching).await.instance.as_str(), "during the cut");

    let fetching = waiting(&fetcher);
    proxy.restore();
    linked(&node).await;
    let wakes = node.snapshot().counters.wakes;
    send(&sender, "after the cut", None).await;
    assert_eq!(soon(fetching).await.instance.as_str(), "after the cut");
    let woken = node.snapshot().counters.wakes;
    assert!(woken.notify > wakes.notify, "by a notification: {woken:?}");
    assert_eq!(woken.fallback, 0);
}

/// The design's `test_enters_aggressive_mode_on_db_error`.
#[tokio::test]
async fn failing_claims_are_repeated_by_polling_until_they_succeed_again() {
    let database = Database::create().await;
    let (proxy, node) = cuttable(&database, quick()).await;
    let (fetcher, sender): (Arc<dyn Provider>, Arc<dyn Provider>) =
        (Arc::new(node.clone()), Arc::new(database.node(patient()).await));
    linked(&node).await;
    let fetching = waiting(&fetcher);
    super::fetching::parked(&crate::support::Node::Postgres(node.clone()), 1).await;
    proxy.cut();
    send(&sender, "a", None).await;
    eventually("a claim fails", || async { degraded(&node) }).await;
    // Much longer than degraded polling lasts by itself: it continues while claims fail.
    tokio::time::sleep(3 * quick().aggressive_poll_duration).await;
    assert!(degraded(&node), "still in trouble");
    proxy.restore();
    assert_eq!(soon(fetching).await.instance.as_str(), "a");
    let fetching = waiting(&fetcher);
    eventually("polling ends", || async { !degraded(&node) }).await;
    fetching.abort();
}

/// The design's `test_stays_aggressive_during_intermittent_errors`.
#[tokio::test]
async fn intermittent_claim_failures_extend_degraded_polling() {
    let database = Database::create().await;
    // Two seconds of successful claims would end it; the proxy never lets them through for so long.
    let config = LongPollConfig { aggressive_exit_threshold: 40, ..quick() };
    let (proxy, node) = cuttable(&database, config.clone()).await;
    let fetcher: Arc<dyn Provider> = Arc::new(node.clone());
    linked(&node).await;
    let fetching = waiting(&fetcher);
    super::fetching::parked(&crate::support::Node::Postgres(node.clone()), 1).await;
    let began = Instant::now();
    let claims = || node.snapshot().counters.claims;
    while began.elapsed() < 2 * config.aggressive_poll_duration {
        let before = claims();
        proxy.cut();
        if before.error == 0 {
            node.flow_changed(
                &[FlowChange::now(FlowChangeKind::Turn(capability()))],
                HintOrigin::Notify,
            );
        }
        eventually("a claim fails", || async { claims().error > before.error }).await;
        let before = claims();
        proxy.restore();
        eventually("a claim succeeds", || async { claims().empty > before.empty }).await;
        assert!(degraded(&node), "one clean claim does not end it");
    }
    eventually("polling ends", || async { !degraded(&node) }).await;
    fetching.abort();
}

/// The design's `test_enters_aggressive_when_notify_delivery_times_out`.
#[tokio::test]
async fn a_hint_without_a_claim_in_time_starts_degraded_polling() {
    let database = Database::create().await;
    let config = LongPollConfig { notify_delivery_timeout: Duration::from_millis(100), ..quick() };
    let node = database.node(config).await;
    let fetcher: Arc<dyn Provider> = Arc::new(node.clone());
    linked(&node).await;
    let fetching = waiting(&fetcher);
    super::fetching::parked(&crate::support::Node::Postgres(node.clone()), 1).await;
    let mut session = database.0.client().await;
    let holding = session.transaction().await.expect("begun");
    holding.batch_execute("LOCK TABLE wakeline.flow_lanes").await.expect("held");
    let hint = FlowChange::now(FlowChangeKind::Turn(capability()));
    node.flow_changed(&[hint], HintOrigin::Notify);
    eventually("the delay is noticed", || async { degraded(&node) }).await;
    let reason = node.snapshot().degraded.map(|degraded| degraded.reason);
    let reason = reason.unwrap_or_default();
    assert!(reason.contains("notify_delivery_timeout"), "{reason}");
    holding.rollback().await.expect("let go");
    eventually("polling ends", || async { !degraded(&node) }).await;
    let sender: Arc<dyn Provider> = Arc::new(database.node(patient()).await);
    send(&sender, "a", None).await;
    assert_eq!(soon(fetching).await.instance.as_str(), "a");
}

#[tokio::test]
async fn without_listen_a_node_polls_and_reports_it() {
    let database = Database::create().await;
    let off = PostgresOptions { notify: NotifyMode::Off, ..database.options() };
    let node = connect(off.clone(), quick()).await;
    let (fetcher, sender): (Arc<dyn Provider>, Arc<dyn Provider>) =
        (Arc::new(node.clone()), Arc::new(connect(off, quick()).await));
    let fetching = waiting(&fetcher);
    eventually("it says so", || async { degraded(&node) }).await;
    send(&sender, "a", None).await;
    assert_eq!(soon(fetching).await.instance.as_str(), "a");
}

/// The design's `RuntimeOptions.dispatcher_idle_sleep`, which controls the aggressive rate.
#[tokio::test]
async fn a_runtime_polls_at_its_own_interval_and_not_at_that_of_its_provider() {
    let database = Database::create().await;
    let off = PostgresOptions { notify: NotifyMode::Off, ..database.options() };
    let slow = LongPollConfig { degraded_poll_interval: HOUR, ..patient() };
    let client = Client::new(Arc::new(connect(off.clone(), patient()).await));
    // The second interval is the default, which is applied as well.
    for idle_sleep in [Duration::from_millis(50), Duration::from_millis(100)] {
        let node = connect(off.clone(), slow.clone()).await;
        let code = async |_: OrchestrationContext, (): ()| Ok::<_, FlowError>(());
        let registry = Registry::builder().orchestration("work", code).build();
        let options = RuntimeOptions {
            dispatcher_idle_sleep: idle_sleep,
            dispatcher_long_poll_timeout: Some(HOUR),
            ..RuntimeOptions::default()
        };
        let (provider, registry) = (Arc::new(node.clone()), registry.expect("no name twice"));
        let runtime = Runtime::start_with_options(provider, registry, options).await;
        let runtime = runtime.expect("started");
        let empty = || node.snapshot().counters.claims.empty;
        let before = empty();
        eventually("it claims again and again", || async { empty() >= before + 10 }).await;
        let id = format!("after {idle_sleep:?}");
        client.start(&id, "work", &()).await.expect("started");
        let ended = client.wait::<()>(&id, Duration::from_secs(30)).await;
        ended.expect("picked up from elsewhere");
        runtime.shutdown(HOUR).await;
    }
}
