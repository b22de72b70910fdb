//! Seeking groups, and how far they are behind, partition by partition.

use std::time::Duration;

use wakeline_core::{
    GroupName, PartitionName, QueueName, QueueOptions, Subscription, Timestamp, Verdict,
};
use wakeline_store::{
    GroupPartition, GroupPartitionFilter, Seek, SeekTo, SettleOutcome, StoreError,
};

use super::{Bench, ClaimSpec};

/// Moves a group. Returns the number of cursors moved.
async fn seek(bench: &Bench, seek: Seek) -> u64 {
    bench.store.seek(seek).await.expect("a group is moved").0
}

fn everywhere(group: &GroupName, to: SeekTo) -> Seek {
    Seek { group: group.clone(), queue: None, partition: None, to }
}

fn in_queue(group: &GroupName, queue: &QueueName, to: SeekTo) -> Seek {
    Seek { queue: Some(queue.clone()), ..everywhere(group, to) }
}

fn in_partition(group: &GroupName, queue: &QueueName, partition: &str, to: SeekTo) -> Seek {
    let partition = PartitionName::new(partition).expect("a short name");
    Seek { partition: Some(partition), ..in_queue(group, queue, to) }
}

fn of(group: &GroupName) -> GroupPartitionFilter {
    GroupPartitionFilter { group: Some(group.clone()), limit: 100, ..Default::default() }
}

async fn partitions(bench: &Bench, filter: GroupPartitionFilter) -> Vec<GroupPartition> {
    bench.store.group_partitions(filter).await.expect("partitions are listed")
}

async fn lagging(bench: &Bench, secs: u64, filter: GroupPartitionFilter) -> Vec<String> {
    let behind = Duration::from_secs(secs);
    let found = bench.store.lagging(behind, filter).await.expect("partitions are listed");
    found.into_iter().map(|one| one.partition.into()).collect()
}

/// A group is moved back and forth in all its queues; its leases are stale afterwards.
pub async fn a_group_is_moved_to_a_moment(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let group = bench.group("g");
    for queue in [&one, &two] {
        bench.push(queue, "Default", &["a"]).await;
    }
    bench.advance(10).await;
    let between = bench.now().await;
    bench.push(&one, "Default", &["b", "c"]).await;
    let held = bench.take(&ClaimSpec::queue(&one).group(&group)).await;
    assert_eq!(held.ids(), ["a"]);
    bench.take(&ClaimSpec::queue(&two).group(&group)).await;
    let moved = seek(bench, everywhere(&group, SeekTo::Since(between))).await;
    assert_eq!(moved, 2);
    assert_eq!(bench.settle(&held, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    assert_eq!(bench.drain(&ClaimSpec::queue(&one).group(&group)).await, ["b", "c"]);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&two).group(&group)).await, None);
    let start = wakeline_core::Timestamp(between.0 - 10_000_000);
    seek(bench, everywhere(&group, SeekTo::Since(start))).await;
    let taken = bench.take(&ClaimSpec::queue(&one).group(&group).batch(10)).await;
    assert_eq!((taken.ids().concat(), taken.attempts()), ("abc".to_owned(), vec![1, 1, 1]));
    assert_eq!(bench.drain(&ClaimSpec::queue(&two).group(&group)).await, ["a"]);
}

