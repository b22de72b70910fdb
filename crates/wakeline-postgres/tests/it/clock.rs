//! The clock of the database's machine is changed by a day: leased and scheduled work is neither
//! lost nor stuck, on any node.

use std::time::Duration;

use tokio_postgres::Client;
use wakeline_core::{GroupName, QueueName, Verdict};
use wakeline_postgres::PostgresStore;
use wakeline_store::flow::{Envelope, TurnCommit, Visible};
use wakeline_store::{
    QueueClaimResult, QueueStore, ScheduleItem, SettleItem, StoreAdmin, TransactCommand,
};
use wakeline_testkit::conformance::{ClaimSpec, item};
use wakeline_testkit::flow_conformance::{FlowBench, Worker, after, event, id, start, step, work};
use wakeline_testkit::hook_conformance::{HookBench, plain};

use crate::conformance::Fixture;
use crate::support::TestSchema;

/// After its machine's clock was set back, the store's runs slower by a tenth.
const SLOWER: f64 = 10.0 / 9.0;

/// When a claim that saw the clock go back is made again.
const AGAIN: Duration = Duration::from_millis(5);

/// The machine's clock of a fixture.
struct Machine(Client);

impl Machine {
    async fn of(fixture: &Fixture) -> Self {
        Self(fixture.schema.client().await)
    }

    async fn step(&self, days: i32) {
        let sql = format!("UPDATE wakeline.test_clock SET shift = shift + interval '{days} days'");
        self.0.batch_execute(&sql).await.expect("set");
    }

