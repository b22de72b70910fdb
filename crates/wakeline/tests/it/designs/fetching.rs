//! Tests of when a fetch returns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::provider::{Provider, ProviderError};
use wakeline::{LongPollConfig, PostgresProvider, SqliteProvider, WakeMode};

use super::{HOUR, POLL, fetch, patient, send, soon, waiting};
use crate::support::{Database, Node, Store, eventually};

/// The designs' bound for a fetch that returns at once, because there is work or it does not wait.
const AT_ONCE: Duration = Duration::from_millis(500);
/// The bound for every single round, however busy the machine is; far below any fallback poll.
const BUSY: Duration = Duration::from_secs(30);

/// Asserts that one of five rounds takes no longer than the limit. One round shows which mechanism
/// works; others may be late because the machine is busy.
async fn best_of_five(what: &str, limit: Duration, mut round: impl AsyncFnMut() -> Duration) {
    let mut rounds = Vec::new();
    while rounds.len() < 5 {
        let took = round().await;
        assert!(took <= BUSY, "{what}: {took:?}");
        if took <= limit {
            return;
        }
        rounds.push(took);
    }
    panic!("{what}: none of {rounds:?} is within {limit:?}");
}

/// The opposite of the design's `test_default_provider_does_not_long_poll`: here long polling is
/// the default, and a fetch without a poll timeout returns at once.
#[tokio::test]
async fn all_constructors_wait_by_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.db");
    let database = Database::create().await;
    let (url, name) = (database.0.url(), Some("wakeline"));
    let config = LongPollConfig::default();
    let providers: Vec<Arc<dyn Provider>> = vec![
        Arc::new(SqliteProvider::new(&file).await.expect("opened")),
        Arc::new(SqliteProvider::new_with_schema(&file, Some("a")).await.expect("opened")),
        Arc::new(
            SqliteProvider::new_with_options(&file, None, config.clone()).await.expect("opened"),
        ),
        Arc::new(PostgresProvider::new(&url).await.expect("connected")),
        Arc::new(PostgresProvider::new_with_schema(&url, name).await.expect("connected")),
        Arc::new(PostgresProvider::new_with_options(&url, name, config).await.expect("connected")),
    ];
    let span = Duration::from_secs(1);
    for (number, provider) in providers.iter().enumerate() {
        assert!(provider.supports_long_polling());
        let started = Instant::now();
        assert!(fetch(provider, Some(span)).await.is_none());
        assert!(started.elapsed() >= span, "{number} waits: {:?}", started.elapsed());
        best_of_five(&format!("{number} without a timeout"), AT_ONCE, async || {
            let started = Instant::now();
            assert!(fetch(provider, None).await.is_none());
            started.elapsed()
        })
        .await;
    }
}

/// The design's "If long-poll disabled, return immediately".
#[tokio::test]
async fn without_long_polling_a_fetch_never_waits() {
    for store in Store::both().await {
        let config = LongPollConfig { enabled: false, ..patient() };
        let provider = store.node(config).await.provider();
        assert!(!provider.supports_long_polling());
        assert!(fetch(&provider, POLL).await.is_none(), "{}", store.name());
        send(&provider, "a", None).await;
        assert!(fetch(&provider, POLL).await.is_some(), "{}", store.name());
    }
}

/// The design's `test_fetch_waits_when_no_work`.
#[tokio::test]
async fn a_fetch_without_work_waits_until_its_poll_timeout() {
    for store in Store::both().await {
        let (short, long) = (Duration::from_secs(2), Duration::from_secs(10));
        // The poll timeout ends the first wait and max_wait_time the second one; the respective
        // other limit is much longer.
        for (max_wait_time, poll_timeout) in [(long, short), (short, long)] {
            let config = LongPollConfig { max_wait_time, ..patient() };
            let provider = store.node(config).await.provider();
            let what = format!("{}, {max_wait_time:?}", store.name());
            best_of_five(&what, Duration::from_secs(3), async || {
                let started = Instant::now();
                assert!(fetch(&provider, Some(poll_timeout)).await.is_none());
                let took = started.elapsed();
                assert!(took >= short, "{what}: {took:?}");
                took
            })
            .await;
        }
    }
}

/// The design's `test_fetch_returns_immediately_when_work_available`.
#[tokio::test]
async fn a_fetch_returns_at_once_when_there_is_work() {
    for store in Store::both().await {
        let provider = store.node(patient()).await.provider();
        let mut ids = (0..).map(|round| format!("round-{round}"));
        best_of_five(store.name(), AT_ONCE, async || {
            let id = ids.next().expect("endless");
            send(&provider, &id, None).await;
            let started = Instant::now();
            let item = soon(waiting(&provider)).await;
            assert_eq!((item.instance.as_str(), item.attempt), (id.as_str(), 1));
            started.elapsed()
        })
        .await;
    }
}

/// The design's `test_fetch_wakes_on_notify`.
#[tokio::test]
async fn a_fetch_is_woken_by_a_message_of_another_node() {
    for store in Store::both().await {
        let (a, b) = (store.node(patient()).await, store.node(patient()).await);
        let (sender, fetcher) = (a.provider(), b.provider());
        let mut ids = (0..).map(|round| format!("round-{round}"));
        best_of_five(store.name(), Duration::from_secs(2), async || {
            let (id, fetching) = (ids.next().expect("endless"), waiting(&fetcher));
            parked(&b, 1).await;
            send(&sender, &id, None).await;
            let sent = Instant::now();
            assert_eq!(soon(fetching).await.instance.as_str(), id, "{}", store.name());
            sent.elapsed()
        })
        .await;
    }
}

