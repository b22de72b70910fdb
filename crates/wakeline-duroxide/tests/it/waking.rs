//! What duroxide's suite does not ask: fetches that wait are woken, and providers over one store
//! understand each other.

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

use crate::bed::Site;

const LEASE: Duration = Duration::from_secs(30);
/// Longer than a test may take: who is not woken fails.
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

/// Fetches the only turn there is, at once.
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

pub(crate) async fn a_waiting_fetch_is_served_by_an_enqueue<S: Site>() {
    let site = S::open(true).await;
    let provider = site.provider().clone();
    let waiting = tokio::spawn({
        let provider = provider.clone();
        async move { provider.fetch_orchestration_item(LEASE, WAIT, None).await }
    });
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("a turn").0.instance, "a");
    site.close().await;
}

/// A provider of another process has only the store in common with the one that waits.
pub(crate) async fn a_waiting_fetch_is_woken_by_another_process<S: Site>() {
    let site = S::open(true).await;
    let waiting = tokio::spawn({
        let provider = site.provider().clone();
        async move { provider.fetch_orchestration_item(LEASE, WAIT, None).await }
    });
    let other = site.neighbour().await;
    other.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("a turn").0.instance, "a");
    other.close().await;
    site.close().await;
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

pub(crate) async fn a_waiting_worker_is_woken_by_another_process<S: Site>() {
    let site = S::open(true).await;
    let waiting = tokio::spawn({
        let provider = site.provider().clone();
        async move { provider.fetch_work_item(LEASE, WAIT, None, &TagFilter::DefaultOnly).await }
    });
    let other = site.neighbour().await;
    other.enqueue_for_worker(hello("a")).await.expect("stored");
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("an activity").0, hello("a"));
    other.close().await;
    site.close().await;
}

/// Waits until the only fetch of a provider is parked, and what others commit reaches it.
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

/// How long after the answer to an enqueue a fetch of another provider returns that waits for it.
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

pub(crate) async fn providers_that_share_only_the_data_wake_each_other_soon<S: Site>() {
    let site = S::open(true).await;
    let (one, other) = (site.provider().clone(), site.neighbour().await);
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
    site.close().await;
}

/// The listener of a dropped provider ends, and with it the last that holds the store.
pub(crate) async fn a_dropped_provider_leaves_no_connection_behind<S: Site>() {
    let site = S::open(true).await;
    // What the site's own provider opens to tell others that join.
    site.neighbour().await.close().await;
    let before = site.connections().await;
    let other = site.neighbour().await;
    other.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    drop(fetch(&other).await);
    assert!(site.connections().await > before);
    let clone = other.clone();
    drop(other);
    clone.read("a").await.expect("a clone keeps the store open");
    drop(clone);
    let started = Instant::now();
    while site.connections().await > before {
        assert!(started.elapsed() < SOON, "connections were left behind");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    site.close().await;
}

/// Whether fetches of these providers wait for their whole poll timeout.
pub(crate) async fn they_wait<S: Send + Sync + 'static>(
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

/// What one of them stores the other one finds.
pub(crate) async fn are_one_store<S: Send + Sync + 'static>(
    one: &DuroxideProvider<S>,
    other: &DuroxideProvider<S>,
) {
    let instance = uuid::Uuid::new_v4().to_string();
    one.enqueue_for_orchestrator(start(&instance), None).await.expect("stored");
    // What an earlier call began may have another turn.
    for _ in 0..2 {
        let (item, token) = fetch(other).await;
        if item.instance == instance {
            begin(other, &instance, &token, Version::new(0, 1, 32)).await;
            return;
        }
    }
    panic!("what one provider stored is not found through the other");
}

/// Long polling that is switched off.
pub(crate) fn switched_off() -> LongPollConfig {
    LongPollConfig { enabled: false, ..LongPollConfig::default() }
}

