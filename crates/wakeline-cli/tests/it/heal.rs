//! After an outage: whoever waits is served soon after the database is back, however long the
//! outage lasted and whatever became of the connections.
//!
//! The guide promises two seconds. The limit is above that, because these tests run beside others
//! and a busy machine must not fail them; what is measured is printed. It is still far below what
//! back-offs of several seconds would cost.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Client, Hook, Mood, OwnPostgres, Proxy, Receiver, Server, Store, eventually};

/// Outages whose ends fall between the tries of back-offs that double without a small bound.
const OUTAGES: [Duration; 2] = [Duration::from_millis(4_000), Duration::from_millis(7_000)];

const LIMIT: Duration = Duration::from_secs(3);

/// A fallback that cannot help.
const NO_FALLBACK: [&str; 2] = ["--fallback-poll-interval-ms", "3600000"];

/// Parks a pop. It is not autoAck: one whose claim is lost with its connection is not served, but
/// answered that its outcome is unknown.
async fn park(server: &Server) -> tokio::task::JoinHandle<(Vec<String>, Instant)> {
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=120000").await;
    server.parked(1).await;
    tokio::spawn(async move {
        let ids = parked.answer().await.expect("an answer").ids();
        (ids, Instant::now())
    })
}

/// When a receiver got so many.
async fn got(receiver: &Receiver, count: usize) -> Instant {
    let wait = async {
        while receiver.count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the webhook comes");
    Instant::now()
}

fn judge(what: &str, outage: Duration, healed: Instant, [pop, hook]: [Instant; 2]) {
    let (pop, hook) = (pop - healed, hook.saturating_duration_since(healed));
    eprintln!("{what} for {outage:?}: the pop was served {pop:?} after it, the webhook {hook:?}");
    assert!(pop < LIMIT && hook < LIMIT, "{what} for {outage:?}: {pop:?}, {hook:?}");
}

/// One node loses its database; another one, that sends no webhooks, brings work meanwhile.
async fn behind_a_proxy(what: &str, begin: impl Fn(&Proxy)) {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let proxy = Proxy::start(database.address()).await;
    let cut_off = Hook::serve(&database.url_through(proxy.address), &NO_FALLBACK).await;
    let other = Server::start(&store, &NO_FALLBACK).await;
    let receiver = Receiver::start("r", Mood::Answers(200)).await;
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
        proxy.mend();
        let healed = Instant::now();
        let (popped, hook) = tokio::join!(parked, got(&receiver, round + 1));
        let (ids, pop) = popped.expect("no panic");
        assert_eq!(ids, [mark]);
        judge(what, outage, healed, [pop, hook]);
        eventually("the listener is back", || async { cut_off.wake().await["link"] == "up" }).await;
    }
}

#[tokio::test]
async fn connections_that_were_refused_delay_nobody_for_long_afterwards() {
    behind_a_proxy("connections refused", Proxy::cut).await;
}

#[tokio::test]
async fn connections_that_were_swallowed_delay_nobody_for_long_afterwards() {
    behind_a_proxy("packets swallowed", Proxy::swallow).await;
}

/// Pushes and sends until it is accepted.
async fn bring(client: Client, mark: &str) {
    // Each in its own partition: the lease on the one before is still live.
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
async fn a_database_that_was_stopped_delays_nobody_for_long_afterwards() {
    let postgres = OwnPostgres::start();
    let server = Hook::serve(&postgres.url(), &NO_FALLBACK).await;
    let receiver = Receiver::start("r", Mood::Answers(200)).await;
    Hook::open(&server).await.endpoint(&receiver, json!({})).await;
    for (round, outage) in OUTAGES.into_iter().enumerate() {
        let parked = park(&server).await;
        postgres.stop();
        tokio::time::sleep(outage).await;
        postgres.restart();
        let healed = Instant::now();
        let mark = format!("round-{round}");
        let ((), popped, hook) =
            tokio::join!(bring(server.client, &mark), parked, got(&receiver, round + 1));
        let (ids, pop) = popped.expect("no panic");
        assert_eq!(ids, [mark]);
        judge("database stopped", outage, healed, [pop, hook]);
    }
}
