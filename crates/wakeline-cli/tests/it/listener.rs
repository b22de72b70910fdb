//! A lost listener or a lost database causes latency, but loses no messages.

use std::time::{Duration, Instant};

use serde_json::Value;

use wakeline_testkit::database::TestDatabase;

use crate::support::{OwnPostgres, Proxy, Server, Store, eventually};

/// Flags for polling that starts and ends quickly while degraded, and for a fallback that is too
/// rare to help.
const QUICK: [&str; 8] = [
    "--degraded-poll-interval-ms",
    "50",
    "--aggressive-poll-duration-ms",
    "300",
    "--aggressive-exit-threshold",
    "3",
    "--fallback-poll-interval-ms",
    "3600000",
];

async fn degraded(server: &Server) -> bool {
    server.wake().await["degraded"] != Value::Null
}

/// Waits until no statements are sent to the database for a while.
async fn wait_until_silent(database: &TestDatabase) {
    let started = Instant::now();
    loop {
        database.reset_statements().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let statements = database.statements().await;
        if statements.is_empty() {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "never silent: {statements:#?}");
    }
}

#[tokio::test]
async fn a_node_polls_while_its_listener_is_cut_and_stops_afterwards() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let proxy = Proxy::start(database.address()).await;
    let listen_url = database.url_through(proxy.address);
    let flags = [&QUICK[..], &["--listen-url", &listen_url]].concat();
    let cut_off = Server::start(&store, &flags).await;
    let other = Server::start(&store, &QUICK).await;
    eventually("the listener is up", || async { cut_off.wake().await["link"] == "up" }).await;

    let parked = cut_off.client.park("/api/v1/pop/queue/q?wait=true&autoAck=true").await;
    cut_off.parked(1).await;
    proxy.cut();
    eventually("the loss is noticed", || degraded(&cut_off)).await;
    let started = Instant::now();
    other.client.push("q", &[("p", "during the cut")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["during the cut"]);
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "answered by polling, not by the fallback"
    );

    let parked = cut_off.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    proxy.restore();
    eventually("the listener is up again", || async { cut_off.wake().await["link"] == "up" }).await;
    eventually("polling ends", || async { !degraded(&cut_off).await }).await;
    wait_until_silent(database).await;
    other.client.push("q", &[("p", "after the cut")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["after the cut"]);
}

#[tokio::test]
async fn a_node_reconnects_to_a_restarted_database() {
    let postgres = OwnPostgres::start();
    let server = Server::start_url(&postgres.url(), &QUICK).await;
    server.client.push("q", &[("p", "before")]).await;
    let popped = server.client.get("/api/v1/pop/queue/q?autoAck=true").await;
    assert_eq!(popped.ids(), ["before"]);
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    server.parked(1).await;

    postgres.stop();
    eventually("the server is not ready", || async {
        server.client.get("/readyz").await.status == 503
    })
    .await;
    let refused = server.client.get("/api/v1/pop/queue/q").await;
    assert_eq!(refused.status, 503, "{refused:?}");
    postgres.restart();
    eventually("the server is ready again", || async {
        server.client.get("/readyz").await.status == 200
    })
    .await;
    server.client.push("q", &[("p", "after")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["after"]);
    postgres.stop();
    postgres.restart();
    eventually("the server also survives a crash", || async {
        let body = r#"{"items":[{"queue":"q","payload":1,"transactionId":"again"}]}"#;
        let pushed = server.client.call("POST", "/api/v1/push", body).await;
        pushed.is_ok_and(|answer| answer.status == 201)
    })
    .await;
}

#[tokio::test]
async fn without_notify_a_node_polls_and_health_shows_it() {
    let store = Store::postgres().await;
    let flags = [&QUICK[..], &["--notify", "off"]].concat();
    let a = Server::start(&store, &flags).await;
    let b = Server::start(&store, &flags).await;
    let parked = b.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    b.parked(1).await;
    eventually("health shows why it polls", || degraded(&b)).await;
    a.client.push("q", &[("p", "x")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["x"]);
}
