//! What can be read of messages and groups, and how groups are deleted.

use std::time::Duration;

use wakeline_core::{PartitionId, QueueName, QueueOptions, Subscription, TransactionId, Verdict};
use wakeline_store::{GroupDetail, MessageDetail, MessageState, SettleOutcome};

use super::{Bench, ClaimSpec, at_once};

async fn find(bench: &Bench, partition: PartitionId, id: &str) -> Option<MessageDetail> {
    let id = TransactionId::new(id).expect("a short id");
    bench.store.message(partition, &id).await.expect("a message is looked up")
}

async fn partition_of(bench: &Bench, queue: &QueueName, name: &str) -> PartitionId {
    let reply = bench.push(queue, name, &["a"]).await;
    reply.outcomes[0].partition()
}

async fn group_of(bench: &Bench, spec: &ClaimSpec) -> Vec<GroupDetail> {
    bench.store.groups(Some(&spec.line.group)).await.expect("groups are listed")
}

/// The state of a message goes from pending over processing to its end, per group.
pub async fn a_message_shows_its_state(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_limit: 1, retry_delay_ms: 5_000, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    let partition = partition_of(bench, &queue, "p").await;
    let (g, h) = (bench.group("g"), bench.group("h"));
    let spec = ClaimSpec::queue(&queue).group(&g);
    let state = async |group| {
        let detail = find(bench, partition, "a").await.expect("the message is there");
        detail.groups.into_iter().find(|(name, _)| name == group).map(|(_, state)| state)
    };
    assert_eq!(state(&g).await, None);
    let taken = bench.take(&spec).await;
    assert_eq!(state(&g).await, Some(MessageState::Processing));
    bench.advance(300).await;
    assert_eq!(state(&g).await, Some(MessageState::Pending), "the lease has expired");
    let again = bench.take(&spec).await;
    assert_eq!(bench.settle(&taken, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    bench.settled(&again, "a", Verdict::Retry).await;
    assert_eq!(state(&g).await, Some(MessageState::Pending));
    let taken = bench.take(&spec).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(state(&g).await, Some(MessageState::DeadLetter));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["a"]);
    assert_eq!(state(&h).await, Some(MessageState::Completed));
    assert_eq!(state(&g).await, Some(MessageState::DeadLetter));
}

/// A lookup by id finds the newest message of that id, complete; unknown ids are not found.
pub async fn a_message_is_found_by_partition_and_id(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { dedup_window_secs: 10, ..Default::default() }).await;
    let partition = partition_of(bench, &queue, "p").await;
    bench.push(&queue, "p", &["b"]).await;
    bench.advance(11).await;
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    let newest = taken.messages()[2].clone();
    bench.settled(&taken, "a", Verdict::Completed).await;
    let detail = find(bench, partition, "a").await.expect("the message is there");
    assert_eq!((&detail.queue, detail.partition.as_str()), (&queue, "p"));
    assert_eq!(detail.message, newest);
    bench.settled(&taken, "a", Verdict::Failed).await;
    let detail = find(bench, partition, "a").await.expect("the message is there");
    assert_eq!(detail.message.attempt, 2);
    assert_eq!(find(bench, partition, "unknown").await, None);
    assert_eq!(find(bench, PartitionId(i64::MAX >> 2), "a").await, None);
}

