//! `notify = trigger`: rows that are written with psql wake the waiters on all nodes when they
//! become due.

use std::time::{Duration, Instant};

use serde_json::json;
use wakeline_testkit::database::TestDatabase;

use crate::support::{Behaviour, Hook, Receiver, Server, Store, eventually};

/// Flags for a fallback that is too rare to let a test pass, and for tolerating hints that a busy
/// machine handles late.
const TRIGGERS: [&str; 6] = [
    "--notify",
    "trigger",
    "--fallback-poll-interval-ms",
    "3600000",
    "--notify-delivery-timeout-ms",
    "30000",
];

/// Delay of a row that must not be delivered earlier.
const LATER: Duration = Duration::from_secs(1);

const LATER_SQL: &str = "clock_timestamp() + interval '1 s'";

async fn run(store: &Store, sql: &str) {
    database(store).client().await.batch_execute(sql).await.expect("the user may write the row");
}

fn database(store: &Store) -> &TestDatabase {
    let Store::Postgres(database) = store else { panic!("only PostgreSQL has triggers") };
    database
}

/// Starts two nodes.
async fn nodes(store: &Store) -> [Server; 2] {
    let url = store.url();
    [Hook::serve(&url, &TRIGGERS).await, Hook::serve(&url, &TRIGGERS).await]
}

#[tokio::test]
async fn an_incoming_row_answers_pops_on_all_nodes_at_its_time() {
    let store = Store::postgres().await;
    let [a, b] = nodes(&store).await;
    let pop = |group: &str| {
        format!("/api/v1/pop/queue/q?consumerGroup={group}&wait=true&timeout=60000&autoAck=true")
    };
    for (id, due) in [("now", "NULL"), ("later", LATER_SQL)] {
        let parked = [a.client.park(&pop("ga")).await, b.client.park(&pop("gb")).await];
        a.parked(1).await;
        b.parked(1).await;
        let started = Instant::now();
        let insert = format!(
            "INSERT INTO wakeline.incoming (queue, payload, transaction_id, deliver_at)
             VALUES ('q', '1', '{id}', {due})"
        );
        run(&store, &insert).await;
        for parked in parked {
            assert_eq!(parked.answer().await.expect("an answer").ids(), [id]);
            assert!(due == "NULL" || started.elapsed() >= LATER, "{:?}", started.elapsed());
        }
    }
}

