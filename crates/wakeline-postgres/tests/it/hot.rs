//! Pushers, consumers and zombies of two nodes on one queue, hot, for some seconds.
//!
//! What clients saw is checked by the testkit's history; what the database looks like is checked
//! while it runs and at rest. The test has a database of its own, so that its deadlocks can be
//! counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use wakeline_core::{GroupName, LeaseId, QueueName, QueueOptions, Verdict};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::{
    ConfigureQueue, DeadLetterFilter, Delivered, GrantedPartition, PushOutcome, QueueAdmin,
    QueueStore, SettleItem, SettleOutcome, StoreAdmin, TransactCommand, TransactOutcome,
};
use wakeline_testkit::conformance::{Ask, item};
use wakeline_testkit::history::{
    Answer, Delivery, Extend, History, Push, Seen, Settle, Span, check,
};

use crate::support::{client, url};

const PARTITIONS: u64 = 24;
const PUSHERS: u64 = 3;
const CONSUMERS: u64 = 6;
const GROUPS: [&str; 2] = ["g1", "g2"];
const HOT: Duration = Duration::from_secs(5);

/// No cursor may sleep, or wait for a later time than it must, with something to read; and the
/// number of parked messages is exact. True in every snapshot, not only at rest.
const BROKEN: &str = "
    SELECT count(*) FROM s.cursors c JOIN s.partitions p USING (partition_id)
    LEFT JOIN (SELECT partition_id, group_id, count(*) AS n, min(due_at) AS due_at FROM s.retries
        GROUP BY 1, 2) r USING (partition_id, group_id)
    WHERE c.parked <> coalesce(r.n, 0)
        OR (c.lease_token IS NULL AND c.due_at IS NULL
            AND (p.next_offset > c.next_offset OR c.parked > 0))
        OR (c.lease_token IS NULL AND c.parked = 0 AND c.due_at > clock_timestamp()
            AND p.next_offset > c.next_offset)";

/// Small, fast, and the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// A database of its own.
struct Database {
    name: String,
}

impl Database {
    async fn create() -> Self {
        let name = format!("wl_hot_{}", Uuid::new_v4().simple());
        client().await.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("created");
        Self { name }
    }

    fn url(&self) -> String {
        let (server, _) = url()
            .rsplit_once('/')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("the tests' PostgreSQL is named by a URL with a database");
        format!("{server}/{}", self.name)
    }

    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("open");
        tokio::spawn(connection);
        client
    }

    async fn drop(self) {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        client().await.batch_execute(&sql).await.expect("dropped");
    }
}

/// What all actors share.
struct Stage {
    nodes: Vec<PostgresStore>,
    queue: QueueName,
    began: Instant,
    history: Mutex<History>,
    pushing: AtomicBool,
    running: AtomicBool,
    /// Numbers for transaction ids, never used twice.
    next: AtomicU64,
}

impl Stage {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn node(&self, actor: u64) -> &PostgresStore {
        &self.nodes[usize::try_from(actor).expect("few actors") % self.nodes.len()]
    }

    fn partition(&self, dice: &mut Dice) -> String {
        // Half of the load goes to a few partitions, so that they are contended.
        let below = if dice.roll(2) == 0 { 4 } else { PARTITIONS };
        format!("p{}", dice.roll(below))
    }

    async fn push(&self, actor: u64, dice: &mut Dice) {
        let len = [1, 1, 3, 20][usize::try_from(dice.roll(4)).expect("small")];
        let items: Vec<_> = (0..len)
            .map(|_| {
                let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
                item(&self.queue, &self.partition(dice), &id)
            })
            .collect();
        let from = self.now();
        let reply = self.node(actor).push(items.clone()).await.expect("pushed");
        let span = Span { from, to: self.now() };
        let pushes = items.iter().zip(&reply.outcomes).map(|(item, outcome)| {
            assert!(matches!(outcome, PushOutcome::Queued { .. }), "{outcome:?}");
            pushed(item, span)
        });
        self.history.lock().pushes.extend(pushes);
        // Sometimes the same again: nothing new may be stored, by whichever node.
        if dice.roll(10) == 0 {
            let again = self.node(actor + 1).push(items).await.expect("pushed");
            for outcome in again.outcomes {
                assert!(matches!(outcome, PushOutcome::Duplicate { .. }), "{outcome:?}");
            }
        }
    }

