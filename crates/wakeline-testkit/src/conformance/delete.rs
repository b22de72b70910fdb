//! Deleting single messages: the result is as if they had never been pushed, except for their
//! offsets.

use std::slice::from_ref;

use wakeline_core::{
    Change, GroupName, PartitionId, QueueName, QueueOptions, RedriveId, TransactionId, Verdict,
};
use wakeline_store::{
    DeadLetterFilter, GroupPartitionFilter, Intervention, InterventionOutcome, Losses,
    MessageCounts, MessageFilter, MessageKey, Page, PushOutcome, Redrive, RedriveState, Seek,
    SeekTo, SettleOutcome,
};

use super::{Bench, ClaimSpec, at_once, earliest_due, partition_name, secs};

const ALL: Page = Page { limit: 1000, offset: 0 };

fn key(partition: PartitionId, id: &str) -> MessageKey {
    MessageKey { partition, transaction_id: TransactionId::new(id).expect("a short id") }
}

async fn pushed(bench: &Bench, queue: &QueueName, ids: &[&str]) -> PartitionId {
    bench.push(queue, "p", ids).await.outcomes[0].partition()
}

/// Deletes messages that must exist; returns the changes that this reports.
async fn delete(bench: &Bench, partition: PartitionId, ids: &[&str]) -> Vec<Change> {
    let mut changes = Vec::new();
    for id in ids {
        let deleted = bench.store.delete_message(key(partition, id)).await;
        let (existed, reported) = deleted.expect("it is answered");
        assert!(existed, "{id} is there to be deleted");
        changes.extend(reported);
    }
    changes
}

async fn lag(bench: &Bench, group: &GroupName) -> u64 {
    let filter =
        GroupPartitionFilter { group: Some(group.clone()), limit: 100, ..Default::default() };
    let found = bench.store.group_partitions(filter).await.expect("partitions are listed");
    let sum: u64 = found.iter().map(|one| one.lag).sum();
    let whole = bench.store.groups(Some(group)).await.expect("groups are listed");
    assert_eq!(whole.iter().map(|one| one.lag).sum::<u64>(), sum);
    sum
}

async fn message_counts(bench: &Bench, queue: &QueueName) -> MessageCounts {
    let all = bench.store.queue_counts(Some(queue), ALL).await.expect("it is counted");
    let mut each = MessageCounts::default();
    for one in bench.store.partition_counts(queue, ALL).await.expect("they are counted") {
        each.add(one.messages);
    }
    assert_eq!(all[0].messages, each, "the queue stands as its partitions together");
    each
}

async fn seek(bench: &Bench, group: &GroupName, to: SeekTo) {
    let seek = Seek { group: group.clone(), queue: None, partition: None, to };
    bench.store.seek(seek).await.expect("a group is moved");
}

/// A deleted message is not delivered to groups that continue, begin or seek back; the others come
/// in their order.
pub async fn a_deleted_message_is_never_delivered(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    let partition = pushed(bench, &queue, &["a", "b", "c", "d", "e"]).await;
    bench.advance(1).await;
    let middle = bench.now().await;
    bench.push(&queue, "p", &["f"]).await;
    bench.push(&queue, "p", &["g", "h", "i"]).await;
    let spec = ClaimSpec::queue(&queue).group(&g);
    assert_eq!(bench.take(&spec.clone().auto_ack()).await.ids(), ["a"]);
    delete(bench, partition, &["a", "c", "d", "f", "i"]).await;
    assert_eq!(bench.drain(&spec).await, ["b", "e", "g", "h"]);
    assert_eq!(bench.nothing(&spec).await, None);
    let rest = ["b", "e", "g", "h"];
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, rest, "who begins");
    seek(bench, &g, SeekTo::Beginning).await;
    assert_eq!(bench.drain(&spec).await, rest, "who goes back");
    seek(bench, &h, SeekTo::Since(middle)).await;
    assert_eq!(
        bench.drain(&ClaimSpec::queue(&queue).group(&h)).await,
        ["g", "h"],
        "or to a moment"
    );
    bench.push(&queue, "p", &["j"]).await;
    assert_eq!(bench.take(&spec).await.offsets(), [9], "offsets are not used again");
}

