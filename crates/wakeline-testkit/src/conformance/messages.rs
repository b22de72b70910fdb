//! Operations on single messages: browsing, retrying, giving up, clearing.

use wakeline_core::{GroupName, PartitionId, PartitionName, QueueName, QueueOptions};
use wakeline_core::{Subscription, TransactionId, Verdict};
use wakeline_store::{
    BrowsePosition, Intervention, InterventionOutcome, ListedMessages, MessageFilter, MessageKey,
    MessageState, Page, PartitionDetail, SettleOutcome,
};

use super::{Bench, ClaimSpec, at_once, earliest_due, is_settled, partition_name, secs};

fn bury() -> Intervention {
    Intervention::GiveUp { error: Some("no use".to_owned()) }
}

fn message(partition: PartitionId, id: &str) -> MessageKey {
    MessageKey { partition, transaction_id: TransactionId::new(id).expect("a short id") }
}

async fn intervene(
    bench: &Bench,
    message: MessageKey,
    group: &GroupName,
    intervention: Intervention,
) -> (InterventionOutcome, Vec<wakeline_core::Change>) {
    bench.store.intervene(message, group, intervention).await.expect("it is answered")
}

async fn pushed(bench: &Bench, queue: &QueueName, ids: &[&str]) -> PartitionId {
    bench.push(queue, "p", ids).await.outcomes[0].partition()
}

async fn partitions(bench: &Bench, queue: &QueueName) -> Vec<PartitionDetail> {
    let page = Page { limit: 100, offset: 0 };
    bench.store.partitions(Some(queue), page).await.expect("partitions are listed")
}

/// After a queue is cleared its groups stand at the end and their leases are stale; later messages
/// are delivered.
pub async fn a_cleared_queue_is_empty(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    let (g, h) = (bench.group("g"), bench.group("h"));
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    bench.push(&queue, "r", &["e"]).await;
    let spec = ClaimSpec::partition(&queue, "p").group(&g);
    let taken = bench.take(&spec.clone().batch(2)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.settled(&taken, "b", Verdict::Failed).await;
    let held = bench.take(&spec.clone().batch(2)).await;
    let cleared = bench.store.clear_queue(&queue, false).await.expect("a queue is cleared");
    assert_eq!(cleared, Some(5));
    assert_eq!(bench.settle(&held, "b", Verdict::Completed).await, SettleOutcome::StaleLease);
    for group in [&g, &h] {
        assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).group(group)).await, None);
    }
    assert_eq!(bench.sweep(&ClaimSpec::queue(&queue).group(&bench.group("i"))).await, None);
    assert_eq!(bench.store.groups(Some(&g)).await.expect("listed")[0].lag, 0);
    bench.push(&queue, "p", &["a", "f"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&g).batch(5)).await;
    assert_eq!((taken.ids(), taken.offsets()), (vec!["a".into(), "f".into()], vec![4, 5]));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&bench.group("i"))).await, ["a", "f"]);
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    bench.store.clear_queue(&queue, true).await.expect("a queue is cleared");
    assert!(bench.dead_ids(&queue).await.is_empty());
    let unknown = bench.store.clear_queue(&bench.queue("unknown"), true).await;
    assert_eq!(unknown.expect("it is answered"), None);
}