#[tokio::test]
async fn a_scheduled_message_that_is_moved_is_popped_at_its_new_time() {
    let store = Store::postgres().await;
    let [a, b] = nodes(&store).await;
    for (id, due) in [("now", "clock_timestamp()"), ("later", LATER_SQL)] {
        let item = json!({"queue": "q", "payload": 1, "transactionId": id, "delayMs": 3_600_000});
        let pushed = a.client.post("/api/v1/push", json!({"items": [item]})).await;
        assert_eq!(pushed.status, 201, "{pushed:?}");
        let pop = "/api/v1/pop/queue/q?wait=true&timeout=60000&autoAck=true";
        let parked = b.client.park(pop).await;
        b.parked(1).await;
        let started = Instant::now();
        run(&store, &format!("UPDATE wakeline.scheduled SET deliver_at = {due}")).await;
        assert_eq!(parked.answer().await.expect("an answer").ids(), [id]);
        assert!(id == "now" || started.elapsed() >= LATER, "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_failed_message_whose_retry_is_moved_is_popped_at_its_new_time() {
    let store = Store::postgres().await;
    let [a, b] = nodes(&store).await;
    let options = json!({"retryDelay": 3_600_000, "retryDelayMax": 3_600_000, "retryLimit": 9});
    let configure = json!({"queue": "q", "options": options});
    assert_eq!(a.client.post("/api/v1/configure", configure).await.status, 200);
    a.client.push("q", &[("p", "m")]).await;
    let pop = "/api/v1/pop/queue/q?wait=true&timeout=60000";
    let mut popped = a.client.get(pop).await;
    for due in ["clock_timestamp()", LATER_SQL] {
        let message = popped.json()["messages"][0].clone();
        let failed = json!({
            "transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "status": "failed",
        });
        assert_eq!(a.client.post("/api/v1/ack", failed).await.status, 200);
        let parked = b.client.park(pop).await;
        b.parked(1).await;
        let started = Instant::now();
        run(&store, &format!("UPDATE wakeline.retries SET due_at = {due}")).await;
        popped = parked.answer().await.expect("an answer");
        assert_eq!(popped.ids(), ["m"]);
        assert!(due != LATER_SQL || started.elapsed() >= LATER, "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_delivery_is_sent_when_it_is_inserted_and_when_its_time_is_moved() {
    let store = Store::postgres().await;
    let [a, _b] = nodes(&store).await;
    let hook = Hook::open(&a).await;
    let mut receiver = Receiver::start("r", Behaviour::Answers(500)).await;
    hook.endpoint(&receiver, json!({"delivery": {"scheduleSeconds": [3600, 3600]}})).await;
    hook.send("m").await;
    receiver.got(1).await;
    let waits = "state = 0 AND attempts = 1 AND due_at > now() + interval '10 min'";
    written(&store, waits).await;
    receiver.set_behaviour(Behaviour::Answers(200)).await;
    run(&store, "UPDATE wakeline.hook_deliveries SET due_at = clock_timestamp()").await;
    receiver.got(2).await;

    // The second delivery is for an endpoint that did not exist when the message was sent.
    let second = Receiver::start("s", Behaviour::Answers(200)).await;
    hook.endpoint(&second, json!({})).await;
    let started = Instant::now();
    run(&store, &insert("s", LATER_SQL)).await;
    second.got(1).await;
    assert!(started.elapsed() >= LATER, "{:?}", started.elapsed());
    assert!(second.log().iter().all(|arrival| arrival.verified && arrival.mark == "m"));
}

#[tokio::test]
async fn an_inserted_delivery_answers_a_pull_at_its_time() {
    let store = Store::postgres().await;
    let [a, b] = nodes(&store).await;
    let hook = Hook::open(&a).await;
    hook.send("m").await;
    for (uid, due) in [("now", "clock_timestamp()"), ("later", LATER_SQL)] {
        hook.post("/api/v1/app/a/endpoint", json!({"uid": uid, "delivery": {"pull": true}})).await;
        let pull = format!("/api/v1/app/a/endpoint/{uid}/pull?wait=true&timeout=60000");
        let parked = b.client.park(&pull).await;
        let waits = async || webhook_waiters(&b).await == webhook_waiters(&a).await + 1;
        eventually("the pull waits", waits).await;
        let started = Instant::now();
        run(&store, &insert(uid, due)).await;
        let pulled = parked.answer().await.expect("an answer").json();
        assert_eq!(pulled["messages"][0]["eventId"], "m", "{pulled}");
        assert!(uid == "now" || started.elapsed() >= LATER, "{:?}", started.elapsed());
    }
}

/// Returns the number of senders and pulls that wait on a node.
async fn webhook_waiters(server: &Server) -> u64 {
    let metrics = server.client.get("/metrics").await.body;
    let name = "wakeline_wake_waiters{api=\"hook\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// Returns the statement that inserts a delivery of the only message.
fn insert(uid: &str, due: &str) -> String {
    format!(
        "INSERT INTO wakeline.hook_deliveries (endpoint_id, message_id, state, class, fifo, due_at,
             created_at, updated_at)
         SELECT e.endpoint_id, m.message_id, 0, 0, false, {due}, now(), now()
         FROM wakeline.hook_endpoints e CROSS JOIN wakeline.hook_messages m WHERE e.uid = '{uid}'"
    )
}

/// Waits until a delivery meets a condition.
async fn written(store: &Store, condition: &str) {
    let sql = format!("SELECT EXISTS (SELECT FROM wakeline.hook_deliveries WHERE {condition})");
    let client = database(store).client().await;
    let written = async || client.query_one(&sql, &[]).await.expect("read").get::<_, bool>(0);
    eventually("the delivery is recorded", written).await;
}