/// A message is deleted once, and afterwards no lookup finds it.
pub async fn a_deleted_message_is_not_found(bench: &Bench) {
    let queue = bench.queue("q");
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    delete(bench, partition, &["b"]).await;
    for unknown in [key(partition, "b"), key(partition, "x"), key(PartitionId(i64::MAX), "a")] {
        let again = bench.store.delete_message(unknown).await.expect("it is answered");
        assert_eq!(again, (false, Vec::new()));
    }
    let id = TransactionId::new("b").expect("a short id");
    assert!(bench.store.message(partition, &id).await.expect("it is answered").is_none());
    let filter = MessageFilter { queue: Some(queue.clone()), ..Default::default() };
    let list = bench.store.browse(filter, None, 10).await.expect("messages are listed");
    let ids: Vec<_> = list.messages.iter().map(|one| one.transaction_id.as_str()).collect();
    assert_eq!(ids, ["c", "a"]);
    let group = GroupName::queue_mode();
    let retried = bench.store.intervene(key(partition, "b"), &group, Intervention::Retry).await;
    assert_eq!(retried.expect("it is answered").0, InterventionOutcome::Missing);
}

/// A batch is as large as requested, even if messages in between were deleted.
pub async fn a_batch_passes_over_what_was_deleted(bench: &Bench) {
    let queue = bench.queue("q");
    let ids: Vec<String> = (0..250).map(|n| format!("m{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let partition = pushed(bench, &queue, &ids).await;
    let (gone, kept): (Vec<_>, Vec<_>) =
        (0..250).partition(|n| n % 3 == 1 || (100..120).contains(n));
    for n in &gone {
        delete(bench, partition, &[ids[*n as usize]]).await;
    }
    let spec = ClaimSpec::queue(&queue);
    let taken = bench.take(&spec.clone().batch(100)).await;
    assert_eq!(taken.offsets(), kept[..100]);
    assert_eq!(lag(bench, &GroupName::queue_mode()).await, kept.len() as u64);
    bench.complete(&taken).await;
    let rest = bench.take(&spec.clone().batch(100).auto_ack()).await;
    assert_eq!(rest.offsets(), kept[100..]);
    assert_eq!(bench.nothing(&spec).await, None);
}

/// The consumer keeps its lease on the other messages; settling the deleted one returns not found.
pub async fn a_deleted_message_is_let_go_by_its_consumer(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let partition = pushed(bench, &queue, &["a", "b", "c", "d"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let held = bench.take(&spec.clone().batch(3)).await;
    assert_eq!(delete(bench, partition, &["b"]).await, []);
    let outcome = bench.settle(&held, "b", Verdict::Failed).await;
    assert_eq!(outcome, SettleOutcome::NotFound);
    assert_eq!(lag(bench, &group).await, 3);
    assert_eq!(bench.nothing(&spec).await, secs(300), "the lease goes on");
    bench.settled(&held, "c", Verdict::Completed).await;
    bench.settled(&held, "a", Verdict::Completed).await;
    assert_eq!(bench.take(&spec).await.ids(), ["d"]);
}

/// Deleting the last message of a lease frees the partition at once and notifies waiters.
pub async fn a_lease_ends_with_its_last_message(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let held = bench.take(&spec.clone().batch(2)).await;
    bench.settled(&held, "b", Verdict::Completed).await;
    let changes = delete(bench, partition, &["a"]).await;
    assert_eq!(earliest_due(&changes, &spec), secs(0));
    assert_eq!(bench.settle(&held, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    let held = bench.take(&spec).await;
    assert_eq!(held.ids(), ["c"]);
    assert_eq!(delete(bench, partition, &["c"]).await, [], "nothing is left to report");
    assert_eq!((bench.nothing(&spec).await, lag(bench, &group).await), (None, 0));
}

/// Released messages come again in order, whether a deleted message was next to them or among them.
pub async fn what_is_given_back_passes_over_what_was_deleted(bench: &Bench) {
    let queue = bench.queue("q");
    let partition = pushed(bench, &queue, &["a", "b", "c", "d", "e", "f"]).await;
    let spec = ClaimSpec::queue(&queue);
    let held = bench.take(&spec.clone().batch(4)).await;
    delete(bench, partition, &["b", "d", "e"]).await;
    bench.store.release(vec![held.lease()]).await.expect("a lease is given back");
    let held = bench.take(&spec.clone().batch(2)).await;
    assert_eq!((held.ids(), held.attempts()), (vec!["a".into(), "c".into()], vec![1, 1]));
    bench.complete(&held).await;
    assert_eq!(bench.drain(&spec).await, ["f"]);
}

/// Deleting a message of an expired lease removes it as well.
pub async fn a_deleted_message_of_an_expired_lease_is_gone(bench: &Bench) {
    let queue = bench.queue("q");
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue);
    bench.take(&spec.clone().batch(2)).await;
    bench.advance(300).await;
    delete(bench, partition, &["a"]).await;
    let taken = bench.take(&spec).await;
    assert_eq!((taken.ids(), taken.attempts()), (vec!["b".into()], vec![2]));
    bench.complete(&taken).await;
    bench.take(&spec).await;
    bench.advance(300).await;
    delete(bench, partition, &["c"]).await;
    assert_eq!((bench.nothing(&spec).await, bench.dead_ids(&queue).await.len()), (None, 0));
}

/// Deleting a message that waits for its retry frees those behind it in strict order and notifies
/// waiters.
pub async fn a_deleted_message_is_not_retried(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    bench.configure(&queue, QueueOptions { retry_delay_ms: 60_000, ..at_once() }).await;
    let partition = pushed(bench, &queue, &["a", "b"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let held = bench.take(&spec).await;
    bench.settled(&held, "a", Verdict::Failed).await;
    assert_eq!(bench.nothing(&spec).await, secs(60));
    let changes = delete(bench, partition, &["a"]).await;
    assert_eq!(earliest_due(&changes, &spec), secs(0));
    assert_eq!(lag(bench, &group).await, 1);
    assert_eq!(bench.take(&spec).await.ids(), ["b"]);
}

/// A deleted message counts neither in lag, depth and capacity nor as pending, but still as pushed.
pub async fn what_was_deleted_does_not_count(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let limits = QueueOptions { len_max: 100, partition_len_max: 10, ..Default::default() };
    bench.configure(&queue, limits).await;
    let partition = pushed(bench, &queue, &["a", "b", "c", "d", "e"]).await;
    let counted = async |expected: u64| {
        let name = partition_name("p");
        let capacity = bench.store.capacity(&queue, from_ref(&name)).await.expect("it is read");
        let capacity = capacity.expect("the queue exists");
        assert_eq!((capacity.len, capacity.partition_lens), (expected, vec![expected]));
        for group in [None, Some(&group)] {
            let depth = bench.store.depth(&queue, group, ALL).await.expect("it is read");
            assert_eq!(depth.expect("the queue exists").len, expected);
        }
        let counts = message_counts(bench, &queue).await;
        assert_eq!((counts.total, counts.pending + counts.processing), (5, expected));
    };
    delete(bench, partition, &["b", "e"]).await;
    counted(3).await;
    delete(bench, partition, &["a"]).await;
    counted(2).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let held = bench.take(&spec).await;
    assert_eq!(held.ids(), ["c"]);
    counted(2).await;
    assert_eq!(lag(bench, &group).await, 2);
    delete(bench, partition, &["d"]).await;
    counted(1).await;
    bench.complete(&held).await;
    counted(0).await;
    assert_eq!((lag(bench, &group).await, bench.sweep(&spec).await), (0, None));
}

/// A partition whose messages were all deleted is not due, and is not looked at again before the
/// next push.
pub async fn a_partition_whose_messages_were_deleted_is_not_due(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let held = bench.take(&spec).await;
    bench.complete(&held).await;
    delete(bench, partition, &["c", "b"]).await;
    assert_eq!((bench.sweep(&spec).await, bench.nothing(&spec).await), (None, None));
    let fresh = ClaimSpec::queue(&queue).group(&bench.group("h"));
    delete(bench, partition, &["a"]).await;
    assert_eq!((bench.sweep(&fresh).await, bench.nothing(&fresh).await), (None, None));
    bench.push(&queue, "p", &["d"]).await;
    assert_eq!(bench.sweep(&spec).await, secs(0));
    for spec in [&spec, &fresh] {
        assert_eq!(bench.take(spec).await.offsets(), [3]);
    }
}

/// The transaction id of a deleted message is free at once, within the deduplication window; the
/// others stay known.
pub async fn the_id_of_a_deleted_message_is_free_again(bench: &Bench) {
    let queue = bench.queue("q");
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    delete(bench, partition, &["c", "a"]).await;
    for round in 0..2 {
        let outcomes = bench.push(&queue, "p", &["a", "b", "c"]).await.outcomes;
        let stored: Vec<_> =
            outcomes.iter().map(|one| matches!(one, PushOutcome::Queued { .. })).collect();
        assert_eq!(stored, [round == 0, false, round == 0]);
    }
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b", "a", "c"]);
}

/// Dead letters of a deleted message stay, because they own their data, but they cannot be redriven
/// to it.
pub async fn dead_letters_of_a_deleted_message_stay(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    let taken = bench.take(&spec.clone().batch(2)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.settled(&taken, "b", Verdict::DeadLetter).await;
    delete(bench, partition, &["b"]).await;
    assert_eq!(bench.dead_ids(&queue).await, ["b", "a"]);
    // Even after the group was moved back to before the deleted message.
    seek(bench, &group, SeekTo::Beginning).await;
    let counts = message_counts(bench, &queue).await;
    assert_eq!((counts.pending, counts.given_up, counts.dead_letters), (2, 1, 2));
    let filter = DeadLetterFilter { queue: Some(queue.clone()), ..Default::default() };
    let redrive = Redrive { id: RedriveId::generate(), filter, to_queue: None, rate: None };
    let id = redrive.id;
    bench.store.start_redrive(redrive).await.expect("a job is started");
    while bench.store.run_queue_background(10).await.expect("background work is done").next_due
        == secs(0)
    {}
    let job = bench.store.redrive_job(id).await.expect("it is read").expect("it is there");
    assert_eq!((job.state, job.done, job.failed), (RedriveState::Finished, 1, 1));
    assert_eq!(bench.dead_ids(&queue).await, ["b"]);
    assert_eq!(bench.drain(&spec).await, ["a", "c"]);
}

/// Retention removes the remaining messages and does not count those deleted before.
pub async fn retention_counts_no_deleted_messages(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let options = QueueOptions {
        retention: true,
        retention_secs: 100,
        dedup_window_secs: 0,
        ..Default::default()
    };
    bench.configure(&queue, options).await;
    let partition = pushed(bench, &queue, &["a", "b", "c", "d"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    bench.take(&spec.clone().auto_ack()).await;
    bench.advance(60).await;
    bench.push(&queue, "p", &["e", "f", "g"]).await;
    delete(bench, partition, &["c", "e"]).await;
    bench.advance(60).await;
    let report = bench.housekeep().await;
    assert_eq!(report.removed, 3);
    let lost = bench.store.losses(&queue).await.expect("losses are read");
    assert_eq!(lost, Losses { expired: 2, ..Losses::default() });
    assert_eq!(lag(bench, &group).await, 2);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&bench.group("h"))).await, ["f", "g"]);
    assert_eq!(bench.drain(&spec).await, ["f", "g"]);
    delete(bench, partition, &["g"]).await;
    let cleared = bench.store.clear_queue(&queue, false).await.expect("a queue is cleared");
    assert_eq!(cleared, Some(1), "what was deleted was gone");
    bench.push(&queue, "p", &["h"]).await;
    assert_eq!(bench.drain(&spec).await, ["h"]);
}

/// Messages past their time to live are skipped and counted as expired; deleted ones are not
/// counted.
pub async fn what_was_deleted_does_not_expire(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { ttl_secs: 10, ..Default::default() }).await;
    let partition = pushed(bench, &queue, &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue);
    bench.take(&spec.clone().auto_ack()).await;
    delete(bench, partition, &["b"]).await;
    bench.advance(10).await;
    bench.push(&queue, "p", &["d", "e"]).await;
    delete(bench, partition, &["d"]).await;
    assert_eq!(bench.take(&spec).await.ids(), ["e"]);
    let lost = bench.store.losses(&queue).await.expect("losses are read");
    assert_eq!(lost, Losses { expired: 1, ..Losses::default() });
}

/// When a message is given up by hand, the messages before it are parked and counted without the
/// deleted ones.
pub async fn a_message_behind_deleted_ones_is_given_up(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let partition = pushed(bench, &queue, &["a", "b", "c", "d", "e", "f"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    bench.take(&spec.clone().auto_ack()).await;
    delete(bench, partition, &["c", "e"]).await;
    let bury = Intervention::GiveUp { error: None };
    let done = bench.store.intervene(key(partition, "d"), &group, bury).await;
    assert_eq!(done.expect("it is answered").0, InterventionOutcome::Done);
    assert_eq!(lag(bench, &group).await, 2);
    assert_eq!(bench.drain(&spec).await, ["b", "f"]);
    assert_eq!(bench.dead_ids(&queue).await, ["d"]);
}
