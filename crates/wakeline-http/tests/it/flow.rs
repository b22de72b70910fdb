//! Orchestrations driven over HTTP, as clients in other languages do.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use wakeline_flow::{
    ActivityContext, Backoff, FlowError, OrchestrationContext, Registry, Runtime, RuntimeOptions,
};

use crate::support::Node;

const BASE: &str = "/api/v1/orchestrations";

async fn approval(ctx: OrchestrationContext, order: u32) -> Result<Value, FlowError> {
    ctx.set_status("waiting for approval");
    ctx.kv_set("order", order)?;
    let by: String = ctx.event("approved").await?;
    Ok(json!({ "order": order, "by": by }))
}

async fn forever(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.sleep(Duration::from_secs(1_000_000)).await;
    Ok(())
}

/// An orchestration whose activity fails and is retried after an hour.
async fn retrying(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    let backoff = Backoff::Fixed { delay_ms: 3_600_000 };
    ctx.activity::<_, ()>("charge", ()).attempts(2).backoff(backoff).await
}

async fn charge(_: ActivityContext, (): ()) -> Result<(), FlowError> {
    Err(FlowError::application("card declined"))
}

async fn runtime(node: &Node) -> Runtime {
    let registry = Registry::builder()
        .orchestration("retrying", retrying)
        .activity("charge", charge)
        .orchestration("approval", approval)
        .orchestration("forever", forever)
        .build()
        .expect("a registry");
    let provider = Arc::new(node.flow.clone());
    Runtime::start_with_options(provider, registry, RuntimeOptions::default())
        .await
        .expect("valid options")
}

async fn start(node: &Node, name: &str, instance: &str, input: Value) {
    let body = json!({ "name": name, "instance": instance, "input": input });
    let answer = node.post(BASE, body.to_string()).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.json());
}

