//! After an outage, waiters are served soon after the database is available again, independently of
//! the length of the outage and the state of the connections.
//!
//! The guide promises two seconds. The limit of the tests is higher, because they run beside others
//! and must not fail on a busy machine; the measured times are printed. It is still far below the
//! delay of back-offs of several seconds.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    Behaviour, Client, Hook, OwnPostgres, Proxy, Receiver, Server, Store, eventually,
};

/// Outages that end between two attempts of a back-off that doubles without a small bound.
const OUTAGES: [Duration; 2] = [Duration::from_millis(4_000), Duration::from_millis(7_000)];

/// Maximum time from the end of an outage until waiters are served.
const LIMIT: Duration = Duration::from_secs(3);

/// Flags for a fallback that is too rare to help.
const NO_FALLBACK: [&str; 2] = ["--fallback-poll-interval-ms", "3600000"];

/// Parks a pop without autoAck. An autoAck pop whose claim is lost with its connection is answered
/// that its outcome is unknown.
async fn park(server: &Server) -> tokio::task::JoinHandle<(Vec<String>, Instant)> {
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=120000").await;
    server.parked(1).await;
    tokio::spawn(async move {
        let ids = parked.answer().await.expect("an answer").ids();
        (ids, Instant::now())
    })
}

/// Waits until a receiver has got this many requests. Returns the time.
async fn got(receiver: &Receiver, count: usize) -> Instant {
    let wait = async {
        while receiver.count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the webhook arrives");
    Instant::now()
}

/// When waiters were served after an outage.
struct Recovery {
    healed: Instant,
    pop: Instant,
    hook: Instant,
}

/// Checks that waiters were served within the limit.
fn judge(what: &str, outage: Duration, recovery: &Recovery) {
    let Recovery { healed, pop, hook } = *recovery;
    let (pop, hook) = (pop - healed, hook.saturating_duration_since(healed));
    eprintln!("{what} for {outage:?}: the pop was served {pop:?} after it, the webhook {hook:?}");
    assert!(pop < LIMIT && hook < LIMIT, "{what} for {outage:?}: {pop:?}, {hook:?}");
}

/// One node loses its database. Meanwhile another node, which sends no webhooks, accepts messages.
async fn behind_a_proxy(what: &str, begin: impl Fn(&Proxy)) {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let proxy = Proxy::start(database.address()).await;
    let cut_off = Hook::serve(&database.url_through(proxy.address), &NO_FALLBACK).await;
    let other = Server::start(&store, &NO_FALLBACK).await;
    let receiver = Receiver::start("r", Behaviour::Answers(200)).await;
    Hook::open(&cut_off).await.endpoint(&receiver, json!({})).await;
    for (round, outage) in OUTAGES.into_iter().enumerate() {
        let parked = park(&cut_off).await;
        begin(&proxy);
        tokio::time::sleep(outage - Duration::from_millis(500)).await;
        let mark = format!("round-{round}");
        other.client.push("q", &[(&mark, &mark)]).await;
        Hook(other.client).send(&mark).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!parked.is_finished() && receiver.count() == round, "{what}: nothing gets through");
        proxy.restore();
        let healed = Instant::now();
        let (popped, hook) = tokio::join!(parked, got(&receiver, round + 1));
        let (ids, pop) = popped.expect("no panic");
        assert_eq!(ids, [mark]);
        judge(what, outage, &Recovery { healed, pop, hook });
        eventually("the listener is connected again", || async {
            cut_off.wake().await["link"] == "up"
        })
        .await;
    }
}

#[tokio::test]
async fn refused_connections_delay_waiters_only_briefly_afterwards() {
    behind_a_proxy("connections refused", Proxy::cut).await;
}

#[tokio::test]
async fn swallowed_packets_delay_waiters_only_briefly_afterwards() {
    behind_a_proxy("packets swallowed", Proxy::swallow).await;
}

/// Pushes a message and sends a webhook, and repeats both until they are accepted.
async fn push_and_send(client: Client, mark: &str) {
    // Each message has its own partition, because the lease on the previous message is still
    // active.
    let item = json!({"queue": "q", "partition": mark, "payload": 1, "transactionId": mark});
    let push = json!({"items": [item]}).to_string();
    let event = json!({"eventType": "plain", "eventId": mark, "payload": {"mark": mark}});
    let calls = [("/api/v1/push", push, 201), ("/api/v1/app/a/msg", event.to_string(), 202)];
    for (path, body, accepted) in calls {
        loop {
            let answer = client.call("POST", path, &body).await.expect("the node is there");
            if answer.status == accepted || answer.status == 409 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_stopped_database_delays_waiters_only_briefly_afterwards() {
    let postgres = OwnPostgres::start();
    let server = Hook::serve(&postgres.url(), &NO_FALLBACK).await;
    let receiver = Receiver::start("r", Behaviour::Answers(200)).await;
    Hook::open(&server).await.endpoint(&receiver, json!({})).await;
    for (round, outage) in OUTAGES.into_iter().enumerate() {
        let parked = park(&server).await;
        postgres.stop();
        tokio::time::sleep(outage).await;
        postgres.restart();
        let healed = Instant::now();
        let mark = format!("round-{round}");
        let ((), popped, hook) =
            tokio::join!(push_and_send(server.client, &mark), parked, got(&receiver, round + 1));
        let (ids, pop) = popped.expect("no panic");
        assert_eq!(ids, [mark]);
        judge("database stopped", outage, &Recovery { healed, pop, hook });
    }
}
