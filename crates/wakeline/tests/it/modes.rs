//! Counts the cost of one event in each wake mode on 1, 3 and 10 nodes, as in the tables of the
//! design on which the modes are based.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use wakeline::provider::{OrchestrationItem, Provider, StoreProvider};
use wakeline::{
    Client, FlowError, LongPollConfig, OrchestrationContext, PostgresProvider, Registry, Runtime,
    WakeMode,
};

use crate::support::Database;

const LONG: Duration = Duration::from_secs(3600);
/// The time after which a node looks again for a row that another one had locked: long after that
/// one has finished, and before [`Database::silent`] considers the nodes silent.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Allows late answers of a busy machine, and makes sure that only hints wake waiters.
fn patient() -> LongPollConfig {
    LongPollConfig {
        fallback_poll_interval: LONG,
        max_wait_time: LONG,
        notify_delivery_timeout: LONG,
        ..LongPollConfig::default()
    }
}

/// The same, with second looks that can be counted separately.
fn counted() -> LongPollConfig {
    LongPollConfig { timer_grace_period: SECOND_LOOK, ..patient() }
}

/// A node with dispatchers that wait for turns.
struct Node {
    provider: Arc<StoreProvider>,
    fetching: JoinSet<Option<OrchestrationItem>>,
    _listening: PostgresProvider,
}

impl Node {
    async fn start(database: &Database, dispatchers: usize, mode: WakeMode) -> Self {
        let node = database.node(counted()).await;
        let provider = Arc::new(node.sibling(mode, counted()));
        let mut node = Self { provider, fetching: JoinSet::new(), _listening: node };
        (0..dispatchers).for_each(|_| node.fetch());
        node
    }

    fn fetch(&mut self) {
        let provider = Arc::clone(&self.provider);
        // The hub looks at the end of a lease, which must not happen while something is counted.
        let fetch = async move { provider.fetch_orchestration_item(LONG, Some(LONG)).await };
        self.fetching.spawn(async move { fetch.await.expect("fetched") });
    }
}

/// Waits until one of the dispatchers has an item, and returns its node.
async fn handled(nodes: &mut [Node]) -> usize {
    let fetching = nodes.iter_mut().enumerate().map(|(place, node)| {
        Box::pin(async move {
            let fetched = node.fetching.join_next().await.expect("some wait");
            assert!(fetched.expect("no panic").is_some(), "no fetch returns empty");
            place
        })
    });
    futures_util::future::select_all(fetching).await.0
}

/// The work that one event caused on the nodes.
struct Cost {
    /// The number of waiters that the hint of the event woke; of lines in Fused mode.
    woken: u64,
    /// The number of claims, without second looks. A claim that met an open transaction of another
    /// node may be repeated shortly afterwards.
    claims: u64,
    /// The number of second looks.
    again: u64,
}

impl Cost {
    fn so_far(nodes: &[Node]) -> Self {
        let counters = nodes.iter().map(|node| node.provider.snapshot().counters);
        counters.fold(Self { woken: 0, claims: 0, again: 0 }, |sum, counted| Self {
            woken: sum.woken + counted.wakes.notify,
            claims: sum.claims + counted.claims.total() - counted.wakes.timer,
            again: sum.again + counted.wakes.timer,
        })
    }

    /// Asserts one claim of each node. A claim that meets the winner's open transaction waits 50 ms
    /// for it. If that is not enough, each node except the winner looks again once.
    fn assert_one_of_each(&self, nodes: u64) {
        assert_eq!((self.woken, self.claims), (nodes, nodes));
        assert!(self.again < nodes, "{} second looks", self.again);
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            woken: self.woken - before.woken,
            claims: self.claims - before.claims,
            again: self.again - before.again,
        }
    }
}

