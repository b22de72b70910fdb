//! Moving groups, and how far they are, partition by partition.

use std::time::Duration;

use wakeline_core::{
    GroupName, PartitionName, QueueName, QueueOptions, Subscription, Timestamp, Verdict,
};
use wakeline_store::{
    GroupPartition, GroupPartitionFilter, Seek, SeekTo, SettleOutcome, StoreError,
};

use super::{Ask, Bench};

/// Moves a group in all queues or in one, in all partitions or in one. Returns the cursors moved.
async fn seek(
    bench: &Bench,
    (group, queue, partition): (&GroupName, Option<&QueueName>, Option<&str>),
    to: SeekTo,
) -> u64 {
    let partition = partition.map(|name| PartitionName::new(name).expect("a short name"));
    let seek = Seek { group: group.clone(), queue: queue.cloned(), partition, to };
    bench.store.seek(seek).await.expect("a group is moved").0
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

/// A group is moved, forth and back, in all its queues; what it held is lost to it.
pub async fn a_group_is_moved_to_a_moment(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let group = bench.group("g");
    for queue in [&one, &two] {
        bench.push(queue, "Default", &["a"]).await;
    }
    bench.advance(10).await;
    let between = bench.now().await;
    bench.push(&one, "Default", &["b", "c"]).await;
    let held = bench.take(&Ask::queue(&one).group(&group)).await;
    assert_eq!(held.ids(), ["a"]);
    bench.take(&Ask::queue(&two).group(&group)).await;
    let moved = seek(bench, (&group, None, None), SeekTo::Since(between)).await;
    assert_eq!(moved, 2);
    assert_eq!(bench.settle(&held, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    assert_eq!(bench.drain(&Ask::queue(&one).group(&group)).await, ["b", "c"]);
    assert_eq!(bench.nothing(&Ask::queue(&two).group(&group)).await, None);
    let start = wakeline_core::Timestamp(between.0 - 10_000_000);
    seek(bench, (&group, None, None), SeekTo::Since(start)).await;
    let taken = bench.take(&Ask::queue(&one).group(&group).batch(10)).await;
    assert_eq!((taken.ids().concat(), taken.attempts()), ("abc".to_owned(), vec![1, 1, 1]));
    assert_eq!(bench.drain(&Ask::queue(&two).group(&group)).await, ["a"]);
}

/// To its first message, to its end, or to what was pushed since then; in one queue, and in one
/// partition of it, without touching others.
pub async fn a_group_is_moved_in_a_queue_or_a_partition(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let group = bench.group("g");
    for queue in [&one, &two] {
        bench.push(queue, "p", &["a"]).await;
        bench.push(queue, "r", &["x"]).await;
        bench.advance(5).await;
        bench.push(queue, "p", &["b"]).await;
    }
    let (in_one, in_two) = (Ask::queue(&one).group(&group), Ask::queue(&two).group(&group));
    let all = ["a", "b", "x"];
    let drained = async |ask: &Ask| {
        let mut ids = bench.drain(ask).await;
        ids.sort();
        ids
    };
    assert_eq!(
        (drained(&in_one).await, drained(&in_two).await),
        (all.map(String::from).to_vec(), all.map(String::from).to_vec())
    );
    // Default, p and r.
    assert_eq!(seek(bench, (&group, Some(&one), None), SeekTo::Beginning).await, 3);
    assert_eq!(drained(&in_two).await, [] as [&str; 0]);
    assert_eq!(drained(&in_one).await, all);
    assert_eq!(seek(bench, (&group, Some(&two), Some("p")), SeekTo::Beginning).await, 1);
    assert_eq!(drained(&in_one).await, [] as [&str; 0]);
    assert_eq!(drained(&in_two).await, ["a", "b"]);
    seek(bench, (&group, Some(&two), None), SeekTo::Beginning).await;
    assert_eq!(seek(bench, (&group, Some(&two), Some("p")), SeekTo::End).await, 1);
    assert_eq!(drained(&in_two).await, ["x"]);
    seek(bench, (&group, None, None), SeekTo::Beginning).await;
    assert_eq!(seek(bench, (&group, None, None), SeekTo::End).await, 6);
    bench.push(&one, "p", &["c"]).await;
    assert_eq!(drained(&in_one).await, ["c"]);
    assert_eq!(drained(&in_two).await, [] as [&str; 0]);
}

/// A partition or queue that is not there, or a group that did not begin there, is no error.
pub async fn what_is_not_there_is_not_moved(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a"]).await;
    assert_eq!(seek(bench, (&group, Some(&queue), None), SeekTo::End).await, 0);
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&group)).await, ["a"]);
    assert_eq!(seek(bench, (&group, Some(&queue), Some("other")), SeekTo::Beginning).await, 0);
    assert_eq!(
        seek(bench, (&group, Some(&bench.queue("other")), None), SeekTo::Beginning).await,
        0
    );
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&group)).await, [] as [&str; 0]);
}

