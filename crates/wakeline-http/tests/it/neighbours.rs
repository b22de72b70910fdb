//! Invalid requests of one caller do not affect others.

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;

use crate::support::{Answer, Node};

/// A time in the future that only the database can judge, and one that this node rejects.
fn future_times() -> [String; 2] {
    let soon = jiff::Timestamp::try_from(SystemTime::now() + Duration::from_secs(3600));
    [soon.expect("a time").to_string(), "2099-01-01T00:00:00Z".to_owned()]
}

#[tokio::test]
async fn repeated_invalid_pops_neither_degrade_the_node_nor_affect_a_waiting_pop() {
    let node = Node::start().await;
    let (app, path) = (node.app.clone(), "/api/v1/pop/queue/v?wait=true&timeout=60000");
    let parked = tokio::spawn(Answer::of(app, path));
    node.parked(1).await;
    for from in future_times() {
        for queue in ["x", "v"] {
            for wait in ["", "&wait=true"] {
                for _ in 0..5 {
                    let path = format!("/api/v1/pop/queue/{queue}?subscriptionFrom={from}{wait}");
                    let answer = node.get(&path).await;
                    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
                    assert!(answer.error().starts_with("subscriptionFrom"), "{}", answer.error());
                }
            }
        }
    }
    let snapshot = node.state.queue().wake_snapshot();
    assert_eq!((snapshot.degraded, snapshot.waiters), (None, 1));
    let claims = snapshot.counters.claims;
    assert_eq!((claims.refused > 0, claims.error), (true, 0), "{claims:?}");
    node.push("v", &["a"]).await;
    let answer = parked.await.expect("no panic");
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.json()["messages"][0]["transactionId"], "a");
}

#[tokio::test]
async fn valid_and_invalid_pops_of_one_line_are_answered_individually() {
    let node = Node::start().await;
    let [soon, _] = future_times();
    let pops = (0..10).map(|n| {
        let wrong = if n % 2 == 1 { format!("&subscriptionFrom={soon}") } else { String::new() };
        let path = format!("/api/v1/pop/queue/v?consumerGroup=g&wait=true{wrong}");
        let app = node.app.clone();
        tokio::spawn(async move { Answer::of(app, &path).await })
    });
    let pops: Vec<_> = pops.collect();
    node.parked(5).await;
    for n in 0..5 {
        let item = serde_json::json!({"queue": "v", "partition": n.to_string(), "payload": n});
        let body = serde_json::json!({"items": [item]}).to_string();
        assert_eq!(node.post("/api/v1/push", body).await.status, StatusCode::CREATED);
    }
    for (n, pop) in pops.into_iter().enumerate() {
        let expected = if n % 2 == 1 { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        assert_eq!(pop.await.expect("no panic").status, expected, "pop {n}");
    }
}
