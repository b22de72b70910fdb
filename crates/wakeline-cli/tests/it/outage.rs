//! An unavailable database: requests are answered at once with what is known, and nothing is done
//! in part.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Client, OwnPostgres, Server, eventually};

/// The ids of pushed messages, by the outcome that the server reported.
#[derive(Default)]
struct PushOutcomes {
    stored: BTreeSet<String>,
    not_stored: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

/// Pushes messages, each once, and records the outcomes.
async fn produce(
    client: Client,
    name: usize,
    outcomes: Arc<Mutex<PushOutcomes>>,
    running: Arc<AtomicBool>,
) {
    for n in 0.. {
        if !running.load(Ordering::SeqCst) {
            return;
        }
        let id = format!("{name}-{n}");
        let items: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|partition| {
                json!({"queue": "q", "partition": format!("{partition}{name}"), "payload": n,
                    "transactionId": format!("{id}-{partition}")})
            })
            .collect();
        let body = json!({"items": items}).to_string();
        let answer = client.call("POST", "/api/v1/push", &body).await;
        let answer = answer.expect("the server itself is there");
        let ids = ["a", "b", "c"].iter().map(|partition| format!("{id}-{partition}"));
        let mut outcomes = outcomes.lock().expect("not poisoned");
        match answer.status {
            201 => outcomes.stored.extend(ids),
            503 => match answer.json()["code"].as_str() {
                Some("store_unavailable") => outcomes.not_stored.extend(ids),
                Some("outcome_unknown") => outcomes.unknown.extend(ids),
                other => panic!("{other:?}: {answer:?}"),
            },
            _ => panic!("{answer:?}"),
        }
    }
}

/// Pops all messages. Returns their ids, each as often as it was delivered.
async fn drain(client: &Client) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let popped = client.get("/api/v1/pop/queue/q?batch=1000&partitions=100&autoAck=true").await;
        match popped.ids() {
            none if none.is_empty() => return ids,
            some => ids.extend(some),
        }
    }
}

#[tokio::test]
async fn answers_distinguish_messages_not_stored_from_unknown_outcomes() {
    let postgres = OwnPostgres::start();
    let server = Server::start_url(&postgres.url(), &[]).await;
    let (outcomes, running) =
        (Arc::new(Mutex::new(PushOutcomes::default())), Arc::new(AtomicBool::new(true)));
    let mut producers = tokio::task::JoinSet::new();
    for name in 0..8 {
        producers.spawn(produce(server.client, name, outcomes.clone(), running.clone()));
    }
    for _ in 0..3 {
        let stored = outcomes.lock().expect("not poisoned").stored.len();
        eventually("pushes go through", || async {
            outcomes.lock().expect("not poisoned").stored.len() > stored + 30
        })
        .await;
        postgres.stop();
        let refused = outcomes.lock().expect("not poisoned").not_stored.len();
        eventually("pushes are refused", || async {
            outcomes.lock().expect("not poisoned").not_stored.len() > refused + 30
        })
        .await;
        postgres.restart();
    }
    eventually("it is ready again", || async { server.client.get("/readyz").await.status == 200 })
        .await;
    running.store(false, Ordering::SeqCst);
    while producers.join_next().await.transpose().expect("no panic").is_some() {}
    let came = drain(&server.client).await;
    let once: BTreeSet<String> = came.iter().cloned().collect();
    assert_eq!(came.len(), once.len(), "no message is delivered twice");
    let outcomes = outcomes.lock().expect("not poisoned");
    let lost: Vec<_> = outcomes.stored.difference(&once).collect();
    assert!(lost.is_empty(), "reported as stored, and lost: {lost:?}");
    let unexpected: Vec<_> = outcomes.not_stored.intersection(&once).collect();
    assert!(unexpected.is_empty(), "reported as not stored, and delivered: {unexpected:?}");
    eprintln!(
        "{} stored, {} not stored, {} unknown",
        outcomes.stored.len(),
        outcomes.not_stored.len(),
        outcomes.unknown.len()
    );
}

#[tokio::test]
async fn every_route_that_needs_the_database_is_503_at_once_and_health_reports_it() {
    let postgres = OwnPostgres::start();
    let server = Server::start_url(&postgres.url(), &[]).await;
    server.client.push("q", &[("p", "x")]).await;
    let popped = server.client.get("/api/v1/pop/queue/q").await;
    let message = popped.json()["messages"][0].clone();
    let waiting = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=120000").await;
    server.parked(1).await;
    postgres.stop();
    eventually("the server knows of the outage", || async {
        server.client.get("/readyz").await.status == 503
    })
    .await;
    let ack = json!({"transactionId": "x", "partitionId": message["partitionId"],
        "leaseId": message["leaseId"], "status": "completed"});
    let lease = message["leaseId"].as_str().expect("a lease");
    let push = json!({"items": [{"queue": "q", "payload": 1, "transactionId": "y"}]});
    let transaction =
        json!({"operations": [{"type": "push", "items": [{"queue": "q", "payload": 1}]}]});
    let calls = [
        ("POST", "/api/v1/push".to_owned(), push.to_string()),
        ("GET", "/api/v1/pop/queue/q".to_owned(), String::new()),
        ("POST", "/api/v1/ack".to_owned(), ack.to_string()),
        ("POST", format!("/api/v1/lease/{lease}/extend"), "{}".to_owned()),
        ("POST", "/api/v1/transaction".to_owned(), transaction.to_string()),
        ("POST", "/api/v1/configure".to_owned(), json!({"queue": "q"}).to_string()),
        ("GET", "/api/v1/dlq".to_owned(), String::new()),
        ("GET", "/api/v1/consumer-groups".to_owned(), String::new()),
        ("GET", "/api/v1/system/maintenance".to_owned(), String::new()),
        ("GET", "/api/v1/orchestrations".to_owned(), String::new()),
        ("GET", "/api/v1/app".to_owned(), String::new()),
    ];
    let started = Instant::now();
    for (method, path, body) in &calls {
        let answer = server.client.call(method, path, body).await.expect("an answer");
        assert_eq!(answer.status, 503, "{method} {path}: {answer:?}");
        assert_eq!(answer.json()["code"], "store_unavailable", "{method} {path}");
        assert!(answer.head.contains("retry-after: "), "{method} {path}: {answer:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let health = server.client.get("/health").await;
    assert_eq!((health.status, &health.json()["database"]), (503, &json!("unavailable")));
    assert_eq!(server.client.get("/healthz").await.status, 200, "the process itself is healthy");
    postgres.restart();
    eventually("the database is available again", || async {
        server.client.get("/readyz").await.status == 200
    })
    .await;
    let settled = server.client.post("/api/v1/ack", ack).await;
    assert_eq!(settled.json()[0]["success"], true, "the lease outlasted the outage: {settled:?}");
    server.client.push("q", &[("p", "z")]).await;
    assert_eq!(
        waiting.answer().await.expect("an answer").ids(),
        ["z"],
        "and so did the waiting pop"
    );
}
