//! Webhook messages, their deliveries and attempts, with a real receiver.

use std::time::Duration;

use serde_json::{Value, json};

use super::receiver::Receiver;
use crate::support::Node;

const NONE: Value = Value::Null;
const MSG: &str = "/api/v1/app/a/msg";

/// Creates an application `a` with an endpoint `e`.
async fn with_endpoint(node: &Node, url: &str, more: Value) {
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let mut body = json!({"url": url, "uid": "e"});
    let all = body.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    node.expect(201, "POST", "/api/v1/app/a/endpoint", body).await;
}

/// Repeats a request until the response is as wanted.
async fn until(node: &Node, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..500 {
        let found = node.expect(200, "GET", path, NONE).await;
        if wanted(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} timed out: {}", node.expect(200, "GET", path, NONE).await);
}

#[tokio::test]
async fn a_message_is_delivered_byte_for_byte_and_its_attempt_is_logged() {
    let node = Node::sending().await;
    let mut receiver = Receiver::start(&[200]).await;
    with_endpoint(&node, &receiver.url(), json!({"delivery": {"headerStyle": "both"}})).await;
    let payload = r#"{"n": 12345678901234567890123,  "u":"\u00fc"}"#;
    let body = format!(
        r#"{{"eventType":"invoice.paid","eventId":"in-1","channels":["c"],"payload":{payload}}}"#
    );
    let answer = node.post(MSG, body).await;
    assert_eq!(answer.status, 202);
    assert!(String::from_utf8_lossy(&answer.body).contains(payload));
    let id = answer.json()["id"].as_str().expect("an id").to_owned();

    let received = receiver.next().await;
    assert_eq!(received.body, payload);
    let ids = (received.header("webhook-id"), received.header("svix-id"));
    assert_eq!(ids, (id.as_str(), id.as_str()));
    assert!(received.header("webhook-signature").starts_with("v1,"));

    let path = format!("/api/v1/app/a/attempt/msg/{id}");
    let attempts = until(&node, &path, |list| !list["data"][0].is_null()).await;
    let attempt = &attempts["data"][0];
    assert_eq!((&attempt["status"], &attempt["statusText"]), (&json!(0), &json!("success")));
    assert_eq!((&attempt["responseStatusCode"], &attempt["triggerType"]), (&json!(200), &json!(0)));
    assert_eq!(attempt["msgId"], json!(id));
    let one = format!("{MSG}/{id}/attempt/{}", attempt["id"].as_str().expect("an id"));
    assert_eq!(node.expect(200, "GET", &one, NONE).await["endpointId"], attempt["endpointId"]);
    node.expect(204, "DELETE", &format!("{one}/content"), NONE).await;

    let found = node.expect(200, "GET", &format!("{MSG}/in-1?with_content=false"), NONE).await;
    assert_eq!((&found["id"], &found["payload"]), (&json!(id), &json!({})));
    let states = node.expect(200, "GET", &format!("{MSG}/{id}/delivery"), NONE).await;
    assert_eq!(states["data"][0]["state"], "delivered");
    let places = node.expect(200, "GET", &format!("{MSG}/{id}/endpoint"), NONE).await;
    assert_eq!((&places["data"][0]["uid"], &places["data"][0]["status"]), (&json!("e"), &json!(0)));
    let mine = node.expect(200, "GET", "/api/v1/app/a/endpoint/e/msg?status=0", NONE).await;
    assert_eq!((&mine["data"][0]["id"], &mine["done"]), (&json!(id), &json!(true)));
    let none = node.expect(200, "GET", "/api/v1/app/a/endpoint/e/msg?status=2", NONE).await;
    assert_eq!(none["data"], json!([]));
    let stats = node.expect(200, "GET", "/api/v1/app/a/endpoint/e/stats", NONE).await;
    assert_eq!((&stats["success"], &stats["fail"]), (&json!(1), &json!(0)));
    let by = "/api/v1/app/a/attempt/endpoint/e?with_msg=true&status_code_class=200&channel=c";
    let by = node.expect(200, "GET", by, NONE).await;
    assert_eq!(by["data"][0]["msg"]["eventId"], "in-1");
}

#[tokio::test]
async fn failed_deliveries_are_resent_and_recovered() {
    let node = Node::sending().await;
    let mut receiver = Receiver::start(&[500, 500, 204]).await;
    with_endpoint(&node, &receiver.url(), json!({"delivery": {"scheduleSeconds": []}})).await;
    let body = json!({"eventType": "a", "eventId": "m", "payload": {}});
    node.expect(202, "POST", MSG, body).await;
    receiver.next().await;
    let path = format!("{MSG}/m/delivery");
    let state = |word: &'static str| move |list: &Value| list["data"][0]["state"] == word;
    until(&node, &path, state("failed")).await;

    let resend = format!("{MSG}/m/endpoint/e/resend");
    assert_eq!(node.expect(202, "POST", &resend, json!({})).await, json!({}));
    receiver.next().await;
    let attempts = "/api/v1/app/a/attempt/msg/m";
    let two = until(&node, attempts, |list| list["data"].as_array().expect("a list").len() == 2);
    assert_eq!(two.await["data"][0]["triggerType"], 1);

    let recover = json!({"since": "2020-01-01T00:00:00"});
    let task = node.expect(202, "POST", "/api/v1/app/a/endpoint/e/recover", recover).await;
    assert_eq!(task["task"], "endpoint.recover");
    receiver.next().await;
    until(&node, &path, state("delivered")).await;
    let task = format!("/api/v1/background-task/{}", task["id"].as_str().expect("an id"));
    let task = until(&node, &task, |task| task["status"] == "finished").await;
    assert_eq!((&task["data"]["changed"], &task["data"]["seen"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn an_event_id_is_unique_and_enforced_schemas_refuse_payloads() {
    let node = Node::start().await;
    let body = json!({"eventType": "a", "eventId": "m", "payload": {"id": 1},
        "application": {"name": "New"}});
    node.expect(202, "POST", MSG, body.clone()).await;
    assert_eq!(node.expect(200, "GET", "/api/v1/app/a", NONE).await["name"], "New");
    assert_eq!(node.expect(409, "POST", MSG, body).await["code"], "conflict");
    let kind = json!({"name": "strict", "description": "", "enforced": true,
        "schemas": {"1": {"type": "object", "required": ["id"]}}});
    node.expect(201, "POST", "/api/v1/event-type", kind).await;
    let body = json!({"eventType": "strict", "payload": {}});
    let refused = node.expect(422, "POST", MSG, body).await;
    assert_eq!(refused["detail"][0]["loc"], json!(["body", "payload"]));
    let body = json!({"eventType": "strict", "payload": {"id": 1}});
    node.expect(202, "POST", MSG, body).await;
    let list = node.expect(200, "GET", &format!("{MSG}?event_types=strict,b"), NONE).await;
    assert_eq!(list["data"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn pending_deliveries_can_be_cancelled_individually_and_in_bulk() {
    let node = Node::start().await;
    with_endpoint(&node, "http://127.0.0.1:9/h", json!({})).await;
    for id in ["m1", "m2"] {
        let body = json!({"eventType": "a", "eventId": id, "payload": {}});
        node.expect(202, "POST", MSG, body).await;
    }
    let cancelled = node.expect(200, "POST", &format!("{MSG}/m1/cancel"), NONE).await;
    assert_eq!(cancelled["cancelled"], 1);
    let again = node.expect(200, "POST", &format!("{MSG}/m1/endpoint/e/cancel"), NONE).await;
    assert_eq!(again["cancelled"], 0);
    let states = node.expect(200, "GET", &format!("{MSG}/m1/delivery"), NONE).await;
    assert_eq!(states["data"][0]["state"], "cancelled");
    let job = json!({"kind": "cancel", "endpointId": "e", "states": ["pending"]});
    let task = node.expect(202, "POST", "/api/v1/app/a/job", job).await;
    assert_eq!((&task["status"], &task["task"]), (&json!("running"), &json!("endpoint.cancel")));
    let (hook, stop) = (node.state.hook().clone(), tokio_util::sync::CancellationToken::new());
    let token = stop.clone();
    let run = tokio::spawn(async move { hook.run(token).await });
    let path = format!("/api/v1/background-task/{}", task["id"].as_str().expect("an id"));
    let task = until(&node, &path, |task| task["status"] == "finished").await;
    // The dispatcher of this node may have leased the delivery first.
    assert!(task["data"]["changed"].as_u64().expect("a number") <= 1);
    stop.cancel();
    run.await.expect("no panic");
}

#[tokio::test]
async fn a_deleted_payload_cannot_be_resent() {
    let node = Node::start().await;
    with_endpoint(&node, "http://127.0.0.1:9/h", json!({})).await;
    let body = json!({"eventType": "a", "eventId": "m", "payload": {"secret": 1}});
    node.expect(202, "POST", MSG, body).await;
    node.expect(204, "DELETE", &format!("{MSG}/m/content"), NONE).await;
    let found = node.expect(200, "GET", &format!("{MSG}/m"), NONE).await;
    assert_eq!(found["payload"], json!({"expired": true}));
    let refused = node.expect(409, "POST", &format!("{MSG}/m/endpoint/e/resend"), NONE).await;
    assert!(refused["detail"].as_str().expect("a text").contains("deleted or has expired"));
}

#[tokio::test]
async fn prechecks_examples_and_pings_reach_matching_endpoints() {
    let node = Node::sending().await;
    let mut receiver = Receiver::start(&[204, 500]).await;
    with_endpoint(&node, &receiver.url(), json!({"eventTypes": ["a.*"], "channels": ["c"]})).await;
    let path = format!("{MSG}/precheck/active");
    for (body, active) in [
        (json!({"eventType": "a.b", "channels": ["c"]}), true),
        (json!({"eventType": "a.b"}), false),
        (json!({"eventType": "b", "channels": ["c"]}), false),
    ] {
        assert_eq!(node.expect(200, "POST", &path, body).await["active"], active);
    }
    let example = "/api/v1/app/a/endpoint/e/send-example";
    let sent = node.expect(202, "POST", example, json!({"eventType": "b"})).await;
    let received = receiver.next().await;
    assert_eq!(received.header("webhook-id"), sent["id"].as_str().expect("an id"));
    let ping = node.expect(200, "POST", "/api/v1/app/a/endpoint/e/ping", NONE).await;
    assert_eq!((&ping["success"], &ping["responseStatusCode"]), (&json!(false), &json!(500)));
    assert!(String::from_utf8_lossy(&receiver.next().await.body).contains("webhook.ping"));
}
