//! Tests of behaviour that duroxide's suite does not cover: waiting fetches are woken, and
//! providers over one store work together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, Provider, ProviderAdmin, SemverRange, TagFilter,
    WorkItem,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{
    ActivityContext, Client, Event, EventKind, OrchestrationContext, OrchestrationRegistry,
};
use semver::Version;
use wakeline_duroxide::{DuroxideProvider, DuroxideStore, Link, LongPollConfig};

use crate::stores::TestStore;

const LEASE: Duration = Duration::from_secs(30);
/// Longer than a test may take, so that a fetch that is not woken fails the test.
const WAIT: Duration = Duration::from_secs(25);
const SOON: Duration = Duration::from_secs(10);
/// Far more than a wake takes, and far less than the hour after which a sweep would come.
const WAKE_MEDIAN_MAX: Duration = Duration::from_millis(250);

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Greet".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn poke(instance: &str) -> WorkItem {
    let (name, data) = ("poke".to_owned(), String::new());
    WorkItem::ExternalRaised { instance: instance.to_owned(), name, data }
}

fn up_to(major: u64) -> DispatcherCapabilityFilter {
    let range = SemverRange::new(Version::new(0, 0, 0), Version::new(major, 0, 0));
    DispatcherCapabilityFilter { supported_duroxide_versions: vec![range] }
}

/// Fetches the only turn at once.
async fn fetch(provider: &dyn Provider) -> (duroxide::providers::OrchestrationItem, String) {
    let fetched = provider.fetch_orchestration_item(LEASE, Duration::ZERO, None).await;
    let (item, token, _) = fetched.expect("it is answered").expect("there is a turn");
    (item, token)
}

/// Acknowledges the first turn of an instance, pinned to a version, with a message to itself.
async fn begin(provider: &dyn Provider, instance: &str, token: &str, version: Version) {
    let started = EventKind::OrchestrationStarted {
        name: "Greet".to_owned(),
        version: "1.0.0".to_owned(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let metadata = ExecutionMetadata {
        orchestration_name: Some("Greet".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        pinned_duroxide_version: Some(version),
        ..ExecutionMetadata::default()
    };
    let history = vec![Event::with_event_id(1, instance, 1, None, started)];
    let messages = vec![poke(instance)];
    let acked =
        provider.ack_orchestration_item(token, 1, history, vec![], messages, metadata, vec![]);
    acked.await.expect("it is committed");
}

pub(crate) async fn a_waiting_fetch_is_served_by_an_enqueue<S: TestStore>() {
    let store = S::open(true).await;
    let provider = store.provider().clone();
    let waiting = tokio::spawn({
        let provider = provider.clone();
        async move { provider.fetch_orchestration_item(LEASE, WAIT, None).await }
    });
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("a turn").0.instance, "a");
    store.close().await;
}

/// The provider of another process shares only the data with the one that waits.
pub(crate) async fn a_waiting_fetch_is_woken_by_another_process<S: TestStore>() {
    let store = S::open(true).await;
    let waiting = tokio::spawn({
        let provider = store.provider().clone();
        async move { provider.fetch_orchestration_item(LEASE, WAIT, None).await }
    });
    let other = store.second_provider().await;
    other.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("a turn").0.instance, "a");
    other.close().await;
    store.close().await;
}

fn hello(instance: &str) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id: 2,
        name: "hello".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

pub(crate) async fn a_waiting_worker_is_woken_by_another_process<S: TestStore>() {
    let store = S::open(true).await;
    let waiting = tokio::spawn({
        let provider = store.provider().clone();
        async move { provider.fetch_work_item(LEASE, WAIT, None, &TagFilter::DefaultOnly).await }
    });
    let other = store.second_provider().await;
    other.enqueue_for_worker(hello("a")).await.expect("stored");
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("an activity").0, hello("a"));
    other.close().await;
    store.close().await;
}