/// Providers of the default schema and of another one in turn: by all constructors that wait, and
/// by the one that was told not to.
pub(crate) async fn constructors_wait<S: DuroxideStore + 'static>(
    waiting: [DuroxideProvider<S>; 4],
    still: [DuroxideProvider<S>; 2],
) {
    they_wait(&waiting, true).await;
    they_wait(&still, false).await;
    for (place, provider) in waiting.iter().enumerate() {
        wake(provider, &still[place % 2]).await;
    }
    are_one_store(&waiting[0], &still[0]).await;
    are_one_store(&waiting[1], &still[1]).await;
    for provider in waiting.iter().chain(&still) {
        provider.close().await;
    }
}

pub(crate) async fn a_waiting_worker_is_served_by_a_turn<S: Site>() {
    let site = S::open(true).await;
    let provider = site.provider().clone();
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
    site.close().await;
}

pub(crate) async fn a_waiting_fetch_learns_of_a_version_that_it_did_not_know<S: Site>() {
    let site = S::open(true).await;
    let provider = site.provider().clone();
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let (_, token) = fetch(&provider).await;
    let waiting = tokio::spawn({
        let provider = provider.clone();
        async move { provider.fetch_orchestration_item(LEASE, WAIT, Some(&up_to(9))).await }
    });
    begin(&provider, "a", &token, Version::new(7, 1, 0)).await;
    let served = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    assert_eq!(served.expect("answered").expect("a turn").0.messages, [poke("a")]);
    site.close().await;
}

pub(crate) async fn a_filter_finds_versions_that_another_provider_pinned<S: Site>() {
    let site = S::open(true).await;
    let provider = site.provider().clone();
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let (_, token) = fetch(&provider).await;
    begin(&provider, "a", &token, Version::new(7, 1, 0)).await;
    let other = site.neighbour().await;
    let refused = other.fetch_orchestration_item(LEASE, Duration::ZERO, Some(&up_to(7))).await;
    assert!(refused.expect("answered").is_none(), "7.1.0 is beyond 7.0.0");
    let found = other.fetch_orchestration_item(LEASE, Duration::ZERO, Some(&up_to(9))).await;
    assert_eq!(found.expect("answered").expect("a turn").0.instance, "a");
    other.close().await;
    site.close().await;
}

pub(crate) async fn one_provider_acknowledges_what_another_fetched<S: Site>() {
    let site = S::open(true).await;
    let provider = site.provider().clone();
    let other = site.neighbour().await;
    provider.enqueue_for_orchestrator(start("a"), None).await.expect("stored");
    let (_, token) = fetch(&provider).await;
    begin(&other, "a", &token, Version::new(0, 1, 32)).await;
    assert_eq!(provider.read("a").await.expect("read").len(), 1);
    other.close().await;
    site.close().await;
}

pub(crate) async fn messages_beside_those_of_queues_wait_for_a_start<S: Site>() {
    let site = S::open(true).await;
    let provider = site.provider();
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
    site.close().await;
}

pub(crate) async fn a_runtime_runs_on_it<S: Site>() {
    let site = S::open(true).await;
    let provider: Arc<dyn Provider> = Arc::new(site.provider().clone());
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
    site.close().await;
}

/// All of these on a site.
macro_rules! on_site {
    ($site:ty: $($law:ident,)+) => {
        mod waking {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    $crate::waking::$law::<$site>().await;
                }
            )+
        }
    };
    ($site:ty) => {
        $crate::waking::on_site! { $site:
            a_waiting_fetch_is_served_by_an_enqueue,
            a_waiting_fetch_is_woken_by_another_process,
            a_waiting_worker_is_served_by_a_turn,
            a_waiting_worker_is_woken_by_another_process,
            providers_that_share_only_the_data_wake_each_other_soon,
            a_dropped_provider_leaves_no_connection_behind,
            a_waiting_fetch_learns_of_a_version_that_it_did_not_know,
            a_filter_finds_versions_that_another_provider_pinned,
            one_provider_acknowledges_what_another_fetched,
            messages_beside_those_of_queues_wait_for_a_start,
            a_runtime_runs_on_it,
        }
    };
}

pub(crate) use on_site;