/// A group is moved to the beginning, to the end, or to a time, in one queue or one partition,
/// without affecting others.
pub async fn a_group_is_moved_in_a_queue_or_a_partition(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let group = bench.group("g");
    for queue in [&one, &two] {
        bench.push(queue, "p", &["a"]).await;
        bench.push(queue, "r", &["x"]).await;
        bench.advance(5).await;
        bench.push(queue, "p", &["b"]).await;
    }
    let (in_one, in_two) =
        (ClaimSpec::queue(&one).group(&group), ClaimSpec::queue(&two).group(&group));
    let all = ["a", "b", "x"];
    let drained = async |spec: &ClaimSpec| {
        let mut ids = bench.drain(spec).await;
        ids.sort();
        ids
    };
    assert_eq!(
        (drained(&in_one).await, drained(&in_two).await),
        (all.map(String::from).to_vec(), all.map(String::from).to_vec())
    );
    // The queue has the partitions Default, p and r.
    assert_eq!(seek(bench, in_queue(&group, &one, SeekTo::Beginning)).await, 3);
    assert_eq!(drained(&in_two).await, [] as [&str; 0]);
    assert_eq!(drained(&in_one).await, all);
    assert_eq!(seek(bench, in_partition(&group, &two, "p", SeekTo::Beginning)).await, 1);
    assert_eq!(drained(&in_one).await, [] as [&str; 0]);
    assert_eq!(drained(&in_two).await, ["a", "b"]);
    seek(bench, in_queue(&group, &two, SeekTo::Beginning)).await;
    assert_eq!(seek(bench, in_partition(&group, &two, "p", SeekTo::End)).await, 1);
    assert_eq!(drained(&in_two).await, ["x"]);
    seek(bench, everywhere(&group, SeekTo::Beginning)).await;
    assert_eq!(seek(bench, everywhere(&group, SeekTo::End)).await, 6);
    bench.push(&one, "p", &["c"]).await;
    assert_eq!(drained(&in_one).await, ["c"]);
    assert_eq!(drained(&in_two).await, [] as [&str; 0]);
}

/// Seeking in an unknown partition or queue, or where the group did not begin, moves nothing and is
/// no error.
pub async fn what_is_not_there_is_not_moved(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a"]).await;
    assert_eq!(seek(bench, in_queue(&group, &queue, SeekTo::End)).await, 0);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["a"]);
    assert_eq!(seek(bench, in_partition(&group, &queue, "other", SeekTo::Beginning)).await, 0);
    assert_eq!(seek(bench, in_queue(&group, &bench.queue("other"), SeekTo::Beginning)).await, 0);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, [] as [&str; 0]);
}

/// A seek to a future time is refused, and nothing moves.
pub async fn a_future_moment_is_not_sought(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a"]).await;
    let spec = ClaimSpec::queue(&queue).group(&group);
    bench.take(&spec).await;
    let to = SeekTo::Since(Timestamp(bench.now().await.0 + 60_000_000));
    let refused =
        bench.store.seek(in_queue(&group, &queue, to)).await.expect_err("it is in the future");
    assert!(matches!(refused, StoreError::Invalid { .. }), "{refused:?}");
    assert_eq!(partitions(bench, of(&group)).await.iter().filter(|one| one.lag > 0).count(), 1);
}

/// A seek drops leases and parked messages: they come again only if they are after the new
/// position.
pub async fn a_seek_lets_go_of_leases_and_parked_messages(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_delay_ms: 60_000, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    let group = bench.group("g");
    let spec = ClaimSpec::queue(&queue).group(&group);
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let held = bench.take(&spec.clone().batch(2)).await;
    bench.settled(&held, "a", Verdict::Failed).await;
    assert_eq!(seek(bench, in_partition(&group, &queue, "p", SeekTo::End)).await, 1);
    assert_eq!(bench.settle(&held, "b", Verdict::Completed).await, SettleOutcome::StaleLease);
    bench.advance(120).await;
    assert_eq!(bench.nothing(&spec).await, None);
    assert_eq!(partitions(bench, of(&group)).await.iter().map(|one| one.lag).sum::<u64>(), 0);
    seek(bench, in_partition(&group, &queue, "p", SeekTo::Beginning)).await;
    let again = bench.take(&spec.batch(10)).await;
    assert_eq!((again.ids().concat(), again.attempts()), ("abc".to_owned(), vec![1, 1, 1]));
}

/// Moving a group in a whole queue changes its subscription; moving it in a partition does not.
pub async fn a_seek_of_a_queue_changes_the_subscription(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a"]).await;
    bench.nothing(&ClaimSpec::queue(&queue).group(&group).subscribe(Subscription::New)).await;
    let subscription = async || {
        let found = bench.store.groups(Some(&group)).await.expect("groups are listed");
        found[0].subscription
    };
    seek(bench, in_partition(&group, &queue, "p", SeekTo::Beginning)).await;
    assert_eq!(subscription().await, Subscription::New);
    seek(bench, in_queue(&group, &queue, SeekTo::Beginning)).await;
    assert_eq!(subscription().await, Subscription::All);
    bench.advance(7).await;
    let now = bench.now().await;
    seek(bench, in_queue(&group, &queue, SeekTo::End)).await;
    assert_eq!(subscription().await, Subscription::From(now));
    let earlier = Timestamp(now.0 - 3_000_000);
    seek(bench, in_queue(&group, &queue, SeekTo::Since(earlier))).await;
    assert_eq!(subscription().await, Subscription::From(earlier));
}