    async fn pass(&self, secs: f64) {
        let sql =
            format!("UPDATE wakeline.test_clock SET shift = shift + interval '{secs} seconds'");
        self.0.batch_execute(&sql).await.expect("set");
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("valid")
}

/// Claims as the hub does: it claims again immediately if the outcome says so.
async fn take(store: &PostgresStore, name: &str) -> Option<QueueClaimResult> {
    for _ in 0..2 {
        let claim = ClaimSpec::queue(&queue(name)).line_claim(1);
        let mut outcome = store.claim(vec![claim]).await.expect("claimed").remove(0);
        if let Some(result) = outcome.results.remove(0) {
            return Some(result);
        }
        if outcome.next_due.is_none_or(|due| due > Duration::from_millis(10)) {
            return None;
        }
    }
    None
}

async fn push(store: &PostgresStore, name: &str, partition: &str) {
    store.push(vec![item(&queue(name), partition, partition)]).await.expect("pushed");
}

fn attempt(result: &QueueClaimResult) -> u32 {
    result.partitions[0].messages[0].attempt
}

#[tokio::test]
async fn a_clock_that_is_set_back_hides_no_message_and_extends_no_lease() {
    let fixture = Fixture::open().await;
    let (store, machine) = (&fixture.store, Machine::of(&fixture).await);
    let due = Visible::After(Duration::from_secs(600));
    let later = ScheduleItem { message: item(&queue("later"), "p", "l"), due, key: None };
    let later = TransactCommand { schedules: vec![later], ..TransactCommand::default() };
    store.transact(later).await.expect("scheduled");
    push(store, "q", "held").await;
    let held = take(store, "q").await.expect("one message");
    let other = fixture.schema.store().await;
    assert!(take(&other, "q").await.is_none(), "the other node knows the time as well");
    push(store, "q", "waits").await;

    machine.step(-1).await;
    let waits = take(&other, "q").await.expect("what was due stays due");
    assert_eq!(attempt(&waits), 1);
    push(store, "q", "new").await;
    assert!(take(store, "q").await.is_some(), "a new message is delivered at once");

    let lease = held.lease_for.as_secs_f64();
    // The test itself takes time as well, and more on a busy machine.
    machine.pass((lease - 60.0) * SLOWER).await;
    assert!(take(store, "q").await.is_none(), "leases last their time");
    assert!(take(&other, "later").await.is_none(), "nothing is early");
    machine.pass(65.0 * SLOWER).await;
    assert_eq!(attempt(&take(store, "q").await.expect("the lease has ended")), 2);
    machine.pass((600.0 - lease) * SLOWER).await;
    assert!(take(&other, "later").await.is_some(), "it is due");
    other.close().await;
}

#[tokio::test]
async fn messages_are_delivered_after_the_clock_was_a_day_ahead() {
    let fixture = Fixture::open().await;
    let (store, machine) = (&fixture.store, Machine::of(&fixture).await);
    push(store, "q", "a").await;
    take(store, "q").await.expect("one message");
    machine.step(1).await;
    let ahead = take(store, "q").await.expect("its lease has ended, a day later");
    machine.step(-1).await;
    assert!(take(store, "q").await.is_none(), "the second lease is held");
    push(store, "q", "b").await;
    assert!(take(store, "q").await.is_some(), "a new message is delivered at once");
    machine.pass((ahead.lease_for.as_secs_f64() + 5.0) * SLOWER).await;
    assert_eq!(attempt(&take(store, "q").await.expect("the lease has ended")), 3);
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_retry() {
    let fixture = Fixture::open().await;
    let (store, machine) = (&fixture.store, Machine::of(&fixture).await);
    push(store, "q", "a").await;
    let result = take(store, "q").await.expect("one message");
    let failed = SettleItem {
        partition: result.partitions[0].partition_id,
        group: GroupName::queue_mode(),
        token: result.lease.map(|lease| lease.token),
        transaction_id: result.partitions[0].messages[0].transaction_id.clone(),
        verdict: Verdict::Failed,
        error: None,
    };
    store.settle(vec![failed]).await.expect("settled");
    machine.step(-1).await;
    assert!(take(store, "q").await.is_none(), "the retry waits");
    machine.pass(60.0).await;
    assert_eq!(attempt(&take(store, "q").await.expect("its retry is due")), 2);
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_turn_and_no_timer() {
    let fixture = Fixture::open().await;
    let machine = Machine::of(&fixture).await;
    let bench = FlowBench::new(Box::new(fixture));
    bench.start("a").await;
    let turn = bench.turn().await;
    let timer = Envelope { visible: after(600), ..event("a", "timer") };
    bench.committed(TurnCommit { messages: vec![timer], ..step(&turn) }).await;
    bench.start("b").await;
    bench.turn().await;
    bench.send(vec![start("c")]).await;

    machine.step(-1).await;
    assert_eq!(bench.no_turn().await, Some(AGAIN), "noticed");
    assert_eq!(bench.turn().await.instance, id("c"), "what was due stays due");
    machine.pass(35.0 * SLOWER).await;
    assert_eq!(bench.turn().await.attempt, 2, "the lease of a turn has ended");
    assert_eq!(bench.turn().await.attempt, 2, "and that of the other");
    bench.no_turn().await;
    machine.pass(600.0 * SLOWER).await;
    let due = [bench.turn().await, bench.turn().await, bench.turn().await];
    assert!(due.iter().any(|turn| turn.instance == id("a")), "its timer is due");
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_activity() {
    let fixture = Fixture::open().await;
    let machine = Machine::of(&fixture).await;
    let bench = FlowBench::new(Box::new(fixture));
    let worker = Worker::plain();
    bench.running("a").await;
    bench.add_work(work("a", 1)).await;
    bench.work(&worker).await;
    bench.add_work(work("a", 2)).await;

    machine.step(-1).await;
    let got = bench.claim_work(vec![worker.claim(1)]).await;
    assert_eq!(got[0].work.iter().flatten().count(), 1, "new work waits for nothing");
    machine.pass(35.0 * SLOWER).await;
    let got = bench.claim_work(vec![worker.claim(2)]).await;
    assert_eq!(got[0].work.iter().flatten().count(), 2, "both leases have ended");
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_webhook() {
    let fixture = Fixture::open().await;
    let machine = Machine::of(&fixture).await;
    let bench = HookBench::new(Box::new(fixture)).await;
    bench.with(plain()).await;
    let leased = bench.emit().await;
    bench.one().await;
    let retried = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 120).await;
    let waits = bench.emit().await;

    machine.step(-1).await;
    assert_eq!(bench.none().await, Some(AGAIN), "noticed");
    let item = bench.one().await;
    assert_eq!(item.message, waits, "what was due stays due");
    bench.deliver(&item).await;
    machine.pass(35.0 * SLOWER).await;
    let item = bench.one().await;
    assert_eq!((item.message, item.attempt_no), (leased, 2), "a lease has ended");
    bench.deliver(&item).await;
    machine.pass(120.0 * SLOWER).await;
    assert_eq!(bench.one().await.message, retried, "a retry is due");
}

#[tokio::test]
async fn a_clock_that_was_set_back_while_no_node_ran_hides_no_message() {
    let fixture = Fixture::open().await;
    let machine = Machine::of(&fixture).await;
    push(&fixture.store, "q", "a").await;
    take(&fixture.store, "q").await.expect("one message");
    push(&fixture.store, "q", "b").await;
    fixture.store.close().await;
    machine.step(-1).await;
    let store = fixture.schema.store().await;
    let waits = take(&store, "q").await.expect("what was due stays due");
    machine.pass((waits.lease_for.as_secs_f64() + 5.0) * SLOWER).await;
    let again = take(&store, "q").await.expect("a lease has ended");
    assert_eq!(attempt(&again), 2);
    store.close().await;
}

#[tokio::test]
async fn turns_and_webhooks_continue_after_the_clock_was_a_day_ahead() {
    let fixture = Fixture::open().await;
    let machine = Machine::of(&fixture).await;
    let bench = FlowBench::new(Box::new(fixture));
    bench.start("a").await;
    bench.turn().await;
    machine.step(1).await;
    assert_eq!(bench.turn().await.attempt, 2, "its lease has ended, a day later");
    machine.step(-1).await;
    assert_eq!(bench.no_turn().await, Some(AGAIN), "noticed");
    bench.no_turn().await;
    machine.pass(35.0 * SLOWER).await;
    assert_eq!(bench.turn().await.attempt, 3, "the second lease has ended");

    let fixture = Fixture::open().await;
    let machine = Machine::of(&fixture).await;
    let bench = HookBench::new(Box::new(fixture)).await;
    bench.with(plain()).await;
    bench.emit().await;
    bench.one().await;
    machine.step(1).await;
    assert_eq!(bench.one().await.attempt_no, 2, "its lease has ended, a day later");
    machine.step(-1).await;
    assert_eq!(bench.none().await, Some(AGAIN), "noticed");
    bench.none().await;
    machine.pass(35.0 * SLOWER).await;
    assert_eq!(bench.one().await.attempt_no, 3, "the second lease has ended");
}

#[tokio::test]
async fn the_view_of_groups_uses_the_clock_of_the_store() {
    let schema = TestSchema::with_stopped_clock().await;
    let user = schema.client().await;
    let sql = "UPDATE wakeline.test_clock SET shift = interval '1000 years';
        SELECT wakeline.configure('q', '{\"groupIdleSeconds\": 600}');
        SELECT * FROM wakeline.pop('q', p_group => 'g')";
    user.batch_execute(sql).await.expect("a group is made");
    let idle = async || {
        let sql = "SELECT idle_since IS NOT NULL FROM wakeline.consumer_groups";
        user.query_one(sql, &[]).await.expect("read").get::<_, bool>(0)
    };
    assert!(!idle().await);
    let sql = "UPDATE wakeline.test_clock SET shift = shift + interval '1 hour'";
    user.batch_execute(sql).await.expect("set");
    assert!(idle().await);
}