#[tokio::test(start_paused = true)]
async fn an_instance_can_be_driven_over_http_from_start_to_end() {
    let node = Node::start().await;
    let runtime = runtime(&node).await;
    start(&node, "approval", "o-7", json!(7)).await;
    let again = node.post(BASE, r#"{"name":"approval","instance":"o-7","input":8}"#).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(again.json()["started"], false);

    let found = node.get(&format!("{BASE}/o-7/wait?statusVersion=0&timeout=60000")).await.json();
    assert_eq!(found["status"], "waiting for approval");
    assert_eq!((&found["state"], &found["statusVersion"]), (&json!("running"), &json!(1)));
    assert_eq!(node.get(&format!("{BASE}/o-7/kv/order")).await.json(), 7);
    assert_eq!(node.get(&format!("{BASE}/o-7/kv")).await.json(), json!({ "order": 7 }));

    let nothing = node.get(&format!("{BASE}/o-7/wait?statusVersion=1&timeout=50")).await;
    assert_eq!(nothing.status, StatusCode::NO_CONTENT);

    let raised = node.post(&format!("{BASE}/o-7/events/approved"), r#""ann""#).await;
    assert_eq!(raised.status, StatusCode::ACCEPTED);
    let ended = node.get(&format!("{BASE}/o-7/wait?timeout=60000")).await.json();
    assert_eq!(ended["state"], "completed");
    assert_eq!(ended["output"], json!({ "order": 7, "by": "ann" }));

    let late = node.post(&format!("{BASE}/o-7/events/approved"), "1").await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert_eq!(late.json()["code"], "orchestration_ended");
    let history = node.get(&format!("{BASE}/o-7/history")).await.json();
    let events = history["events"].as_array().expect("events");
    assert_eq!(events[0]["id"], 1);
    assert!(events.iter().any(|event| event["kind"]["event_raised"]["data"] == "ann"));
    let rest = node.get(&format!("{BASE}/o-7/history?from=3")).await.json();
    assert_eq!(rest["events"][0]["id"], 3);
    assert_eq!(node.get(&format!("{BASE}/o-7/executions")).await.json()[0]["state"], "completed");
    runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn retried_activities_are_returned_with_the_instance_and_its_history() {
    let node = Node::start().await;
    let runtime = runtime(&node).await;
    start(&node, "retrying", "r", Value::Null).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let instance = node.get(&format!("{BASE}/r")).await.json();
    let activity = &instance["activities"][0];
    assert_eq!((&activity["name"], &activity["attempts"]), (&json!("charge"), &json!(1)));
    assert_eq!((&activity["running"], &activity["event"]), (&json!(false), &json!(3)));
    assert_eq!(activity["lastError"], "card declined");
    assert!(activity["nextTryAt"].is_string(), "{instance}");
    let history = node.get(&format!("{BASE}/r/history")).await.json();
    assert_eq!(history["activities"], instance["activities"]);
    runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn instances_are_listed_in_pages_and_by_state() {
    let node = Node::start().await;
    let runtime = runtime(&node).await;
    for n in 0..5 {
        start(&node, "forever", &format!("f-{n}"), Value::Null).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut seen = Vec::new();
    let mut cursor = String::new();
    for _ in 0..4 {
        let page = node.get(&format!("{BASE}?name=forever&limit=2{cursor}")).await.json();
        let ids = page["orchestrations"].as_array().expect("a page").iter();
        seen.extend(ids.map(|one| one["instance"].as_str().expect("an id").to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, ["f-0", "f-1", "f-2", "f-3", "f-4"]);
    assert_eq!(node.post(&format!("{BASE}/f-3/suspend"), "").await.json()["changed"], true);
    let held = node.get(&format!("{BASE}?state=suspended")).await.json();
    assert_eq!(held["orchestrations"][0]["instance"], "f-3");
    assert_eq!(held["orchestrations"].as_array().expect("a page").len(), 1);
    let odd = node.get(&format!("{BASE}?state=asleep")).await;
    assert_eq!(odd.status, StatusCode::BAD_REQUEST);
    let odd = node.get(&format!("{BASE}?cursor=zzz")).await;
    assert_eq!(odd.status, StatusCode::BAD_REQUEST);
    runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn instances_are_cancelled_terminated_and_deleted() {
    let node = Node::start().await;
    let runtime = runtime(&node).await;
    for id in ["a", "b", "c"] {
        start(&node, "forever", id, Value::Null).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let cancelled = node.post(&format!("{BASE}/a/cancel"), r#"{"reason":"enough"}"#).await;
    assert_eq!(cancelled.status, StatusCode::ACCEPTED);
    let ended = node.get(&format!("{BASE}/a/wait")).await.json();
    assert_eq!(ended["state"], "cancelled");
    assert_eq!(ended["error"], json!({ "kind": "cancelled", "message": "enough" }));
    assert_eq!(node.post(&format!("{BASE}/b/terminate"), "").await.json()["changed"], true);
    assert_eq!(node.get(&format!("{BASE}/b")).await.json()["state"], "terminated");
    let refused = node.call("DELETE", &format!("{BASE}/c"), "").await;
    assert_eq!(
        (refused.status, refused.json()["code"].clone()),
        (StatusCode::CONFLICT, json!("not_deleted"))
    );
    let forced = node.call("DELETE", &format!("{BASE}/c?force=true"), "").await;
    assert_eq!(forced.json()["instances"], 1);
    assert_eq!(node.get(&format!("{BASE}/c")).await.status, StatusCode::NOT_FOUND);
    let purged = node.post(&format!("{BASE}/purge"), r#"{"instances":["a","b"]}"#).await;
    assert_eq!(purged.json()["instances"], 2, "{}", purged.json());
    let unfiltered = node.post(&format!("{BASE}/purge"), "{}").await;
    assert_eq!(unfiltered.status, StatusCode::BAD_REQUEST);
    runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn pending_instances_are_listed_and_can_be_terminated() {
    let node = Node::start().await;
    start(&node, "unknown", "a", Value::Null).await;
    start(&node, "unknown", "b", Value::Null).await;
    let ids = async |query: &str| {
        let page = node.get(&format!("{BASE}{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.json());
        let page = page.json();
        let all = page["orchestrations"].as_array().expect("a list").iter();
        all.map(|one| one["instance"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("?state=pending").await, ["b", "a"]);
    assert_eq!(ids("").await, ["b", "a"]);
    assert_eq!(ids("?name=unknown&state=pending,running").await, ["b", "a"]);
    assert!(ids("?state=running").await.is_empty());
    let found = node.get(&format!("{BASE}/a")).await.json();
    assert_eq!((&found["state"], &found["name"]), (&json!("pending"), &json!("unknown")));
    node.post(&format!("{BASE}/a/suspend"), r#"{"reason":"for a look"}"#).await;
    let found = node.get(&format!("{BASE}/a")).await.json();
    let seen = (&found["state"], &found["suspended"]);
    assert_eq!(seen, (&json!("suspended"), &json!("for a look")));
    assert_eq!(ids("?state=suspended").await, ["a"]);
    assert_eq!(node.post(&format!("{BASE}/b/terminate"), "").await.json()["changed"], true);
    assert_eq!(node.get(&format!("{BASE}/b")).await.json()["state"], "terminated");
}

#[tokio::test(start_paused = true)]
async fn unclaimed_work_is_reported_as_waiting_with_a_reason() {
    let node = Node::start().await;
    let runtime = runtime(&node).await;
    start(&node, "unknown", "a", Value::Null).await;
    start(&node, "forever", "b", Value::Null).await;
    let waiting = async || {
        let page = node.get(&format!("{BASE}?state=waiting")).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.json());
        page.json()["orchestrations"].as_array().expect("a list").clone()
    };
    assert!(waiting().await.is_empty());
    let client = node.state.flow().clone();
    let running = async || client.status("b").await.expect("read").name() == "running";
    while !running().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    node.store.advance(Duration::from_secs(31));
    let listed = waiting().await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let reason = "no worker has claimed orchestration `unknown`";
    let found = node.get(&format!("{BASE}/a")).await.json();
    for one in [&listed[0], &found] {
        assert_eq!((&one["instance"], &one["state"]), (&json!("a"), &json!("pending")));
        assert_eq!(one["waiting"]["reason"], reason);
        assert!(one["waiting"]["since"].is_string());
    }
    assert!(node.get(&format!("{BASE}/b")).await.json()["waiting"].is_null());
    let recording = metrics::set_default_local_recorder(&node.recorder);
    let rendered = String::from_utf8(node.get("/metrics").await.body).expect("text");
    drop(recording);
    assert!(rendered.contains("\nwakeline_flow_unclaimed 1\n"), "{rendered}");
    let mixed = node.get(&format!("{BASE}?state=waiting&name=unknown")).await;
    assert_eq!(mixed.status, StatusCode::BAD_REQUEST);
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_instances_are_404_and_errors_name_bad_input() {
    let node = Node::start().await;
    for (method, path) in [
        ("GET", "x"),
        ("GET", "x/wait?timeout=10"),
        ("GET", "x/history"),
        ("GET", "x/executions"),
        ("GET", "x/kv"),
        ("GET", "x/kv/k"),
        ("GET", "x/tree"),
        ("POST", "x/events/e"),
        ("POST", "x/cancel"),
        ("POST", "x/terminate"),
        ("POST", "x/suspend"),
        ("POST", "x/resume"),
        ("DELETE", "x"),
    ] {
        let answer = node.call(method, &format!("{BASE}/{path}"), "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    let nameless = node.post(BASE, r#"{"instance":"i"}"#).await;
    assert_eq!(nameless.status, StatusCode::BAD_REQUEST);
    assert!(nameless.error().contains("name"), "{}", nameless.error());
    let empty = node.post(BASE, r#"{"name":""}"#).await;
    assert!(empty.error().contains("orchestration must not be empty"), "{}", empty.error());
    let odd = node.get(&format!("{BASE}/x/wait?timeout=-1")).await;
    assert!(odd.error().contains("timeout"), "{}", odd.error());
    // No worker can run the instance, so it waits. An event may come before it is started.
    let early = node.post(&format!("{BASE}/later/events/go?early=true"), "1").await;
    assert_eq!(early.status, StatusCode::ACCEPTED);
    let unstarted = node.get("/api/v1/mailboxes").await.json();
    assert_eq!(unstarted["mailboxes"][0]["instance"], "later");
    assert_eq!(unstarted["mailboxes"][0]["messages"], 1);
    assert!(unstarted["mailboxes"][0]["oldestAt"].is_string());
    assert_eq!(unstarted.get("nextCursor"), None);
    let waiting = node.get(&format!("{BASE}/later/mailbox")).await.json();
    let event = &waiting["messages"][0];
    assert_eq!((&event["kind"], &event["name"]), (&json!("event"), &json!("go")));
    assert_eq!(event["data"], 1);
    start(&node, "unknown", "later", Value::Null).await;
    assert_eq!(node.get(&format!("{BASE}/later")).await.json()["state"], "pending");
    assert_eq!(node.get("/api/v1/mailboxes").await.json()["mailboxes"], json!([]));
    let waiting = node.get(&format!("{BASE}/later/mailbox")).await.json();
    assert_eq!(waiting["messages"][1]["kind"], "start");
}

#[tokio::test]
async fn mailboxes_of_unstarted_instances_are_listed_in_pages() {
    let node = Node::start().await;
    for id in ["b", "a", "c"] {
        node.post(&format!("{BASE}/{id}/events/go?early=true"), "1").await;
    }
    let first = node.get("/api/v1/mailboxes?limit=2").await.json();
    let ids = |page: &Value| {
        let ids = page["mailboxes"].as_array().expect("a list").iter();
        ids.map(|one| one["instance"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ["a", "b"]);
    let cursor = first["nextCursor"].as_str().expect("there is more");
    let second = node.get(&format!("/api/v1/mailboxes?limit=2&cursor={cursor}")).await.json();
    assert_eq!(ids(&second), ["c"]);
    assert_eq!(second.get("nextCursor"), None);
    let deleted = node.call("DELETE", &format!("{BASE}/b?force=true"), "").await;
    assert_eq!(deleted.status, StatusCode::OK);
    assert_eq!(ids(&node.get("/api/v1/mailboxes").await.json()), ["a", "c"]);
}