/// Lag counts unread, parked and leased messages; its age is that of the oldest of these.
pub async fn a_group_reports_how_far_it_is_behind(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_delay_ms: 60_000, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    let group = bench.group("g");
    let spec = ClaimSpec::partition(&queue, "p").group(&group);
    bench.push(&queue, "p", &["a", "b"]).await;
    let pushed_at = bench.now().await;
    bench.advance(10).await;
    bench.push(&queue, "p", &["c"]).await;
    let held = bench.take(&spec.clone().batch(2)).await;
    let of_p = async || {
        let mut found = partitions(bench, of(&group)).await;
        found.retain(|one| one.partition.as_str() == "p");
        found.remove(0)
    };
    let seen = of_p().await;
    assert_eq!((seen.end, seen.lag, seen.oldest_at), (3, 3, Some(pushed_at)));
    assert_eq!(seen.behind, Duration::from_secs(10));
    let lease_end = Timestamp(bench.now().await.0 + 300_000_000);
    assert_eq!(seen.leased_until, Some(lease_end));
    bench.settled(&held, "a", Verdict::Completed).await;
    bench.settled(&held, "b", Verdict::Failed).await;
    let seen = of_p().await;
    assert_eq!((seen.lag, seen.oldest_at, seen.leased_until), (2, Some(pushed_at), None));
    bench.advance(60).await;
    assert_eq!(bench.drain(&spec).await, ["b", "c"]);
    let seen = of_p().await;
    assert_eq!((seen.end, seen.lag, seen.oldest_at, seen.behind), (3, 0, None, Duration::ZERO));
}

/// Partitions of groups are listed by name, in pages.
pub async fn partitions_of_groups_are_listed_in_pages(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let group = bench.group("g");
    for queue in [&two, &one] {
        bench.push(queue, "r", &["a"]).await;
        bench.push(queue, "p", &["b"]).await;
        bench.drain(&ClaimSpec::queue(queue).group(&group)).await;
    }
    let expected: Vec<(&QueueName, &str)> = [&one, &two]
        .into_iter()
        .flat_map(|queue| ["Default", "p", "r"].map(|partition| (queue, partition)))
        .collect();
    let mut seen = Vec::new();
    for offset in [0, 4, 8] {
        let page = GroupPartitionFilter { limit: 4, offset, ..of(&group) };
        seen.extend(partitions(bench, page).await);
    }
    let names: Vec<_> = seen.iter().map(|one| (&one.queue, one.partition.as_str())).collect();
    assert_eq!(names, expected);
    let of_two = GroupPartitionFilter { queue: Some(two.clone()), ..of(&group) };
    assert_eq!(partitions(bench, of_two).await.len(), 3);
}

/// Partitions that lag by at least a duration are listed, the oldest first.
pub async fn lagging_partitions_are_found_by_age(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    let spec = ClaimSpec::queue(&queue).group(&group);
    bench.push(&queue, "done", &["a"]).await;
    assert_eq!(bench.drain(&spec).await, ["a"]);
    for partition in ["oldest", "older", "new"] {
        bench.push(&queue, partition, &["a"]).await;
        bench.advance(100).await;
    }
    assert_eq!(lagging(bench, 0, of(&group)).await, ["oldest", "older", "new"]);
    assert_eq!(lagging(bench, 200, of(&group)).await, ["oldest", "older"]);
    assert_eq!(lagging(bench, 201, of(&group)).await, ["oldest"]);
    assert_eq!(lagging(bench, 301, of(&group)).await, [] as [&str; 0]);
    let second = GroupPartitionFilter { limit: 1, offset: 1, ..of(&group) };
    assert_eq!(lagging(bench, 0, second).await, ["older"]);
    // A leased partition is behind as well.
    assert_eq!(bench.take(&spec).await.ids(), ["a"]);
    assert_eq!(lagging(bench, 201, of(&group)).await, ["oldest"]);
}