/// Measures the cost of one event from another node.
async fn cost(nodes: usize, dispatchers: usize, mode: WakeMode) -> Cost {
    let database = Database::create().await;
    let client = Client::new(Arc::new(database.node(patient()).await));
    let mut all = Vec::new();
    for _ in 0..nodes {
        all.push(Node::start(&database, dispatchers, mode).await);
    }
    // A first event, so that all nodes are connected and know the names.
    client.start("warm", "event", &()).await.expect("started");
    let winner = handled(&mut all).await;
    all[winner].fetch();
    database.silent("").await;
    let before = Cost::so_far(&all);
    client.start("counted", "event", &()).await.expect("started");
    handled(&mut all).await;
    let statements = database.silent("flow_claim_turns").await;
    let cost = Cost::so_far(&all).since(&before);
    eprintln!(
        "{mode}, {nodes} x {dispatchers}: one event woke {}, made {} claims and {} second looks, \
         {statements} statements",
        cost.woken, cost.claims, cost.again
    );
    // A claim that found only a row locked by another node is repeated once, in another statement.
    let statements = u64::try_from(statements).expect("a count");
    assert!(statements <= 2 * (cost.claims + cost.again), "{statements} statements");
    cost
}

#[tokio::test]
async fn in_broadcast_every_dispatcher_claims() {
    for (nodes, dispatchers, expected) in [(1, 4, 4), (3, 4, 12), (10, 8, 80)] {
        let cost = cost(nodes, dispatchers, WakeMode::Broadcast).await;
        assert_eq!(cost.woken, expected);
        // If a transaction stayed open so long that the others look again, all dispatchers except
        // the winner do so once; those that claimed at that time claim once more.
        assert!(cost.again < expected, "{} second looks", cost.again);
        let most = if cost.again == 0 { expected } else { 2 * expected };
        assert!((expected..=most).contains(&cost.claims), "{} claims", cost.claims);
    }
}

/// Counts the wakes of a runtime for one event from another node, after it was so busy that it
/// fetched ahead.
#[tokio::test]
async fn after_a_busy_period_an_event_wakes_only_one_fetch_per_dispatcher() {
    for (mode, expected) in [(WakeMode::Broadcast, 4), (WakeMode::Compete, 1)] {
        let database = Database::create().await;
        let client = Client::new(Arc::new(database.node(patient()).await));
        let node = database.node(patient()).await;
        let waiting = node.sibling(mode, patient());
        let code = async |_: OrchestrationContext, (): ()| Ok::<_, FlowError>(());
        let registry = Registry::builder().orchestration("event", code).build();
        let provider = Arc::new(waiting.clone());
        let runtime = Runtime::start(provider, registry.expect("no duplicate names")).await;
        let runtime = runtime.expect("started");
        let busy = (0..200).map(|round| {
            let (client, id) = (&client, format!("busy-{round}"));
            async move {
                client.start(&id, "event", &()).await.expect("started");
                client.wait::<()>(&id, LONG).await.expect("completed");
            }
        });
        futures_util::future::join_all(busy).await;
        database.silent("").await;
        let before = waiting.snapshot();
        assert_eq!(before.waiters, 4, "{mode}");
        client.start("counted", "event", &()).await.expect("started");
        client.wait::<()>("counted", LONG).await.expect("completed");
        database.silent("").await;
        let woken = waiting.snapshot().counters.wakes.notify - before.counters.wakes.notify;
        assert_eq!(woken, expected, "{mode}");
        runtime.shutdown(LONG).await;
    }
}

/// The design's `test_only_one_dispatcher_wakes_per_notify`, and its table.
#[tokio::test]
async fn in_compete_one_dispatcher_of_each_node_claims() {
    for (nodes, dispatchers, expected) in [(1, 4, 1), (3, 4, 3), (10, 8, 10)] {
        // The claim reports that there is no more, so no other dispatcher is woken.
        cost(nodes, dispatchers, WakeMode::Compete).await.assert_one_of_each(expected);
    }
}

#[tokio::test]
async fn in_fused_one_claim_of_each_node_serves_all_its_dispatchers() {
    for (nodes, dispatchers, expected) in [(1, 4, 1), (3, 4, 3), (10, 8, 10)] {
        cost(nodes, dispatchers, WakeMode::Fused).await.assert_one_of_each(expected);
    }
}

#[tokio::test]
async fn an_event_of_the_own_node_is_leased_on_insert_without_a_claim() {
    let database = Database::create().await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Node::start(&database, 4, WakeMode::Fused).await);
    }
    let client = Client::new(all[0].provider.clone());
    client.start("warm", "event", &()).await.expect("started");
    assert_eq!(handled(&mut all).await, 0);
    database.silent("").await;
    client.start("counted", "event", &()).await.expect("started");
    assert_eq!(handled(&mut all).await, 0);
    assert_eq!(database.silent("flow_claim_turns").await, 0);
}
