//! Nodes whose clocks are hours apart: only the database's clock decides. A store whose dates were
//! wrong once keeps working.

use std::time::{Duration, Instant};

use serde_json::json;
use wakeline_testkit::skew::Skew;

use crate::support::{Server, Store, wakeline};

async fn skewed(store: &Store, skew: &Skew, secs: i64) -> Server {
    let mut command = wakeline();
    command.envs(skew.environment(secs));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
    command.args(["--fallback-poll-interval-ms", "3600000"]);
    Server::spawn(command).await
}

#[tokio::test]
async fn nodes_hours_apart_share_leases_and_timers() {
    let folder = tempfile::tempdir().expect("a folder");
    let skew = Skew::compile(folder.path());
    let store = Store::postgres().await;
    let fast = skewed(&store, &skew, 3600).await;
    let slow = skewed(&store, &skew, -3600).await;
    let date = async |node: &Server| {
        let head = node.client.get("/healthz").await.head.to_lowercase();
        let date = head.lines().find_map(|line| line.strip_prefix("date: ").map(str::to_owned));
        date.expect("a date")[..20].to_owned()
    };
    assert_ne!(date(&fast).await, date(&slow).await, "their clocks are hours apart");
    for (holder, other) in [(&fast, &slow), (&slow, &fast)] {
        let queue = format!("q{}", holder.client.address.port());
        let options = json!({"queue": queue, "options": {"leaseTime": 3, "delayedProcessing": 1}});
        assert_eq!(holder.client.post("/api/v1/configure", options).await.status, 200);
        let started = Instant::now();
        holder.client.push(&queue, &[("p", "x")]).await;
        let path = format!("/api/v1/pop/queue/{queue}?wait=true&timeout=60000");
        let popped = holder.client.get(&path).await;
        assert_eq!(popped.ids(), ["x"]);
        assert!(started.elapsed() >= Duration::from_secs(1), "a delay is never shortened");
        let leased = Instant::now();
        let again = other.client.get(&path).await;
        assert_eq!(again.ids(), ["x"], "redelivered when the lease ended");
        assert!(
            leased.elapsed() > Duration::from_secs(1),
            "two consumers hold the message at a time"
        );
        assert!(
            leased.elapsed() < Duration::from_secs(30),
            "the lease is late by the difference of the clocks"
        );
        let stale = holder.client.ack(&popped, None).await.json();
        assert_eq!(stale[0]["success"], false);
        assert_eq!(other.client.ack(&again, None).await.json()[0]["success"], true);
    }
}

#[tokio::test]
async fn a_sqlite_file_that_was_served_a_month_ahead_is_not_stuck() {
    let folder = tempfile::tempdir().expect("a folder");
    let skew = Skew::compile(folder.path());
    let store = Store::sqlite();
    let ahead = skewed(&store, &skew, 30 * 86_400).await;
    let options = json!({"queue": "q", "options": {"leaseTime": 1}});
    assert_eq!(ahead.client.post("/api/v1/configure", options).await.status, 200);
    ahead.client.push("q", &[("p", "x")]).await;
    assert_eq!(ahead.terminate().await, Some(0));
    let server = skewed(&store, &skew, 0).await;
    let path = "/api/v1/pop/queue/q?wait=true&timeout=60000";
    let leased = Instant::now();
    assert_eq!(server.client.get(path).await.ids(), ["x"]);
    assert_eq!(server.client.get(path).await.ids(), ["x"], "redelivered when the lease ended");
    assert!(leased.elapsed() >= Duration::from_secs(1), "two consumers hold the message at a time");
}