    async fn consume(&self, actor: u64, dice: &mut Dice, zombies: &mut Vec<(Duration, Held)>) {
        let group = GroupName::new(GROUPS[usize::try_from(dice.roll(2)).expect("small")]);
        let group = group.expect("valid");
        let draining = !self.pushing.load(Ordering::Relaxed);
        let batch = if draining { 50 } else { [1, 5, 30][dice.roll(3) as usize] };
        let partitions = [1, 1, 3][dice.roll(3) as usize];
        let ask = Ask::queue(&self.queue).group(&group).batch(batch).partitions(partitions);
        let requests = 1 + usize::try_from(dice.roll(3)).expect("small");
        let from = self.now();
        let node = self.node(actor);
        let outcome = node.claim(vec![ask.line_claim(requests)]).await.expect("claimed").remove(0);
        let span = Span { from, to: self.now() };
        let mut idle = true;
        for grant in outcome.grants.into_iter().flatten() {
            idle = false;
            let lease = grant.lease.expect("leased");
            for granted in grant.partitions {
                let held = Held { group: group.clone(), lease: lease.clone(), granted };
                self.history.lock().deliveries.push(held.delivery(span, grant.lease_for));
                self.treat(actor, dice, held, (draining, zombies)).await;
            }
        }
        let now = self.now();
        let (due, rest) = zombies.drain(..).partition(|(at, _)| *at <= now);
        *zombies = rest;
        let due: Vec<(Duration, Held)> = due;
        for (_, held) in due {
            self.settle(actor, &held, held.items(Verdict::Completed)).await;
        }
        if idle {
            let wait = outcome.next_due.unwrap_or(Duration::from_millis(20));
            tokio::time::sleep(wait.min(Duration::from_millis(20))).await;
        }
    }

    /// Does with a delivery what consumers do.
    async fn treat(
        &self,
        actor: u64,
        dice: &mut Dice,
        held: Held,
        (draining, zombies): (bool, &mut Vec<(Duration, Held)>),
    ) {
        let fate = if draining { 100 } else { dice.roll(100) };
        match fate {
            // Crashes; comes back when its lease is over.
            0..2 => zombies.push((self.now() + Duration::from_millis(1100), held)),
            2..8 => {
                let half = held.items(Verdict::Completed).into_iter().step_by(2).collect();
                self.settle(actor, &held, half).await;
                if dice.roll(2) == 0 {
                    self.release(actor, &held).await;
                } else {
                    self.settle(actor, &held, held.items(Verdict::Completed)).await;
                }
            }
            8..14 => {
                let mut items = held.items(Verdict::Completed);
                for item in items.iter_mut().step_by(3) {
                    item.verdict = [Verdict::Failed, Verdict::Retry][dice.roll(2) as usize];
                }
                self.settle(actor, &held, items).await;
            }
            14..17 => self.release(actor, &held).await,
            17..20 => {
                self.extend(actor, &held).await;
                self.settle(actor, &held, held.items(Verdict::Completed)).await;
            }
            20..28 => self.transact(actor, dice, &held).await,
            _ => self.settle(actor + dice.roll(2), &held, held.items(Verdict::Completed)).await,
        }
    }

    async fn settle(&self, actor: u64, held: &Held, items: Vec<SettleItem>) {
        let from = self.now();
        let reply = self.node(actor).settle(items.clone()).await.expect("settled");
        let span = Span { from, to: self.now() };
        let settles = items.iter().zip(&reply.outcomes);
        let settles = settles.map(|(item, outcome)| held.settled(item, outcome, span));
        self.history.lock().settles.extend(settles);
    }

    async fn release(&self, actor: u64, held: &Held) {
        let mut lease = held.lease.clone();
        lease.cursors.retain(|cursor| cursor.partition == held.granted.partition_id);
        let from = self.now();
        self.node(actor).release(vec![lease]).await.expect("released");
        let settle = Settle {
            group: held.group.to_string(),
            partition: held.granted.partition.to_string(),
            lease: held.lease.token.to_string(),
            what: None,
            span: Span { from, to: self.now() },
            // Whether it was still live is not told.
            answer: Answer::Unknown,
        };
        self.history.lock().settles.push(settle);
    }

    async fn extend(&self, actor: u64, held: &Held) {
        let lease_for = Duration::from_secs(1);
        let from = self.now();
        let extension = self.node(actor).extend(held.lease.clone(), lease_for).await;
        let extension = extension.expect("extended");
        let kept = extension.held.contains(&held.granted.partition_id);
        let extend = Extend {
            partition: held.granted.partition.to_string(),
            lease: held.lease.token.to_string(),
            lease_for,
            span: Span { from, to: self.now() },
            answer: if kept { Answer::Ok } else { Answer::Refused },
        };
        self.history.lock().extends.push(extend);
    }