/// Clearing one partition leaves the others as they are.
pub async fn a_cleared_partition_is_empty(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let clear = async |name: &str, dead_letters| {
        let partition = PartitionName::new(name).expect("a short name");
        let cleared = bench.store.clear_partition(&queue, &partition, dead_letters).await;
        cleared.expect("it is answered")
    };
    assert_eq!(clear("p", true).await, None);
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    bench.push(&queue, "r", &["d", "e"]).await;
    for (partition, id) in [("p", "a"), ("r", "d")] {
        let taken = bench.take(&ClaimSpec::partition(&queue, partition).group(&group)).await;
        bench.settled(&taken, id, Verdict::DeadLetter).await;
    }
    let held = bench.take(&ClaimSpec::partition(&queue, "p").group(&group)).await;
    let kept = bench.take(&ClaimSpec::partition(&queue, "r").group(&group)).await;
    assert_eq!(clear("p", false).await, Some(3));
    assert_eq!(bench.settle(&held, "b", Verdict::Completed).await, SettleOutcome::StaleLease);
    bench.settled(&kept, "e", Verdict::Completed).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).group(&group)).await, None);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&bench.group("h"))).await, ["d", "e"]);
    let mut dead = bench.dead_ids(&queue).await;
    dead.sort();
    assert_eq!(dead, ["a", "d"]);
    bench.push(&queue, "p", &["f"]).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).group(&group)).await.offsets(), [3]);
    assert_eq!(clear("p", true).await, Some(1));
    assert_eq!(bench.dead_ids(&queue).await, ["d"]);
    assert_eq!(clear("unknown", true).await, None);
}

/// A partition is deleted with its messages, leases and dead letters; a new one of the same name is
/// unrelated.
pub async fn a_deleted_partition_is_gone(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    let old = pushed(bench, &queue, &["a", "b"]).await;
    bench.push(&queue, "r", &["c"]).await;
    let spec = ClaimSpec::partition(&queue, "p").group(&group);
    let taken = bench.take(&spec).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    let held = bench.take(&spec).await;
    let delete = async |name: PartitionName| {
        bench.store.delete_partition(&queue, &name).await.expect("it is answered")
    };
    assert!(delete(partition_name("p")).await);
    assert!(!delete(partition_name("p")).await);
    assert!(!delete(PartitionName::default_partition()).await, "it stays");
    assert_eq!(bench.settle(&held, "b", Verdict::Completed).await, SettleOutcome::StaleLease);
    assert!(bench.dead_ids(&queue).await.is_empty());
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["c"]);
    assert_ne!(pushed(bench, &queue, &["a"]).await, old);
    assert_eq!(bench.drain(&spec).await, ["a"]);
}

/// Partitions are listed in the order of their creation, with the number of pushed messages.
pub async fn partitions_are_listed(bench: &Bench) {
    let queue = bench.queue("n.t");
    let id = pushed(bench, &queue, &["a", "b"]).await;
    let now = bench.now().await;
    let listed = partitions(bench, &queue).await;
    let names: Vec<_> = listed.iter().map(|one| (one.partition.as_str(), one.end)).collect();
    assert_eq!(names, [("Default", 0), ("p", 2)]);
    assert_eq!((listed[1].partition_id, listed[1].last_push_at), (id, Some(now)));
    assert_eq!((listed[0].last_push_at, listed[1].queue.clone()), (None, queue.clone()));
    assert_eq!(listed[1].namespace, Some(bench.namespace("n")));
    let page = Page { limit: 1, offset: 1 };
    let second = bench.store.partitions(Some(&queue), page).await.expect("listed");
    assert_eq!(second, listed[1..]);
}

/// Retrying a parked message by hand ends its delay and keeps its failures.
pub async fn a_waiting_message_is_retried_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { retry_delay_ms: 60_000, ..at_once() }).await;
    let group = bench.group("g");
    let partition = pushed(bench, &queue, &["a", "b"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let taken = bench.take(&spec).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.nothing(&spec).await, secs(60));
    let (outcome, changes) =
        intervene(bench, message(partition, "a"), &group, Intervention::Retry).await;
    assert_eq!((outcome, earliest_due(&changes, &spec)), (InterventionOutcome::Done, secs(0)));
    let taken = bench.take(&spec.clone().batch(5)).await;
    assert_eq!((taken.ids(), taken.attempts()), (vec!["a".into(), "b".into()], vec![2, 1]));
}

