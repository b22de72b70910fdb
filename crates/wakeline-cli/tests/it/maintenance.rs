//! Maintenance of running servers: on all nodes, from the command line, and after kill -9.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, Server, Store, output_of, wakeline};

/// Flags for a fallback that is too rare to let a test pass, and for tolerating late hints.
const NO_FALLBACK: [&str; 4] =
    ["--fallback-poll-interval-ms", "3600000", "--notify-delivery-timeout-ms", "30000"];
const PATH: &str = "/api/v1/system/maintenance";

async fn maintenance(store: &Store, arguments: &[&str]) -> Value {
    let mut command = wakeline();
    command.env("WAKELINE_STORE", store.url()).arg("maintenance").args(arguments).arg("--json");
    let output = output_of(command).await;
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

async fn push(client: &Client, id: &str) -> String {
    let item = json!({"queue": "q", "partition": "p", "payload": id, "transactionId": id});
    let answer = client.post("/api/v1/push", json!({"items": [item]})).await;
    match answer.status {
        201 => answer.json()[0]["status"].as_str().expect("a status").to_owned(),
        _ => answer.json()["code"].as_str().expect("a code").to_owned(),
    }
}

#[tokio::test]
async fn a_maintenance_applies_to_all_nodes_at_once_and_its_end_wakes_waiters() {
    for store in Store::both().await {
        let a = Server::start(&store, &NO_FALLBACK).await;
        let b = Server::start(&store, &NO_FALLBACK).await;
        assert_eq!(push(&a.client, "0").await, "queued");
        let on = a.client.post(PATH, json!({"enabled": true})).await;
        assert_eq!(on.json()["maintenanceMode"], true, "{}", store.name());
        for n in 1..=6 {
            let node = if n % 2 == 0 { &a } else { &b };
            assert_eq!(push(&node.client, &n.to_string()).await, "buffered", "{}", store.name());
        }
        assert_eq!(b.client.get(PATH).await.json()["bufferedMessages"], 6);
        let pop = "/api/v1/pop/queue/q?wait=true&timeout=60000&autoAck=true&batch=1";
        assert_eq!(b.client.get(pop).await.ids(), ["0"], "consumers continue");
        let paused = b.client.post(&format!("{PATH}/pop"), json!({"enabled": true})).await;
        assert_eq!(paused.json()["popMaintenanceMode"], true);
        let (first, second) = (a.client.park(pop).await, b.client.park(pop).await);
        a.parked(1).await;
        b.parked(1).await;
        let off = b.client.post(PATH, json!({"enabled": false})).await;
        assert_eq!(off.json()["maintenanceMode"], false);
        assert_eq!(push(&b.client, "7").await, "queued");
        let resumed = b.client.post(&format!("{PATH}/pop"), json!({"enabled": false})).await;
        assert_eq!(resumed.json()["popMaintenanceMode"], false);
        let mut ids = first.answer().await.expect("an answer").ids();
        ids.extend(second.answer().await.expect("an answer").ids());
        ids.sort();
        assert_eq!(ids, ["1", "2"], "{}: waiters on both nodes are woken", store.name());
        let rest = a.client.get(&pop.replace("batch=1", "batch=10")).await;
        assert_eq!(rest.ids(), ["3", "4", "5", "6", "7"], "{}", store.name());
    }
}

#[tokio::test]
async fn health_shows_what_is_suspended_and_off_ends_all_of_it() {
    for store in Store::both().await {
        let server = Server::start(&store, &NO_FALLBACK).await;
        // The answers to health probes are cached briefly, so that not every probe costs a
        // statement.
        let shows = async |pushes: &str, pops_paused: bool| {
            let expected = json!({"pushes": pushes, "popsPaused": pops_paused});
            let mut seen = Value::Null;
            for _ in 0..100 {
                let health = server.client.get("/health").await.json();
                assert_eq!(health["status"], "healthy");
                seen = health["maintenance"].clone();
                if seen == expected {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("{}: {seen} and never {expected}", store.name());
        };
        shows("open", false).await;
        maintenance(&store, &["on"]).await;
        shows("hold", false).await;
        maintenance(&store, &["on", "--refuse"]).await;
        maintenance(&store, &["on", "--pops"]).await;
        shows("refuse", true).await;
        maintenance(&store, &["off", "--pops"]).await;
        shows("refuse", false).await;
        maintenance(&store, &["on", "--pops"]).await;
        maintenance(&store, &["off"]).await;
        shows("open", false).await;
    }
}

#[tokio::test]
async fn waiters_are_woken_when_the_command_line_ends_a_maintenance() {
    for store in Store::both().await {
        let server = Server::start(&store, &NO_FALLBACK).await;
        let pop = "/api/v1/pop/queue/q?wait=true&timeout=60000&autoAck=true";
        for (n, pops) in [true, false, true, false].into_iter().enumerate() {
            let id = n.to_string();
            if pops {
                maintenance(&store, &["on", "--pops"]).await;
            } else {
                maintenance(&store, &["on"]).await;
            }
            assert_eq!(push(&server.client, &id).await, if pops { "queued" } else { "buffered" });
            let waiting = server.client.park(pop).await;
            server.parked(1).await;
            maintenance(&store, if pops { &["off", "--pops"] } else { &["off"] }).await;
            let answer = waiting.answer().await.expect("an answer");
            assert_eq!(answer.ids(), [id], "{} {pops}", store.name());
        }
    }
}

#[tokio::test]
async fn held_messages_and_the_maintenance_survive_kill_9() {
    for store in Store::both().await {
        let mut server = Server::start(&store, &[]).await;
        let status = maintenance(&store, &["on"]).await;
        assert_eq!((&status["pushes"], &status["popsPaused"]), (&json!("hold"), &json!(false)));
        for n in 0..20 {
            assert_eq!(push(&server.client, &n.to_string()).await, "buffered");
            if n % 5 == 4 {
                server.kill().await;
                server = Server::start(&store, &[]).await;
                assert_eq!(push(&server.client, &n.to_string()).await, "duplicate");
            }
        }
        assert_eq!(server.client.get("/api/v1/pop/queue/q").await.status, 204);
        assert_eq!(maintenance(&store, &["status"]).await["heldMessages"], 20);
        let status = maintenance(&store, &["on", "--refuse"]).await;
        assert_eq!(status["pushes"], "refuse");
        assert_eq!(push(&server.client, "20").await, "maintenance");
        let off = server.client.post(PATH, json!({"enabled": false})).await;
        assert_eq!(off.status, 200);
        server.kill().await;
        let server = Server::start(&store, &[]).await;
        assert_eq!(push(&server.client, "20").await, "queued");
        let popped = server.client.get("/api/v1/pop/queue/q?batch=100").await;
        let expected: Vec<_> = (0..=20).map(|n| n.to_string()).collect();
        assert_eq!(popped.ids(), expected, "{}", store.name());
    }
}
