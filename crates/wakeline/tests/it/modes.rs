//! What one event costs in each wake mode, counted: the tables of the design that the modes come
//! from, on 1, 3 and 10 nodes.

use std::sync::Arc;
use std::time::Duration;

use wakeline::provider::StoreProvider;
use wakeline::{
    Client, FlowError, LongPollConfig, OrchestrationContext, PostgresProvider, Registry, Runtime,
    RuntimeOptions, WakeMode,
};

use crate::support::{Database, eventually};

const LONG: Duration = Duration::from_secs(3600);

/// A busy machine may answer late, and nothing but hints may wake anybody.
fn patient() -> LongPollConfig {
    LongPollConfig {
        fallback_poll_interval: LONG,
        max_wait_time: LONG,
        notify_delivery_timeout: LONG,
        ..LongPollConfig::default()
    }
}

/// A node with its dispatchers.
struct Node {
    runtime: Runtime,
    provider: StoreProvider,
    _listening: PostgresProvider,
}

impl Node {
    async fn start(database: &Database, dispatchers: usize, mode: WakeMode) -> Self {
        let node = database.node(patient()).await;
        let provider = node.sibling(mode, patient());
        let options = RuntimeOptions {
            orchestration_concurrency: dispatchers,
            dispatcher_long_poll_timeout: Some(LONG),
            // The end of a lease is looked at; that must not come while something is counted.
            orchestrator_lock_timeout: LONG,
            ..RuntimeOptions::default()
        };
        let code = async |_: OrchestrationContext, (): ()| Ok::<_, FlowError>(());
        let registry = Registry::builder().orchestration("event", code).build();
        let registry = registry.expect("no name twice");
        let shared = Arc::new(provider.clone());
        let runtime = Runtime::start_with_options(shared, registry, options).await;
        Self { runtime: runtime.expect("valid"), provider, _listening: node }
    }
}

/// What one event made the nodes do.
struct Cost {
    /// Waiters that the event's hint woke; in Fused mode lines.
    woken: u64,
    /// Claims. One that met a rival's open transaction may come back a moment later; those second
    /// looks are not among them.
    claims: u64,
    /// Those second looks.
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

    fn since(&self, before: &Self) -> Self {
        Self {
            woken: self.woken - before.woken,
            claims: self.claims - before.claims,
            again: self.again - before.again,
        }
    }
}

async fn completed(client: &Client, instance: &str) {
    // Without a wait: that would note in the instance's row that somebody waits.
    let done = || async { client.status(instance).await.expect("read").name() == "completed" };
    eventually("the event is handled", done).await;
}

/// One event that comes from elsewhere.
async fn cost(nodes: usize, dispatchers: usize, mode: WakeMode) -> Cost {
    let database = Database::create().await;
    let client = Client::new(Arc::new(database.node(patient()).await));
    let mut all = Vec::new();
    for _ in 0..nodes {
        all.push(Node::start(&database, dispatchers, mode).await);
    }
    // Once for everybody to know each other, and the names.
    client.start("warm", "event", &()).await.expect("started");
    completed(&client, "warm").await;
    database.silent("").await;
    let before = Cost::so_far(&all);
    client.start("counted", "event", &()).await.expect("started");
    completed(&client, "counted").await;
    let statements = database.silent("flow_claim_turns").await;
    let cost = Cost::so_far(&all).since(&before);
    eprintln!(
        "{mode}, {nodes} x {dispatchers}: one event woke {}, made {} claims and {} second looks, \
         {statements} statements",
        cost.woken, cost.claims, cost.again
    );
    // A claim that found nothing but a rival's row is repeated once, in a statement of its own.
    let statements = u64::try_from(statements).expect("a count");
    assert!(statements <= 2 * (cost.claims + cost.again), "{statements} statements");
    for node in all {
        node.runtime.shutdown(LONG).await;
    }
    cost
}

#[tokio::test]
async fn in_broadcast_every_dispatcher_claims() {
    for (nodes, dispatchers, expected) in [(1, 4, 4), (3, 4, 12), (10, 8, 80)] {
        let cost = cost(nodes, dispatchers, WakeMode::Broadcast).await;
        assert_eq!((cost.woken, cost.claims), (expected, expected));
    }
}

#[tokio::test]
async fn in_compete_one_dispatcher_of_each_node_claims() {
    for (nodes, dispatchers, expected) in [(1, 4, 1), (3, 4, 3), (10, 8, 10)] {
        let cost = cost(nodes, dispatchers, WakeMode::Compete).await;
        assert_eq!(cost.woken, expected);
        // Whoever finds work wakes the next one, so that a burst fans out.
        assert_eq!(cost.claims, expected + 1);
    }
}

#[tokio::test]
async fn in_fused_one_claim_of_each_node_is_for_all_its_dispatchers() {
    for (nodes, dispatchers, expected) in [(1, 4, 1), (3, 4, 3), (10, 8, 10)] {
        let cost = cost(nodes, dispatchers, WakeMode::Fused).await;
        assert_eq!((cost.woken, cost.claims), (expected, expected));
    }
}

#[tokio::test]
async fn an_event_of_the_own_node_is_leased_in_its_own_commit_without_a_claim() {
    let database = Database::create().await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Node::start(&database, 4, WakeMode::Fused).await);
    }
    let client = all[0].runtime.client();
    client.start("warm", "event", &()).await.expect("started");
    completed(&client, "warm").await;
    database.silent("").await;
    client.start("counted", "event", &()).await.expect("started");
    completed(&client, "counted").await;
    assert_eq!(database.silent("flow_claim_turns").await, 0);
    for node in all {
        node.runtime.shutdown(LONG).await;
    }
}
