//! Instances on two nodes start, message and complete each other under load for some seconds.
//!
//! The test has a database of its own, so that its deadlocks can be counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::StoreAdmin as _;
use wakeline_store::flow::{
    Completion, FlowStore as _, TurnCommit, TurnItem, TurnOutcome, WorkOutcome,
};
use wakeline_testkit::flow_conformance::{
    MAIN, Worker, capabilities, event, finish, start, step, turn_line, work,
};

use crate::support::TestSchema;

const HOT: Duration = Duration::from_secs(4);
const FAMILY: u64 = 12;

struct Stage {
    nodes: Vec<PostgresStore>,
    running: AtomicBool,
    turns: AtomicU64,
    activities: AtomicU64,
}

impl Stage {
    fn node(&self, actor: usize) -> &PostgresStore {
        &self.nodes[actor % self.nodes.len()]
    }

    /// Runs turns: each sends messages to two others, in different orders, and schedules an
    /// activity.
    async fn dispatch(&self, actor: usize) {
        let line = capabilities(&[MAIN]);
        while self.running.load(Ordering::Relaxed) {
            let claim = turn_line(&line, 3);
            let claimed = self.node(actor).claim_turns(vec![claim]).await.expect("claimed");
            for turn in claimed.into_iter().flat_map(|claimed| claimed.turns).flatten() {
                let reply = self.node(actor).commit_turn(self.turn(&turn)).await;
                let committed =
                    matches!(reply.expect("answered").outcome, TurnOutcome::Committed { .. });
                self.turns.fetch_add(u64::from(committed), Ordering::Relaxed);
            }
        }
    }

    fn turn(&self, turn: &TurnItem) -> TurnCommit {
        let n = turn.last_event;
        if n > 30 {
            return finish(turn);
        }
        let (one, other) = (n * 7 % FAMILY, n * 5 % FAMILY);
        let messages = vec![
            start(&format!("f{one}")),
            event(&format!("f{other}"), "message"),
            event(&format!("f{}", (one + 1) % FAMILY), "message"),
        ];
        let instance = turn.instance.as_str();
        TurnCommit { messages, work: vec![work(instance, n + 1)], ..step(turn) }
    }

    async fn serve(&self, actor: usize) {
        let worker = Worker::plain();
        while self.running.load(Ordering::Relaxed) {
            let claimed = self.node(actor).claim_work(vec![worker.claim(4)]).await;
            for item in claimed.expect("claimed").remove(0).work.into_iter().flatten() {
                let message = Some(event(item.instance.as_str(), "done"));
                let completion = Completion { token: item.token, message };
                let reply = self.node(actor).complete_work(completion, Vec::new()).await;
                let done = matches!(reply.expect("answered").outcome, WorkOutcome::Completed(_));
                self.activities.fetch_add(u64::from(done), Ordering::Relaxed);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_message_each_other_do_not_deadlock() {
    let schema = TestSchema::new().await;
    let options = PostgresOptions::new(schema.database.url());
    let nodes = vec![
        PostgresStore::connect(options.clone()).await.expect("a store"),
        PostgresStore::connect(options).await.expect("a store"),
    ];
    let stage = Arc::new(Stage {
        nodes,
        running: AtomicBool::new(true),
        turns: AtomicU64::new(0),
        activities: AtomicU64::new(0),
    });
    for n in 0..FAMILY {
        stage.node(0).enqueue(vec![start(&format!("f{n}"))], vec![]).await.expect("started");
    }
    let mut actors = JoinSet::new();
    for actor in 0..4 {
        let (one, other) = (stage.clone(), stage.clone());
        actors.spawn(async move { one.dispatch(actor).await });
        actors.spawn(async move { other.serve(actor).await });
    }
    tokio::time::sleep(HOT).await;
    stage.running.store(false, Ordering::Relaxed);
    while let Some(ended) = actors.join_next().await {
        ended.expect("no panic");
    }
    let (turns, activities) =
        (stage.turns.load(Ordering::Relaxed), stage.activities.load(Ordering::Relaxed));
    assert!(turns > 20 && activities > 20, "{turns} turns, {activities} activities");
    let client = schema.client().await;
    // A lane with a visible message is due, unless it is leased.
    let asleep = "SELECT count(*) FROM wakeline.flow_lanes l WHERE l.due_at IS NULL
        AND l.capability_id IS NOT NULL AND l.suspended IS NULL AND EXISTS (
            SELECT FROM wakeline.flow_messages m WHERE m.lane_id = l.lane_id)";
    let asleep: i64 = client.query_one(asleep, &[]).await.expect("read").get(0);
    assert_eq!(asleep, 0, "lanes that sleep with messages");
    for node in &stage.nodes {
        node.close().await;
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks: i64 = client.query_one(deadlocks, &[]).await.expect("read").get(0);
    assert_eq!(deadlocks, 0);
}