/// Waits until the only fetch of a provider waits, and commits of others reach it.
async fn is_parked<S: Send + Sync + 'static>(provider: &DuroxideProvider<S>) {
    let started = Instant::now();
    loop {
        let hub = provider.snapshot();
        let claims = hub.claims_in_flight + hub.claims_queued;
        if (hub.waiters, claims, &hub.link) == (1, 0, &Link::Up) {
            return;
        }
        assert!(started.elapsed() < SOON, "it is not parked: {hub:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the time from the answer to an enqueue until a waiting fetch of another provider
/// returns.
async fn wake<S: Send + Sync + 'static>(
    waiting: &DuroxideProvider<S>,
    other: &DuroxideProvider<S>,
) -> Duration {
    let fetching = tokio::spawn({
        let waiting = waiting.clone();
        async move {
            let fetched = waiting.fetch_work_item(LEASE, WAIT, None, &TagFilter::DefaultOnly).await;
            (fetched, Instant::now())
        }
    });
    is_parked(waiting).await;
    other.enqueue_for_worker(hello("a")).await.expect("stored");
    let stored = Instant::now();
    let fetched = tokio::time::timeout(SOON, fetching).await.expect("woken");
    let (fetched, returned) = fetched.expect("no panic");
    let (item, token, _) = fetched.expect("answered").expect("an activity");
    assert_eq!(item, hello("a"));
    waiting.ack_work_item(&token, None).await.expect("acknowledged");
    returned.saturating_duration_since(stored)
}

pub(crate) async fn providers_that_share_only_the_data_wake_each_other_soon<S: TestStore>() {
    let store = S::open(true).await;
    let (one, other) = (store.provider().clone(), store.second_provider().await);
    let mut wakes = Vec::new();
    for _ in 0..10 {
        wakes.push(wake(&one, &other).await);
        wakes.push(wake(&other, &one).await);
    }
    wakes.sort_unstable();
    assert!(wakes[wakes.len() / 2] < WAKE_MEDIAN_MAX, "{wakes:?}");
    for provider in [one, other] {
        let hub = provider.snapshot();
        assert!(hub.counters.wakes.notify >= 10, "by hints of the other one: {hub:?}");
        provider.close().await;
    }
    store.close().await;
}

/// The listener of a dropped provider ends, which was the last holder of the store.
pub(crate) async fn a_dropped_provider_closes_its_connections<S: TestStore>() {
    let store = S::open(true).await;
    // The connections that the store's own provider opens to notify others.
    store.second_provider().await.close().await;
    let before = store.connections().await;
    let other = store.second_provider().await;
    other.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    drop(fetch(&other).await);
    assert!(store.connections().await > before);
    let clone = other.clone();
    drop(other);
    clone.read("a").await.expect("a clone keeps the store open");
    drop(clone);
    let started = Instant::now();
    while store.connections().await > before {
        assert!(started.elapsed() < SOON, "connections were left behind");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.close().await;
}

/// Whether fetches of these providers wait for their whole poll timeout.
pub(crate) async fn fetches_wait<S: Send + Sync + 'static>(
    providers: &[DuroxideProvider<S>],
    expected: bool,
) {
    for provider in providers {
        let span = if expected { Duration::from_millis(300) } else { WAIT };
        let started = Instant::now();
        let fetched = provider.fetch_orchestration_item(LEASE, span, None).await;
        assert!(fetched.expect("answered").is_none());
        assert_eq!(started.elapsed() >= span, expected, "{:?}", started.elapsed());
    }
}

/// Asserts that each provider finds what the other one stores.
pub(crate) async fn share_one_store<S: Send + Sync + 'static>(
    one: &DuroxideProvider<S>,
    other: &DuroxideProvider<S>,
) {
    let instance = uuid::Uuid::new_v4().to_string();
    one.enqueue_for_orchestrator(start(&instance), None).await.expect("stored");
    // An instance of an earlier call may have another turn.
    for _ in 0..2 {
        let (item, token) = fetch(other).await;
        if item.instance == instance {
            begin(other, &instance, &token, Version::new(0, 1, 32)).await;
            return;
        }
    }
    panic!("what one provider stored is not found through the other");
}

/// Options with long polling switched off.
pub(crate) fn switched_off() -> LongPollConfig {
    LongPollConfig { enabled: false, ..LongPollConfig::default() }
}

/// Providers of the default schema and of another one in turn, opened by all constructors that wait
/// and by the one that was configured not to.
pub(crate) async fn constructors_wait<S: DuroxideStore + 'static>(
    waiting: [DuroxideProvider<S>; 4],
    still: [DuroxideProvider<S>; 2],
) {
    fetches_wait(&waiting, true).await;
    fetches_wait(&still, false).await;
    for (place, provider) in waiting.iter().enumerate() {
        wake(provider, &still[place % 2]).await;
    }
    share_one_store(&waiting[0], &still[0]).await;
    share_one_store(&waiting[1], &still[1]).await;
    for provider in waiting.iter().chain(&still) {
        provider.close().await;
    }
}

pub(crate) async fn a_waiting_worker_is_served_by_a_turn<S: TestStore>() {
    let store = S::open(true).await;
    let provider = store.provider().clone();
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let (_, token) = fetch(&provider).await;
    let waiting = tokio::spawn({
        let provider = provider.clone();
        async move { provider.fetch_work_item(LEASE, WAIT, None, &TagFilter::DefaultOnly).await }
    });
    let work = hello("a");
    let metadata = ExecutionMetadata::default();
    let items = vec![work.clone()];
    let acked = provider.ack_orchestration_item(&token, 1, vec![], items, vec![], metadata, vec![]);
    acked.await.expect("committed");
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("an activity").0, work);
    store.close().await;
}