#[tokio::test]
async fn a_timer_wakes_at_its_time_on_the_node_that_set_it_and_on_others() {
    let delay = Duration::from_secs(1);
    for store in Store::both().await {
        let (a, b) = (store.node(patient()).await, store.node(patient()).await);
        for (instance, fetcher) in [("own", &a), ("other", &b)] {
            let (sender, fetching) = (a.provider(), waiting(&fetcher.provider()));
            parked(fetcher, 1).await;
            let started = Instant::now();
            send(&sender, instance, Some(delay)).await;
            assert!(fetch(&sender, None).await.is_none(), "not visible yet");
            assert_eq!(soon(fetching).await.instance.as_str(), instance);
            assert!(started.elapsed() >= delay, "{}: {:?}", store.name(), started.elapsed());
        }
    }
}

/// The design's `test_timer_wakes_at_correct_time`: a timer of two seconds, with its upper bound.
#[tokio::test]
async fn a_timer_of_two_seconds_wakes_within_half_a_second_of_its_time() {
    let (delay, late) = (Duration::from_secs(2), Duration::from_millis(500));
    for store in Store::both().await {
        let node = store.node(patient()).await;
        let mut ids = (0..).map(|round| format!("round-{round}"));
        best_of_five(store.name(), delay + late, async || {
            let (provider, fetching) = (node.provider(), waiting(&node.provider()));
            let id = ids.next().expect("endless");
            parked(&node, 1).await;
            let started = Instant::now();
            send(&provider, &id, Some(delay)).await;
            let sent = Instant::now();
            assert_eq!(soon(fetching).await.instance.as_str(), id);
            assert!(started.elapsed() >= delay, "{}: {:?}", store.name(), started.elapsed());
            sent.elapsed()
        })
        .await;
    }
}

/// The design's `test_timer_delayed_visibility` and `test_abandon_orchestration_item_with_delay`:
/// a message that is not yet visible is not fetched. The fetches that find nothing have no timeout.
#[tokio::test]
async fn a_message_is_not_fetched_before_it_is_visible() {
    let delay = Some(Duration::from_millis(500));
    for store in Store::both().await {
        let provider = store.node(patient()).await.provider();
        send(&provider, "delayed", Some(HOUR)).await;
        assert!(fetch(&provider, None).await.is_none(), "{}", store.name());
        send(&provider, "abandoned", None).await;
        let item = fetch(&provider, None).await.expect("visible");
        let token = &item.lock_token;
        provider.abandon_orchestration_item(token, delay, false).await.expect("given back");
        assert!(fetch(&provider, None).await.is_none(), "{}", store.name());
        let again = soon(waiting(&provider)).await;
        assert_eq!((again.instance.as_str(), again.attempt), ("abandoned", 2));
    }
}

/// The design's `test_lost_lock_token_handling`.
#[tokio::test]
async fn a_leased_turn_is_not_fetched_and_an_old_token_changes_nothing() {
    let lease = Duration::from_millis(500);
    for store in Store::both().await {
        let provider = store.node(patient()).await.provider();
        send(&provider, "a", None).await;
        let first = provider.fetch_orchestration_item(lease, None).await.expect("fetched");
        let first = first.expect("visible");
        assert!(fetch(&provider, None).await.is_none(), "{}: it is leased", store.name());
        let second = soon(waiting(&provider)).await;
        assert_eq!(second.attempt, 2, "{}: fetched at the end of its lease", store.name());
        let late = provider.renew_orchestration_item_lock(&first.lock_token, HOUR).await;
        assert!(matches!(late, Err(ProviderError::LockLost)), "{}: {late:?}", store.name());
    }
}

#[tokio::test]
async fn a_timer_set_before_a_node_started_is_found_by_its_first_claim() {
    for store in Store::both().await {
        let before = store.node(patient()).await.provider();
        send(&before, "a", Some(Duration::from_secs(1))).await;
        drop(before);
        let after = store.node(patient()).await.provider();
        assert_eq!(soon(waiting(&after)).await.instance.as_str(), "a", "{}", store.name());
    }
}

/// The design's `test_multiple_dispatchers_single_winner`.
#[tokio::test]
async fn one_of_several_competing_dispatchers_wins_and_the_others_keep_waiting() {
    for store in Store::both().await {
        let sender = store.node(patient()).await.provider();
        // The provider itself is dropped; its listener is not.
        let rewired = |node: Node| node.provider().rewired(WakeMode::Compete, patient());
        let node = rewired(store.node(patient()).await).expect("our own provider");
        let mut fetching = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let node = Arc::clone(&node);
            fetching.spawn(async move { fetch(&node, POLL).await });
        }
        for round in ["a", "b"] {
            send(&sender, round, None).await;
            let won = tokio::time::timeout(HOUR, fetching.join_next()).await;
            let won = won.expect("woken").expect("four").expect("no panic").expect("an item");
            assert_eq!(won.instance.as_str(), round, "{}", store.name());
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(fetching.len(), 2, "the others still wait");
        assert!(fetching.try_join_next().is_none(), "the others still wait");
    }
}

/// Waits until a node has this number of waiters and no claim in progress.
pub(super) async fn parked(node: &Node, waiters: usize) {
    eventually("a fetch waits", || async {
        let hub = node.snapshot();
        hub.waiters == waiters && hub.claims_in_flight + hub.claims_queued == 0
    })
    .await;
}
