//! Tests that mailboxes with more messages than a turn takes are delivered completely and in order.

use std::time::Duration;

use wakeline::core::InstanceId;
use wakeline::{
    Client, EventKind, FlowError, Json, ListMailboxes, LongPollConfig, OrchestrationContext,
    Registry, Runtime,
};
use wakeline_store::flow::{EnqueueOutcome, FlowStore, Visible};

use crate::support::{Node, Store};

const WAIT_MAX: Duration = Duration::from_secs(60);
const EVENTS: u32 = 5_000;

/// Takes all events, and returns their number and whether they were in order.
async fn collect(ctx: OrchestrationContext, len: u32) -> Result<(u32, bool), FlowError> {
    let mut in_order = true;
    for n in 0..len {
        in_order &= ctx.event::<u32>("n").await? == n;
    }
    Ok((len, in_order))
}

/// Takes all events, a hundred in each execution.
async fn looping(ctx: OrchestrationContext, taken: (u32, bool)) -> Result<(u32, bool), FlowError> {
    let (mut len, mut in_order) = taken;
    for _ in 0..100 {
        in_order &= ctx.event::<u32>("n").await? == len;
        len += 1;
    }
    if len == EVENTS { Ok((len, in_order)) } else { ctx.continue_as_new((len, in_order)).await }
}

/// Adds up the lengths of three events.
async fn large(ctx: OrchestrationContext, (): ()) -> Result<usize, FlowError> {
    let mut bytes = 0;
    for _ in 0..3 {
        bytes += ctx.event::<String>("large").await?.len();
    }
    Ok(bytes)
}

fn registry() -> Registry {
    let registry = Registry::builder()
        .orchestration("collect", collect)
        .orchestration("looping", looping)
        .orchestration("large", large);
    registry.build().expect("no name twice")
}

fn store_of(node: &Node) -> &dyn FlowStore {
    match node {
        Node::Sqlite(provider) => &**provider.store(),
        Node::Postgres(provider) => &**provider.store(),
    }
}

/// Raises all events of an instance in one call of the store.
async fn raise(node: &Node, instance: &str) {
    let envelope = |n: u32| {
        let data = Json::of(&n).expect("a number");
        Client::event_envelope(instance, "n", data).expect("valid")
    };
    let envelopes = (0..EVENTS).map(envelope).collect();
    let reply = store_of(node).enqueue(envelopes, Vec::new()).await.expect("stored");
    assert!(reply.outcomes.iter().all(|outcome| *outcome == EnqueueOutcome::Queued));
}

/// Returns how many events an execution got from the previous one.
async fn carried(node: &Node, instance: &str, execution: u64) -> usize {
    let instance = InstanceId::new(instance).expect("valid");
    let history = node.provider().read(&instance, Some(execution)).await.expect("read");
    match &history[0].kind {
        EventKind::Started { carried, .. } => carried.len(),
        other => panic!("a history begins with a start, not with {other:?}"),
    }
}

#[tokio::test]
async fn events_before_the_start_all_arrive_in_order() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        raise(&node, "early").await;
        let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
        let client = runtime.client();
        client.start("early", "collect", &EVENTS).await.expect("started");
        let taken: (u32, bool) = client.wait("early", WAIT_MAX).await.expect("completed");
        assert_eq!(taken, (EVENTS, true), "{}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn executions_that_continue_as_new_receive_all_events_in_order() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        raise(&node, "loop").await;
        let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
        let client = runtime.client();
        client.start("loop", "looping", &(0, true)).await.expect("started");
        let taken: (u32, bool) = client.wait("loop", WAIT_MAX).await.expect("completed");
        assert_eq!(taken, (EVENTS, true), "{}", store.name());
        // No execution took more events out of the mailbox than it awaited in one turn.
        for execution in 1..=u64::from(EVENTS / 100) {
            let carried = carried(&node, "loop", execution).await;
            assert!(carried <= 1_000, "{}: {carried} in execution {execution}", store.name());
        }
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn large_events_before_the_start_all_arrive() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
        let client = runtime.client();
        let text = "x".repeat(2 << 20);
        for _ in 0..3 {
            client.raise_event_early("large", "large", &text).await.expect("accepted");
        }
        client.start("large", "large", &()).await.expect("started");
        let bytes: usize = client.wait("large", WAIT_MAX).await.expect("completed");
        assert_eq!(bytes, 3 * text.len(), "{}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

/// Events that arrive before a delayed start are not dropped.
#[tokio::test]
async fn events_are_kept_for_a_start_that_is_not_visible_yet() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let input = Json::of(&1).expect("a number");
        let mut start = Client::start_envelope("later", "collect", None, input).expect("valid");
        start.visible = Visible::After(Duration::from_secs(1));
        store_of(&node).enqueue(vec![start], Vec::new()).await.expect("stored");
        let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
        let client = runtime.client();
        client.raise_event("later", "n", &0).await.expect("accepted");
        let taken: (u32, bool) = client.wait("later", WAIT_MAX).await.expect("completed");
        assert_eq!(taken, (1, true), "{}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

/// The mailbox of an id that was used by mistake can be found, read and removed.
#[tokio::test]
async fn events_of_ids_never_started_can_be_listed_and_removed() {
    for store in Store::both().await {
        let client = store.client().await;
        client.raise_event_early("order-7", "paid", &1).await.expect("accepted");
        client.raise_event_early("order-7", "shipped", &2).await.expect("accepted");
        client.raise_event_early("ordre-8", "paid", &3).await.expect("accepted");
        let listed = client.early_mailboxes(ListMailboxes::default()).await.expect("listed");
        let listed: Vec<_> =
            listed.iter().map(|one| (one.instance.as_str(), one.messages)).collect();
        assert_eq!(listed, [("order-7", 2), ("ordre-8", 1)], "{}", store.name());
        let items = client.mailbox("order-7", 10).await.expect("read");
        let reported: Vec<_> = items.iter().map(|item| (item.kind, item.name.as_deref())).collect();
        let expected = [("event", Some("paid")), ("event", Some("shipped"))];
        assert_eq!(reported, expected, "{}", store.name());
        assert_eq!(items[1].data, Json::of(&2).ok());
        assert!(client.delete("ordre-8", true).await.expect("answered").running.is_empty());
        client.start("order-7", "collect", &2).await.expect("started");
        let left = client.early_mailboxes(ListMailboxes::default()).await.expect("listed");
        assert!(left.is_empty(), "{}: {left:?}", store.name());
        let items = client.mailbox("order-7", 10).await.expect("read");
        assert_eq!(
            items.iter().map(|item| item.kind).collect::<Vec<_>>(),
            ["event", "event", "start"]
        );
    }
}

#[tokio::test]
async fn the_view_shows_mailboxes_of_ids_never_started() {
    let store = Store::postgres().await;
    let client = store.client().await;
    client.raise_event_early("order-7", "paid", &1).await.expect("accepted");
    client.start("started", "collect", &2).await.expect("started");
    client.raise_event("started", "paid", &1).await.expect("accepted");
    let Store::Postgres(database) = &store else { unreachable!("it is on PostgreSQL") };
    let sql = "SELECT instance, messages FROM wakeline.mailboxes";
    let shown = database.0.client().await.query(sql, &[]).await.expect("read");
    let shown: Vec<(String, i64)> = shown.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(shown, [("order-7".to_owned(), 1)]);
}
