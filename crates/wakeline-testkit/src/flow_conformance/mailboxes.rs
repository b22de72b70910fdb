//! Messages that wait, also for instances that were never started.

use wakeline_store::flow::{DeleteInstances, Envelope, ListMailboxes};

use super::{FlowBench, after, event, id};

async fn early(bench: &FlowBench, list: ListMailboxes) -> Vec<String> {
    let now = bench.now().await;
    let found = bench.flow.early_mailboxes(list).await.expect("listed");
    let told = found.iter().map(|one| {
        let age = one.oldest_at.until(now).as_secs();
        format!("{} {} {age}", one.instance, one.messages)
    });
    told.collect()
}

async fn all(bench: &FlowBench) -> Vec<String> {
    early(bench, ListMailboxes::default()).await
}

async fn waiting(bench: &FlowBench, instance: &str, limit: u32) -> Vec<String> {
    let found = bench.flow.waiting_messages(&id(instance), limit).await.expect("read");
    found.iter().map(|one| String::from_utf8_lossy(&one.payload).into_owned()).collect()
}

/// With how many messages wait, and for how long.
pub async fn mailboxes_of_ids_that_were_never_started_are_listed_page_by_page(bench: &FlowBench) {
    bench.send(vec![event("c", "x"), event("a1", "x")]).await;
    bench.advance(20).await;
    bench.send(vec![event("a1", "y"), event("a2", "x")]).await;
    bench.running("running").await;
    bench.send(vec![event("running", "x")]).await;
    bench.start("pending").await;
    bench.advance(10).await;
    assert_eq!(all(bench).await, ["a1 2 30", "a2 1 10", "c 1 30"]);
    let first = ListMailboxes { limit: 2, ..ListMailboxes::default() };
    assert_eq!(early(bench, first.clone()).await, ["a1 2 30", "a2 1 10"]);
    let second = ListMailboxes { after: Some(id("a2")), ..first };
    assert_eq!(early(bench, second).await, ["c 1 30"]);
    let prefix = ListMailboxes { id_prefix: Some("a".into()), ..ListMailboxes::default() };
    assert_eq!(early(bench, prefix).await, ["a1 2 30", "a2 1 10"]);
}

/// Then it is a pending instance.
pub async fn a_mailbox_is_listed_until_its_instance_is_started(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    assert_eq!(all(bench).await, ["a 1 0"]);
    assert!(!bench.is_pending("a").await);
    bench.start("a").await;
    assert!(all(bench).await.is_empty());
    assert!(bench.is_pending("a").await);
}

/// Nothing of it is left.
pub async fn a_mailbox_that_was_deleted_is_not_listed(bench: &FlowBench) {
    bench.send(vec![event("a", "x"), event("b", "x")]).await;
    let command = DeleteInstances { instances: vec![id("a")], force: true };
    bench.flow.delete_instances(command).await.expect("deleted");
    assert_eq!(all(bench).await, ["b 1 0"]);
    assert!(waiting(bench, "a", 10).await.is_empty());
}

/// Of ids that were never started, of pending and of running instances.
pub async fn messages_that_wait_are_read_in_order(bench: &FlowBench) {
    let later = Envelope { visible: after(50), ..event("a", "later") };
    bench.send(vec![event("a", "first"), later, event("a", "second")]).await;
    let events = ["first", "later", "second"];
    assert_eq!(waiting(bench, "a", 10).await, events);
    assert_eq!(waiting(bench, "a", 2).await, events[..2]);
    let now = bench.now().await;
    let found = bench.flow.waiting_messages(&id("a"), 10).await.expect("read");
    let delays: Vec<_> = found.iter().map(|one| now.until(one.visible_at).as_secs()).collect();
    assert_eq!(delays, [0, 50, 0]);
    bench.running("b").await;
    assert!(waiting(bench, "b", 10).await.is_empty());
    bench.send(vec![event("b", "third")]).await;
    assert_eq!(waiting(bench, "b", 10).await, ["third"]);
    bench.start("a").await;
    assert_eq!(waiting(bench, "a", 10).await, ["first", "later", "second", "start"]);
}
