//! Lost listeners and lost databases cost latency, never work.

use std::time::{Duration, Instant};

use serde_json::Value;

use wakeline_testkit::database::TestDatabase;

use crate::support::{OwnPostgres, Proxy, Server, Store, eventually};

/// Degraded polling that is quick to see, and a fallback that cannot help.
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

/// Nothing but what the test itself did is asked of the database for a while.
async fn falls_silent(database: &TestDatabase) {
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
async fn a_cut_listener_is_bridged_by_polling_and_then_forgotten() {
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
    assert!(started.elapsed() < Duration::from_secs(10), "by polling, not by the fallback");

    let parked = cut_off.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    proxy.mend();
    eventually("the listener is up again", || async { cut_off.wake().await["link"] == "up" }).await;
    eventually("polling ends", || async { !degraded(&cut_off).await }).await;
    falls_silent(database).await;
    other.client.push("q", &[("p", "after the cut")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["after the cut"]);
}

#[tokio::test]
async fn a_database_that_restarts_is_found_again() {
    let postgres = OwnPostgres::start();
    let server = Server::start_url(&postgres.url(), &QUICK).await;
    server.client.push("q", &[("p", "before")]).await;
    let popped = server.client.get("/api/v1/pop/queue/q?autoAck=true").await;
    assert_eq!(popped.ids(), ["before"]);
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    server.parked(1).await;

    postgres.stop();
    eventually("it says that it is not ready", || async {
        server.client.get("/readyz").await.status == 503
    })
    .await;
    let refused = server.client.get("/api/v1/pop/queue/q").await;
    assert_eq!(refused.status, 503, "{refused:?}");
    postgres.restart();
    eventually("it is ready again", || async { server.client.get("/readyz").await.status == 200 })
        .await;
    server.client.push("q", &[("p", "after")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["after"]);
    postgres.stop();
    postgres.restart();
    eventually("a crash is survived too", || async {
        let body = r#"{"items":[{"queue":"q","payload":1,"transactionId":"again"}]}"#;
        let pushed = server.client.call("POST", "/api/v1/push", body).await;
        pushed.is_ok_and(|answer| answer.status == 201)
    })
    .await;
}

#[tokio::test]
async fn without_notify_a_node_polls_and_says_so() {
    let store = Store::postgres().await;
    let flags = [&QUICK[..], &["--notify", "off"]].concat();
    let a = Server::start(&store, &flags).await;
    let b = Server::start(&store, &flags).await;
    let parked = b.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    b.parked(1).await;
    eventually("it says why", || degraded(&b)).await;
    a.client.push("q", &[("p", "x")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["x"]);
}