pub(crate) async fn a_waiting_fetch_finds_a_version_that_was_unknown<S: TestStore>() {
    let store = S::open(true).await;
    let provider = store.provider().clone();
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let (_, token) = fetch(&provider).await;
    let waiting = tokio::spawn({
        let provider = provider.clone();
        async move { provider.fetch_orchestration_item(LEASE, WAIT, Some(&up_to(9))).await }
    });
    begin(&provider, "a", &token, Version::new(7, 1, 0)).await;
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("a turn").0.messages, [poke("a")]);
    store.close().await;
}

pub(crate) async fn a_filter_finds_versions_that_another_provider_pinned<S: TestStore>() {
    let store = S::open(true).await;
    let provider = store.provider().clone();
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let (_, token) = fetch(&provider).await;
    begin(&provider, "a", &token, Version::new(7, 1, 0)).await;
    let other = store.second_provider().await;
    let refused = other.fetch_orchestration_item(LEASE, Duration::ZERO, Some(&up_to(7))).await;
    assert!(refused.expect("answered").is_none(), "7.1.0 is beyond 7.0.0");
    let found = other.fetch_orchestration_item(LEASE, Duration::ZERO, Some(&up_to(9))).await;
    assert_eq!(found.expect("answered").expect("a turn").0.instance, "a");
    other.close().await;
    store.close().await;
}

pub(crate) async fn one_provider_acknowledges_what_another_fetched<S: TestStore>() {
    let store = S::open(true).await;
    let provider = store.provider().clone();
    let other = store.second_provider().await;
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let (_, token) = fetch(&provider).await;
    begin(&other, "a", &token, Version::new(0, 1, 32)).await;
    assert_eq!(provider.read("a").await.expect("read").len(), 1);
    other.close().await;
    store.close().await;
}

pub(crate) async fn messages_other_than_queue_messages_wait_for_a_start<S: TestStore>() {
    let store = S::open(true).await;
    let provider = store.provider();
    let queued = WorkItem::QueueMessage {
        instance: "a".to_owned(),
        name: "mail".to_owned(),
        data: String::new(),
    };
    provider.enqueue_for_orchestrator(poke("a"), None).await.expect("stored");
    provider.enqueue_for_orchestrator(queued, None).await.expect("stored");
    let fetched = provider.fetch_orchestration_item(LEASE, Duration::ZERO, None).await;
    assert!(fetched.expect("answered").is_none(), "nothing has started");
    let depths = provider.get_queue_depths().await.expect("read");
    assert_eq!(depths.orchestrator_queue + depths.timer_queue, 2, "nothing is lost");
    store.close().await;
}

pub(crate) async fn a_runtime_runs_on_it<S: TestStore>() {
    let store = S::open(true).await;
    let provider: Arc<dyn Provider> = Arc::new(store.provider().clone());
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("hello {name}")) };
    let activities = ActivityRegistry::builder().register("greet", greet).build();
    let code = |ctx: OrchestrationContext, names: String| async move {
        let greetings = names.split(' ').map(|name| ctx.schedule_activity("greet", name));
        let greetings: Result<Vec<_>, _> =
            ctx.join(greetings.collect()).await.into_iter().collect();
        ctx.schedule_timer(Duration::from_millis(20)).await;
        Ok(greetings?.join(", "))
    };
    let orchestrations = OrchestrationRegistry::builder().register("Greet", code).build();
    let runtime =
        Runtime::start_with_store(Arc::clone(&provider), activities, orchestrations).await;
    let client = Client::new(provider);
    client.start_orchestration("party", "Greet", "ann bob").await.expect("started");
    let ended = client.wait_for_orchestration("party", SOON).await.expect("it ends");
    let OrchestrationStatus::Completed { output, .. } = ended else { panic!("{ended:?}") };
    assert_eq!(output, "hello ann, hello bob");
    runtime.shutdown(None).await;
    store.close().await;
}

/// Runs all of these tests on a store.
macro_rules! on_site {
    ($store:ty: $($law:ident,)+) => {
        mod waking {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    $crate::waking::$law::<$store>().await;
                }
            )+
        }
    };
    ($store:ty) => {
        $crate::waking::on_site! { $store:
            a_waiting_fetch_is_served_by_an_enqueue,
            a_waiting_fetch_is_woken_by_another_process,
            a_waiting_worker_is_served_by_a_turn,
            a_waiting_worker_is_woken_by_another_process,
            providers_that_share_only_the_data_wake_each_other_soon,
            a_dropped_provider_closes_its_connections,
            a_waiting_fetch_finds_a_version_that_was_unknown,
            a_filter_finds_versions_that_another_provider_pinned,
            one_provider_acknowledges_what_another_fetched,
            messages_other_than_queue_messages_wait_for_a_start,
            a_runtime_runs_on_it,
        }
    };
}

pub(crate) use on_site;
