//! Producers, consumers and consumers with expired leases of two nodes use one queue under load for
//! some seconds.
//!
//! The testkit's history checks what the clients saw; the state of the database is checked during
//! the run and at its end. The test has a database of its own, so that its deadlocks can be
//! counted.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;
use wakeline_core::{QueueName, QueueOptions};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::{
    ConfigureQueue, DeadLetterFilter, Page, QueueAdmin, QueueDeadLetters, StoreAdmin,
};
use wakeline_testkit::history::check;

use self::stage::{Dice, Stage};
use crate::support::TestSchema;

const PARTITIONS: u64 = 24;
const PUSHERS: u64 = 3;
const CONSUMERS: u64 = 6;
const GROUPS: [&str; 2] = ["g1", "g2"];
const HOT: Duration = Duration::from_secs(5);

/// No cursor with something to read may sleep or be due later than necessary, and the number of
/// parked messages is exact. This holds in every snapshot, not only at the end.
const BROKEN: &str = "
    SELECT count(*) FROM wakeline.cursors c JOIN wakeline.partitions p USING (partition_id)
    LEFT JOIN (SELECT partition_id, group_id, count(*) AS n, min(due_at) AS due_at
        FROM wakeline.retries GROUP BY 1, 2) r USING (partition_id, group_id)
    WHERE c.parked <> coalesce(r.n, 0)
        OR (c.lease_token IS NULL AND c.due_at IS NULL
            AND (p.next_offset > c.next_offset OR c.parked > 0))
        OR (c.lease_token IS NULL AND c.parked = 0 AND c.due_at > clock_timestamp()
            AND p.next_offset > c.next_offset)";

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("counted").get(0)
}

async fn actors(stage: &Arc<Stage>, seed: u64) -> JoinSet<()> {
    let mut actors = JoinSet::new();
    for actor in 0..PUSHERS {
        let stage = stage.clone();
        actors.spawn(async move {
            let mut dice = Dice(seed ^ (actor + 1));
            while stage.pushing.load(Ordering::Relaxed) {
                stage.push(actor, &mut dice).await;
                tokio::time::sleep(Duration::from_millis(dice.roll(8))).await;
            }
        });
    }
    for actor in 0..CONSUMERS {
        let stage = stage.clone();
        actors.spawn(async move {
            let mut dice = Dice(seed ^ (100 + actor));
            let mut zombies = Vec::new();
            while stage.running.load(Ordering::Relaxed) {
                stage.consume(actor, &mut dice, &mut zombies).await;
            }
        });
    }
    actors
}

async fn open_stage(schema: &TestSchema) -> Arc<Stage> {
    let options = PostgresOptions::new(schema.database.url());
    let nodes = vec![
        PostgresStore::connect(options.clone()).await.expect("a store"),
        PostgresStore::connect(options).await.expect("a store"),
    ];
    let queue = QueueName::new("hot").expect("valid");
    let options = QueueOptions {
        lease_secs: 1,
        retry_limit: 3,
        retry_delay_ms: 0,
        ..QueueOptions::default()
    };
    let command = ConfigureQueue { queue: queue.clone(), namespace: None, task: None, options };
    nodes[0].configure(command).await.expect("configured");
    Arc::new(Stage {
        nodes,
        queue,
        began: Instant::now(),
        history: Mutex::default(),
        pushing: AtomicBool::new(true),
        running: AtomicBool::new(true),
        next: AtomicU64::new(0),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_duplicated_or_reordered_under_load() {
    let seed = Uuid::new_v4().as_u64_pair().0 | 1;
    let schema = TestSchema::new().await;
    let stage = open_stage(&schema).await;
    let mut actors = actors(&stage, seed).await;
    let client = schema.client().await;
    let broken = |at: &str| format!("{at}, seed {seed}");
    while stage.now() < HOT {
        assert_eq!(count(&client, BROKEN).await, 0, "{}", broken("a cursor sleeps while it runs"));
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    stage.pushing.store(false, Ordering::Relaxed);
    let unread =
        "SELECT count(*) FROM wakeline.cursors c JOIN wakeline.partitions p USING (partition_id)
        WHERE c.lease_token IS NOT NULL OR c.parked > 0 OR p.next_offset > c.next_offset";
    let drained = async {
        while count(&client, unread).await > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let drained = tokio::time::timeout(Duration::from_secs(60), drained).await;
    stage.running.store(false, Ordering::Relaxed);
    while let Some(ended) = actors.join_next().await {
        ended.expect("no actor failed");
    }
    drained.unwrap_or_else(|_| panic!("{}", broken("the queue was not drained")));
    assert_eq!(count(&client, BROKEN).await, 0, "{}", broken("a cursor sleeps at rest"));

    let page = Page { limit: 100_000, offset: 0 };
    let letters = stage.nodes[0].dead_letters(DeadLetterFilter::default(), page).await;
    let letters = letters.expect("listed").letters;
    let mut history = std::mem::take(&mut *stage.history.lock());
    history.dead_letters = letters
        .iter()
        .map(|letter| {
            let (group, partition) = (letter.group.to_string(), letter.partition.to_string());
            (group, partition, letter.transaction_id.to_string())
        })
        .collect();
    history.drained_by = GROUPS.map(str::to_owned).to_vec();
    let report = check(&history);
    assert!(report.violations.is_empty(), "{report}\nseed {seed}");
    assert!(report.acknowledged > 100 && report.redelivered > 0, "it was not hot: {report}");
    for node in &stage.nodes {
        node.close().await;
    }
    drop(client);
    // The statistics of closed sessions are complete.
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(count(&schema.client().await, deadlocks).await, 0);
}