/// Lag counts unread, parked and unsettled messages.
pub async fn a_group_reports_its_lag(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    bench.push(&queue, "Default", &["a", "b", "c", "d"]).await;
    bench.push(&queue, "y", &["e"]).await;
    let began = bench.now().await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g"));
    assert_eq!(group_of(bench, &spec).await, []);
    let taken =
        bench.take(&ClaimSpec::partition(&queue, "Default").group(&spec.line.group).batch(3)).await;
    bench.advance(7).await;
    let detail = group_of(bench, &spec).await.remove(0);
    let expected = GroupDetail {
        queue: queue.clone(),
        group: spec.line.group.clone(),
        subscription: Subscription::All,
        created_at: began,
        partitions: 2,
        partitions_behind: 2,
        lag: 5,
        behind: Duration::from_secs(7),
        leases: 1,
        polled_at: began,
        idle_since: None,
    };
    assert_eq!(detail, expected);
    bench.settled(&taken, "b", Verdict::Completed).await;
    assert_eq!(group_of(bench, &spec).await[0].lag, 4);
    bench.settled(&taken, "a", Verdict::Failed).await;
    bench.settled(&taken, "c", Verdict::Retry).await;
    let detail = group_of(bench, &spec).await.remove(0);
    assert_eq!((detail.lag, detail.leases), (4, 0));
    bench.drain(&spec).await;
    let detail = group_of(bench, &spec).await.remove(0);
    assert_eq!((detail.lag, detail.partitions_behind, detail.leases), (0, 0, 0));
    assert_eq!(detail.behind, Duration::ZERO);
}

/// An expired lease does not count as a lease.
pub async fn an_expired_lease_is_not_counted(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g"));
    bench.take(&spec).await;
    assert_eq!(group_of(bench, &spec).await[0].leases, 1);
    bench.advance(300).await;
    let detail = group_of(bench, &spec).await.remove(0);
    assert_eq!((detail.leases, detail.lag), (0, 2));
}

/// Groups are listed by name and queue, one entry per queue.
pub async fn groups_are_listed_by_name_and_queue(bench: &Bench) {
    let (one, two) = (bench.queue("1"), bench.queue("2"));
    for queue in [&two, &one] {
        bench.push(queue, "p", &["a"]).await;
        for group in ["h", "g"] {
            bench.take(&ClaimSpec::queue(queue).group(&bench.group(group))).await;
        }
    }
    let (g, h) = (bench.group("g"), bench.group("h"));
    let all = bench.store.groups(None).await.expect("groups are listed");
    let ours: Vec<_> = (all.iter())
        .filter(|detail| [&g, &h].contains(&&detail.group))
        .map(|detail| (&detail.group, &detail.queue))
        .collect();
    assert_eq!(ours, [(&g, &one), (&g, &two), (&h, &one), (&h, &two)]);
}

/// A deleted group subscribes again, and its old leases are stale.
pub async fn a_deleted_group_begins_again(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let group = bench.group("g");
    for queue in [&one, &two] {
        bench.push(queue, "Default", &["a", "b"]).await;
    }
    let held = bench.take(&ClaimSpec::queue(&one).group(&group)).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&two).group(&group)).await, ["a", "b"]);
    let gone = bench.store.delete_group(&group, Some(&one)).await;
    assert_eq!(gone.expect("a group is deleted").0, 1);
    assert_eq!(bench.settle(&held, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    bench.nothing(&ClaimSpec::queue(&two).group(&group)).await;
    let new = ClaimSpec::queue(&one).group(&group).subscribe(Subscription::New);
    assert_eq!(bench.nothing(&new).await, None);
    let gone = bench.store.delete_group(&group, None).await;
    assert_eq!(gone.expect("a group is deleted").0, 2);
    for queue in [&one, &two] {
        assert_eq!(bench.drain(&ClaimSpec::queue(queue).group(&group)).await, ["a", "b"]);
    }
    let unknown = bench.store.delete_group(&bench.group("unknown"), None).await;
    assert_eq!(unknown.expect("it is answered").0, 0);
}

/// Deleting a group also forgets where it would begin in future queues.
pub async fn a_deleted_group_forgets_its_subscription(bench: &Bench) {
    let queue = bench.queue("n.t");
    let group = bench.group("g");
    let views = [ClaimSpec::queue(&queue), ClaimSpec::filter(Some(bench.namespace("n")), None)];
    for spec in &views {
        bench.nothing(&spec.clone().group(&group).subscribe(Subscription::New)).await;
    }
    bench.store.delete_group(&group, None).await.expect("a group is deleted");
    bench.push(&queue, "p", &["a"]).await;
    for spec in &views {
        bench.nothing(&spec.clone().group(&group).subscribe(Subscription::New)).await;
    }
}
