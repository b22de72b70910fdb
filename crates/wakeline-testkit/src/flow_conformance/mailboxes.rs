//! Rules of waiting messages: more than one turn takes, and messages of instances that were never
//! started.

use bytes::Bytes;
use wakeline_store::flow::{DeleteInstances, Envelope, ListMailboxes};

use super::{FlowBench, MAIN, after, continues, event, id, start, step, texts};

async fn early(bench: &FlowBench, list: ListMailboxes) -> Vec<String> {
    let now = bench.now().await;
    let found = bench.flow.early_mailboxes(list).await.expect("listed");
    let described = found.iter().map(|one| {
        let age = one.oldest_at.until(now).as_secs();
        format!("{} {} {age}", one.instance, one.messages)
    });
    described.collect()
}

async fn all(bench: &FlowBench) -> Vec<String> {
    early(bench, ListMailboxes::default()).await
}

async fn waiting(bench: &FlowBench, instance: &str, limit: u32) -> Vec<String> {
    let found = bench.flow.waiting_messages(&id(instance), limit).await.expect("read");
    found.iter().map(|one| String::from_utf8_lossy(&one.payload).into_owned()).collect()
}

/// A listed mailbox has the number of its waiting messages and the time since which they wait.
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

/// From its start on, the instance is pending.
pub async fn a_mailbox_is_listed_until_its_instance_is_started(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    assert_eq!(all(bench).await, ["a 1 0"]);
    assert!(!bench.is_pending("a").await);
    bench.start("a").await;
    assert!(all(bench).await.is_empty());
    assert!(bench.is_pending("a").await);
}

/// Nothing of a deleted mailbox is left.
pub async fn a_mailbox_that_was_deleted_is_not_listed(bench: &FlowBench) {
    bench.send(vec![event("a", "x"), event("b", "x")]).await;
    let command = DeleteInstances { instances: vec![id("a")], force: true };
    bench.flow.delete_instances(command).await.expect("deleted");
    assert_eq!(all(bench).await, ["b 1 0"]);
    assert!(waiting(bench, "a", 10).await.is_empty());
}

/// This holds for ids that were never started, and for pending and running instances.
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

/// Rule 2: a turn takes at most a thousand messages; the rest is for the next turn.
pub async fn a_turn_takes_a_thousand_messages_at_most(bench: &FlowBench) {
    bench.start("a").await;
    let events = (1..1_200).map(|n| event("a", &n.to_string())).collect();
    bench.send(events).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["start"], "what begins something is taken alone");
    bench.committed(step(&turn)).await;
    let turn = bench.turn().await;
    assert_eq!(turn.messages.len(), 1_000);
    bench.committed(step(&turn)).await;
    let rest = bench.turn().await;
    assert_eq!(texts(&rest), (1_001..1_200).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Rule 2: a turn takes at most about 4 MB, but at least one message.
pub async fn a_turn_takes_about_four_megabytes_at_most(bench: &FlowBench) {
    let large = |len: usize| Envelope { payload: Bytes::from(vec![b'x'; len]), ..event("a", "") };
    let first = Envelope { payload: Bytes::from(vec![b'x'; 5 << 20]), ..start("a") };
    bench.send(vec![first]).await;
    for _ in 0..5 {
        bench.send(vec![large(2 << 20)]).await;
    }
    let (mut turns, mut taken) = (0, 0);
    while taken < 6 {
        let turn = bench.turn().await;
        let bytes: usize = turn.messages.iter().map(|message| message.payload.len()).sum();
        assert!(bytes <= 7 << 20, "{bytes} bytes in one turn");
        assert!(!turn.messages.is_empty());
        taken += turn.messages.len();
        turns += 1;
        bench.committed(step(&turn)).await;
    }
    assert!(turns >= 3, "only {turns} turns");
    assert_eq!(bench.no_turn().await, None);
}

/// Sends this number of early events, numbered.
async fn send_early(bench: &FlowBench, len: usize) {
    bench.send((0..len).map(|n| event("a", &n.to_string())).collect()).await;
}

/// Rule 2: no message of a lane can be processed without the one that begins its execution.
pub async fn a_start_behind_a_thousand_messages_comes_first_and_the_rest_in_order(
    bench: &FlowBench,
) {
    send_early(bench, 2_500).await;
    bench.start("a").await;
    let mut taken = Vec::new();
    for len in [1, 1_000, 1_000, 500] {
        let turn = bench.turn().await;
        assert_eq!(turn.messages.len(), len);
        assert!(turn.messages.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        taken.extend(texts(&turn));
        bench.committed(step(&turn)).await;
    }
    let expected = std::iter::once("start".to_owned()).chain((0..2_500).map(|n| n.to_string()));
    assert_eq!(taken, expected.collect::<Vec<_>>());
    assert_eq!(bench.no_turn().await, None);
}

/// Rule 2: the same holds where bytes are the limit, and for a turn that expires.
pub async fn a_start_behind_four_megabytes_comes_first(bench: &FlowBench) {
    let large = Envelope { payload: Bytes::from(vec![b'x'; 3 << 20]), ..event("a", "") };
    bench.send(vec![large.clone()]).await;
    bench.send(vec![large]).await;
    bench.start("a").await;
    for attempt in 1..=2 {
        let turn = bench.turn().await;
        assert_eq!((turn.messages.len(), turn.attempt), (1, attempt));
        assert_eq!(turn.messages[0].payload, "start");
        bench.advance(100).await;
    }
    let turn = bench.turn().await;
    assert_eq!(turn.messages[0].payload, "start");
    bench.committed(step(&turn)).await;
    for _ in 0..2 {
        let turn = bench.turn().await;
        assert_eq!(turn.messages.len(), 1);
        bench.committed(step(&turn)).await;
    }
    assert_eq!(bench.no_turn().await, None);
}

/// Rule 2: a message that continues an instance as new begins an execution as well.
pub async fn a_continuation_behind_a_thousand_messages_comes_first(bench: &FlowBench) {
    send_early(bench, 2_500).await;
    bench.start("a").await;
    let mut events = Vec::new();
    for _ in 0..2 {
        let turn = bench.turn().await;
        assert_eq!(texts(&turn), ["start"]);
        bench.committed(step(&turn)).await;
        let turn = bench.turn().await;
        assert_eq!(turn.messages.len(), 1_000);
        events.extend(texts(&turn));
        bench.committed(continues(&turn, MAIN)).await;
    }
    // The remaining messages fit and are taken in order of arrival.
    let turn = bench.turn().await;
    let mut last = texts(&turn);
    assert_eq!(last.pop().as_deref(), Some("start"));
    events.extend(last);
    bench.committed(continues(&turn, MAIN)).await;
    assert_eq!(events, (0..2_500).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(texts(&bench.turn().await), ["start"]);
}

/// Rule 2: a message belongs to a turn from its time on, whatever it begins.
pub async fn a_start_that_is_not_visible_is_not_brought_forward(bench: &FlowBench) {
    send_early(bench, 1_500).await;
    bench.send(vec![Envelope { visible: after(5), ..start("a") }]).await;
    let turn = bench.turn().await;
    assert_eq!(turn.messages[0].payload, "0");
    bench.abandon(turn.token, 5, true).await;
    bench.advance(5).await;
    assert_eq!(bench.turn().await.messages[0].payload, "start");
}