/// Retrying a settled message by hand delivers it again with a new count of attempts and removes
/// its dead letter.
pub async fn a_settled_message_is_delivered_again(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue).group(&g);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["a", "b", "c"]);
    let taken = bench.take(&spec.clone().batch(2)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.settled(&taken, "b", Verdict::Completed).await;
    for id in ["b", "a"] {
        let (outcome, changes) =
            intervene(bench, message(partition, id), &g, Intervention::Retry).await;
        assert_eq!((outcome, earliest_due(&changes, &spec)), (InterventionOutcome::Done, secs(0)));
    }
    assert!(bench.dead_ids(&queue).await.is_empty());
    let again = intervene(bench, message(partition, "c"), &g, Intervention::Retry).await;
    assert_eq!(again.0, InterventionOutcome::Done, "it will be delivered anyway");
    assert_eq!(bench.drain(&spec).await, ["a", "b", "c"]);
    bench.nothing(&ClaimSpec::queue(&queue).group(&h)).await;
}

/// A message can be given up by hand, whether it waits for a retry or was never read; the others
/// come in order.
pub async fn a_message_is_given_up_manually(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    let partition = pushed(bench, &queue, &["a", "b", "c", "d"]).await;
    let spec = ClaimSpec::queue(&queue).group(&g);
    let taken = bench.take(&spec).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    for id in ["a", "c"] {
        assert_eq!(
            intervene(bench, message(partition, id), &g, bury()).await.0,
            InterventionOutcome::Done
        );
    }
    let letters = bench.dead_letters(&queue).await;
    let letters: Vec<_> = (letters.iter())
        .map(|letter| (letter.transaction_id.as_str(), letter.failures, letter.error.as_deref()))
        .collect();
    assert_eq!(letters, [("c", 0, Some("no use")), ("a", 1, Some("no use"))]);
    let taken = bench.take(&spec.clone().batch(5)).await;
    assert_eq!((taken.ids(), taken.attempts()), (vec!["b".into(), "d".into()], vec![1, 1]));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["a", "b", "c", "d"]);
    assert_eq!(
        intervene(bench, message(partition, "a"), &h, bury()).await.0,
        InterventionOutcome::Settled
    );
}

/// A leased message cannot be retried or given up by hand; one of an expired lease can.
pub async fn a_leased_message_is_left_alone(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let held = bench.take(&spec.clone().batch(2)).await;
    for intervention in [Intervention::Retry, bury()] {
        let outcome = intervene(bench, message(partition, "a"), &group, intervention).await.0;
        assert_eq!(outcome, InterventionOutcome::Leased);
    }
    assert_eq!(
        intervene(bench, message(partition, "c"), &group, bury()).await.0,
        InterventionOutcome::Done
    );
    assert!(is_settled(&bench.settle(&held, "a", Verdict::Completed).await));
    bench.advance(300).await;
    assert_eq!(
        intervene(bench, message(partition, "b"), &group, bury()).await.0,
        InterventionOutcome::Done
    );
    assert_eq!(bench.dead_ids(&queue).await, ["b", "c"]);
    assert_eq!(bench.nothing(&spec).await, None);
}