    /// Completes all that is held and pushes as much, at once.
    async fn transact(&self, actor: u64, dice: &mut Dice, held: &Held) {
        let pushes: Vec<_> = (0..2)
            .map(|_| {
                let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
                item(&self.queue, &self.partition(dice), &id)
            })
            .collect();
        let settles = held.items(Verdict::Completed);
        let from = self.now();
        let command = TransactCommand { pushes: pushes.clone(), settles: settles.clone() };
        let reply = self.node(actor).transact(command).await.expect("answered");
        let span = Span { from, to: self.now() };
        let mut history = self.history.lock();
        match reply.outcome {
            TransactOutcome::Committed { settles: outcomes, .. } => {
                history.pushes.extend(pushes.iter().map(|item| pushed(item, span)));
                let settles = settles.iter().zip(&outcomes);
                let settles = settles.map(|(item, outcome)| held.settled(item, outcome, span));
                history.settles.extend(settles);
            }
            TransactOutcome::Refused { .. } => {
                history.pushes.extend(
                    pushes
                        .iter()
                        .map(|item| Push { answer: Answer::Refused, ..pushed(item, span) }),
                );
            }
        }
    }
}

/// What a consumer holds of one partition.
struct Held {
    group: GroupName,
    lease: LeaseId,
    granted: GrantedPartition,
}

impl Held {
    fn items(&self, verdict: Verdict) -> Vec<SettleItem> {
        let item = |message: &Delivered| SettleItem {
            partition: self.granted.partition_id,
            group: self.group.clone(),
            token: Some(self.lease.token),
            transaction_id: message.transaction_id.clone(),
            verdict,
            error: None,
        };
        self.granted.messages.iter().map(item).collect()
    }

    fn delivery(&self, span: Span, lease_for: Duration) -> Delivery {
        let seen = |message: &Delivered| Seen {
            message: message.transaction_id.to_string(),
            offset: message.offset,
        };
        Delivery {
            group: self.group.to_string(),
            partition: self.granted.partition.to_string(),
            lease: Some(self.lease.token.to_string()),
            lease_for,
            span,
            messages: self.granted.messages.iter().map(seen).collect(),
        }
    }

    fn settled(&self, item: &SettleItem, outcome: &SettleOutcome, span: Span) -> Settle {
        Settle {
            group: self.group.to_string(),
            partition: self.granted.partition.to_string(),
            lease: self.lease.token.to_string(),
            what: Some((item.transaction_id.to_string(), item.verdict)),
            span,
            answer: match outcome {
                SettleOutcome::Settled { .. } => Answer::Ok,
                _ => Answer::Refused,
            },
        }
    }
}

fn pushed(item: &wakeline_store::PushItem, span: Span) -> Push {
    Push {
        partition: item.partition.to_string(),
        message: item.transaction_id.to_string(),
        span,
        answer: Answer::Ok,
    }
}

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

async fn open_stage(database: &Database) -> Arc<Stage> {
    let options =
        PostgresOptions { schema: "s".to_owned(), ..PostgresOptions::new(database.url()) };
    let nodes = vec![
        PostgresStore::connect(options.clone()).await.expect("a store"),
        PostgresStore::connect(options).await.expect("a store"),
    ];
    let queue = QueueName::new("hot").expect("valid");
    let options = QueueOptions { lease_secs: 1, retry_limit: 3, ..QueueOptions::default() };
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
async fn nothing_is_lost_doubled_or_reordered_under_fire() {
    let seed = Uuid::new_v4().as_u64_pair().0 | 1;
    let database = Database::create().await;
    let stage = open_stage(&database).await;
    let mut actors = actors(&stage, seed).await;
    let client = database.client().await;
    let broken = |at: &str| format!("{at}, seed {seed}");
    while stage.now() < HOT {
        assert_eq!(count(&client, BROKEN).await, 0, "{}", broken("a cursor sleeps while it runs"));
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    stage.pushing.store(false, Ordering::Relaxed);
    let unread = "SELECT count(*) FROM s.cursors c JOIN s.partitions p USING (partition_id)
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

    let filter = DeadLetterFilter { limit: 100_000, ..DeadLetterFilter::default() };
    let letters = stage.nodes[0].dead_letters(filter).await.expect("listed");
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
    // Statistics of ended sessions are complete.
    let deadlocks =
        format!("SELECT deadlocks FROM pg_stat_database WHERE datname = '{}'", database.name);
    assert_eq!(count(&crate::support::client().await, &deadlocks).await, 0);
    database.drop().await;
}