/// A moment that is yet to come is refused, and nothing moves.
pub async fn a_future_moment_is_not_sought(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a"]).await;
    let ask = Ask::queue(&queue).group(&group);
    bench.take(&ask).await;
    let to = SeekTo::Since(Timestamp(bench.now().await.0 + 60_000_000));
    let seek = Seek { group: group.clone(), queue: Some(queue.clone()), partition: None, to };
    let refused = bench.store.seek(seek).await.expect_err("it is to come");
    assert!(matches!(refused, StoreError::Invalid { .. }), "{refused:?}");
    assert_eq!(partitions(bench, of(&group)).await.iter().filter(|one| one.lag > 0).count(), 1);
}

/// What is under a lease or parked is let go: it comes again only if the new place says so.
pub async fn a_seek_lets_go_of_leases_and_parked_messages(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_delay_ms: 60_000, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    let group = bench.group("g");
    let ask = Ask::queue(&queue).group(&group);
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let held = bench.take(&ask.clone().batch(2)).await;
    bench.settled(&held, "a", Verdict::Failed).await;
    assert_eq!(seek(bench, (&group, Some(&queue), Some("p")), SeekTo::End).await, 1);
    assert_eq!(bench.settle(&held, "b", Verdict::Completed).await, SettleOutcome::StaleLease);
    bench.advance(120).await;
    assert_eq!(bench.nothing(&ask).await, None);
    assert_eq!(partitions(bench, of(&group)).await.iter().map(|one| one.lag).sum::<u64>(), 0);
    seek(bench, (&group, Some(&queue), Some("p")), SeekTo::Beginning).await;
    let again = bench.take(&ask.batch(10)).await;
    assert_eq!((again.ids().concat(), again.attempts()), ("abc".to_owned(), vec![1, 1, 1]));
}

/// Moving a whole queue changes the subscription; moving a partition does not.
pub async fn a_seek_of_a_queue_changes_the_subscription(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a"]).await;
    bench.nothing(&Ask::queue(&queue).group(&group).subscribe(Subscription::New)).await;
    let subscription = async || {
        let found = bench.store.groups(Some(&group)).await.expect("groups are listed");
        found[0].subscription
    };
    seek(bench, (&group, Some(&queue), Some("p")), SeekTo::Beginning).await;
    assert_eq!(subscription().await, Subscription::New);
    seek(bench, (&group, Some(&queue), None), SeekTo::Beginning).await;
    assert_eq!(subscription().await, Subscription::All);
    bench.advance(7).await;
    let now = bench.now().await;
    seek(bench, (&group, Some(&queue), None), SeekTo::End).await;
    assert_eq!(subscription().await, Subscription::From(now));
    let earlier = Timestamp(now.0 - 3_000_000);
    seek(bench, (&group, Some(&queue), None), SeekTo::Since(earlier)).await;
    assert_eq!(subscription().await, Subscription::From(earlier));
}

/// Lag counts what is unread, parked and under a lease; its age is that of the oldest of these.
pub async fn a_group_tells_how_far_it_is_behind(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_delay_ms: 60_000, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    let group = bench.group("g");
    let ask = Ask::partition(&queue, "p").group(&group);
    bench.push(&queue, "p", &["a", "b"]).await;
    let pushed_at = bench.now().await;
    bench.advance(10).await;
    bench.push(&queue, "p", &["c"]).await;
    let held = bench.take(&ask.clone().batch(2)).await;
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
    assert_eq!(bench.drain(&ask).await, ["b", "c"]);
    let seen = of_p().await;
    assert_eq!((seen.end, seen.lag, seen.oldest_at, seen.behind), (3, 0, None, Duration::ZERO));
}

/// They are listed in order of their names, in pages.
pub async fn partitions_of_groups_are_listed_in_pages(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let group = bench.group("g");
    for queue in [&two, &one] {
        bench.push(queue, "r", &["a"]).await;
        bench.push(queue, "p", &["b"]).await;
        bench.drain(&Ask::queue(queue).group(&group)).await;
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

/// Those that are behind by so long, the oldest first.
pub async fn lagging_partitions_are_found_by_age(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    let ask = Ask::queue(&queue).group(&group);
    bench.push(&queue, "done", &["a"]).await;
    assert_eq!(bench.drain(&ask).await, ["a"]);
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
    // One that is leased is behind as well.
    assert_eq!(bench.take(&ask).await.ids(), ["a"]);
    assert_eq!(lagging(bench, 201, of(&group)).await, ["oldest"]);
}