/// An intervention that finds nothing to change changes nothing and reports why.
pub async fn interventions_report_what_they_cannot_find(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    let partition = pushed(bench, &queue, &["a"]).await;
    let retry = || Intervention::Retry;
    assert_eq!(
        intervene(bench, message(partition, "a"), &group, retry()).await.0,
        InterventionOutcome::NoGroup
    );
    bench.take(&ClaimSpec::queue(&queue).group(&group)).await;
    let unknown = intervene(bench, message(partition, "x"), &group, retry()).await;
    assert_eq!((unknown.0, unknown.1.len()), (InterventionOutcome::Missing, 0));
    let many: Vec<String> = (0..1_002).map(|n| format!("m{n}")).collect();
    bench.push(&queue, "p", &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let late = ClaimSpec::queue(&queue).group(&bench.group("h")).auto_ack();
    bench.take(&late).await;
    let far = intervene(bench, message(partition, "m1001"), &late.line.group, bury()).await.0;
    assert_eq!(far, InterventionOutcome::TooFar);
    let near = intervene(bench, message(partition, "m1000"), &late.line.group, bury()).await.0;
    assert_eq!(near, InterventionOutcome::Done);
}

async fn look(
    bench: &Bench,
    filter: &MessageFilter,
    place: Option<BrowsePosition>,
    limit: u32,
) -> ListedMessages {
    bench.store.browse(filter.clone(), place, limit).await.expect("messages are listed")
}

fn ids(list: &ListedMessages) -> String {
    let ids: Vec<_> = list.messages.iter().map(|one| one.transaction_id.as_str()).collect();
    ids.join(" ")
}

/// Messages are listed by partition, newest first, with their state for each group.
pub async fn messages_are_browsed_newest_first(bench: &Bench) {
    let queue = bench.queue("n.t");
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.advance(10).await;
    bench.push(&queue, "p", &["c"]).await;
    bench.push(&queue, "r", &["d"]).await;
    let later = bench.now().await;
    let all = MessageFilter { queue: Some(queue.clone()), ..Default::default() };
    assert_eq!(ids(&look(bench, &all, None, 10).await), "c b a d");
    let cases = [
        (MessageFilter { from: Some(later), ..all.clone() }, "c d"),
        (MessageFilter { to: Some(later), ..all.clone() }, "b a"),
        (MessageFilter { partition: Some(partition_name("r")), ..all.clone() }, "d"),
        (MessageFilter { namespace: Some(bench.namespace("n")), ..Default::default() }, "c b a d"),
        (MessageFilter { queue: Some(bench.queue("unknown")), ..Default::default() }, ""),
    ];
    for (filter, expected) in cases {
        let found = look(bench, &filter, None, 10).await;
        assert_eq!((ids(&found).as_str(), found.next), (expected, None), "{filter:?}");
    }
    let (mut place, mut seen) = (None, Vec::new());
    loop {
        let page = look(bench, &all, place, 1).await;
        seen.push(ids(&page));
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    assert_eq!(seen.join(" ").trim(), "c b a d");
}

/// Messages are found by their state for the main group: the one of consumers without a group name,
/// or else the first.
pub async fn messages_are_found_by_their_state(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a", "b", "c", "d", "e"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let taken = bench.take(&spec.clone().batch(4)).await;
    bench.settled(&taken, "a", Verdict::Completed).await;
    bench.settled(&taken, "b", Verdict::DeadLetter).await;
    bench.settled(&taken, "c", Verdict::Retry).await;
    let of = |state| MessageFilter {
        queue: Some(queue.clone()),
        state: Some(state),
        ..Default::default()
    };
    let states = [
        (MessageState::Completed, "a"),
        (MessageState::DeadLetter, "b"),
        (MessageState::Pending, "e c"),
        (MessageState::Processing, "d"),
    ];
    for (state, expected) in states {
        let found = look(bench, &of(state), None, 10).await;
        assert_eq!(ids(&found), expected, "{state:?}");
        assert!(found.messages.iter().all(|one| one.groups == [(group.clone(), state)]));
    }
    bench.take(&ClaimSpec::queue(&queue).subscribe(Subscription::All)).await;
    let found = look(bench, &of(MessageState::Processing), None, 10).await;
    assert_eq!(ids(&found), "a", "consumers who name no group come first");
}

/// A call looks at a bounded number of messages; the next call continues.
pub async fn browsing_examines_a_bounded_number_of_messages(bench: &Bench) {
    let queue = bench.queue("q");
    let many: Vec<String> = (0..30).map(|n| format!("m{n}")).collect();
    bench.push(&queue, "p", &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    bench.take(&ClaimSpec::queue(&queue).auto_ack()).await;
    let filter = MessageFilter {
        queue: Some(queue.clone()),
        state: Some(MessageState::Completed),
        ..Default::default()
    };
    let (mut place, mut calls, mut seen) = (None, 0, String::new());
    loop {
        let page = look(bench, &filter, place, 1).await;
        seen.push_str(&ids(&page));
        calls += 1;
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    assert_eq!((seen.as_str(), calls), ("m0", 3));
}
