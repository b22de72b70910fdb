//! The simplified webhook API: events and subscriptions.

use std::time::Duration;

use serde_json::{Value, json};

use super::receiver::Receiver;
use crate::support::Node;

const NONE: Value = Value::Null;

async fn until_status(node: &Node, id: &str, status: &str) -> Value {
    for _ in 0..500 {
        let event = node.expect(200, "GET", &format!("/events/{id}"), NONE).await;
        if event["status"] == status {
            return event;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} never had the status {status}");
}

#[tokio::test]
async fn an_event_is_delivered_to_every_matching_subscription() {
    let node = Node::sending().await;
    let mut receivers = [Receiver::start(&[]).await, Receiver::start(&[]).await];
    for (n, types) in [(0, json!(["order.*"])), (1, json!(["*"]))] {
        let body = json!({"id": format!("s{n}"), "url": receivers[n].url(), "event_types": types});
        let made = node.expect(201, "POST", "/subscriptions", body).await;
        assert!(made["secret"].as_str().expect("a secret").starts_with("whsec_"));
        assert_eq!((&made["rate_limit"], &made["active"]), (&json!(100), &json!(true)));
    }
    let event = json!({"id": "e1", "type": "order.created", "source": "shop", "data": {"n": 1}});
    let taken = node.expect(202, "POST", "/events", event.clone()).await;
    assert_eq!((&taken["id"], &taken["status"]), (&json!("e1"), &json!("pending")));
    for receiver in &mut receivers {
        let received: Value = serde_json::from_slice(&receiver.next().await.body).expect("JSON");
        assert_eq!(received, event);
    }
    let found = until_status(&node, "e1", "delivered").await;
    assert_eq!((&found["source"], &found["data"]), (&json!("shop"), &json!({"n": 1})));
    assert_eq!((&found["attempts"], &found["max_attempts"]), (&json!(1), &json!(10)));
    assert!(found["delivered_at"].is_string());
    let attempts = node.expect(200, "GET", "/events/e1/attempts", NONE).await;
    assert_eq!(attempts.as_array().expect("a list").len(), 2);
    assert_eq!(
        (&attempts[0]["status_code"], &attempts[0]["event_id"]),
        (&json!(204), &json!("e1"))
    );

    let list = node.expect(200, "GET", "/subscriptions", NONE).await;
    assert_eq!((&list[0]["id"], list[0].get("secret")), (&json!("s0"), None));
    node.expect(204, "DELETE", "/subscriptions/s0", NONE).await;
    node.expect(404, "DELETE", "/subscriptions/s0", NONE).await;
    let same = node.expect(200, "GET", "/api/v1/app/default/endpoint", NONE).await;
    assert_eq!(same["data"][0]["uid"], "s1", "the other routes see the same");
}

#[tokio::test]
async fn an_event_posted_twice_is_stored_once() {
    let node = Node::start().await;
    let event = json!({"id": "e", "type": "a", "source": "s", "data": [1]});
    let first = node.expect(202, "POST", "/events", event.clone()).await;
    assert_eq!(first["status"], "delivered", "no subscription matches");
    assert_eq!(node.expect(202, "POST", "/events", event).await, first);
    let other = json!({"id": "e", "type": "a", "source": "s", "data": [2]});
    assert_eq!(node.expect(409, "POST", "/events", other).await["code"], "conflict");
    assert_eq!(node.expect(200, "GET", "/events/e", NONE).await["data"], json!([1]));
    assert_eq!(node.expect(200, "GET", "/events/e/attempts", NONE).await, json!([]));
}

#[tokio::test]
async fn failed_events_report_their_error_and_next_attempt() {
    let node = Node::sending().await;
    let mut receiver = Receiver::start(&[500]).await;
    let body = json!({"id": "s", "url": receiver.url(), "event_types": ["*"]});
    node.expect(201, "POST", "/subscriptions", body).await;
    let event = json!({"id": "e", "type": "a", "source": "s"});
    node.expect(202, "POST", "/events", event).await;
    receiver.next().await;
    let found = until_status(&node, "e", "retrying").await;
    assert!(found["next_attempt_at"].is_string());
    assert!(found["last_error"].as_str().expect("a text").contains("500"));
    assert_eq!((found.get("delivered_at"), &found["attempts"]), (None, &json!(1)));
}

#[tokio::test]
async fn errors_have_the_plain_format_and_name_the_field() {
    let node = Node::start().await;
    node.expect(404, "GET", "/events/none", NONE).await;
    node.expect(404, "GET", "/events/none/attempts", NONE).await;
    assert_eq!(node.expect(200, "GET", "/subscriptions", NONE).await, json!([]));
    for (path, body, named) in [
        ("/events", json!({"id": "e", "type": "a"}), "source"),
        ("/events", json!({"id": "a b", "type": "a", "source": "s"}), "eventId"),
        ("/events", json!({"id": "e", "type": "a b", "source": "s"}), "eventType"),
        ("/subscriptions", json!({"id": "s", "url": "x", "event_types": []}), "url"),
        ("/subscriptions", json!({"id": "s", "url": "http://10.0.0.1", "event_types": []}), "url"),
        (
            "/subscriptions",
            json!({"id": "s", "url": "http://127.0.0.1", "event_types": [], "secret": "short"}),
            "secret",
        ),
        (
            "/subscriptions",
            json!({"id": "s", "url": "http://127.0.0.1", "event_types": [], "rate_limit": 0}),
            "rate_limit",
        ),
    ] {
        let refused = node.expect(400, "POST", path, body).await;
        assert!(refused["error"].as_str().expect("a text").contains(named), "{refused}");
    }
    assert_eq!(node.expect(200, "GET", "/subscriptions", NONE).await, json!([]));
}
