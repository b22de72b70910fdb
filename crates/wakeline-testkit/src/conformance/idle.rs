//! Groups that are not polled any more do not hold anything up.

use wakeline_core::{GroupName, QueueName, QueueOptions};
use wakeline_store::{GroupDetail, Page};

use super::{Bench, ClaimSpec, at_once, partition_name};

/// A group is idle after 400 s without a poll; one that never settled anything after 100 s.
fn options() -> QueueOptions {
    QueueOptions {
        group_idle_secs: 400,
        len_max: 100,
        partition_len_max: 100,
        retention: true,
        completed_retention_secs: 10,
        dedup_window_secs: 10,
        ..at_once()
    }
}

async fn queue(bench: &Bench) -> QueueName {
    let queue = bench.queue("q");
    bench.configure(&queue, options()).await;
    queue
}

fn spec(bench: &Bench, queue: &QueueName, group: &str) -> ClaimSpec {
    ClaimSpec::queue(queue).group(&bench.group(group)).batch(10)
}

/// Returns what counts against the limits of the queue and of the partition `p`.
async fn lens(bench: &Bench, queue: &QueueName) -> (u64, u64) {
    let capacity = bench.store.capacity(queue, &[partition_name("p")]).await.expect("it is read");
    let capacity = capacity.expect("the queue exists");
    (capacity.len, capacity.partition_lens[0])
}

async fn detail(bench: &Bench, group: &GroupName) -> GroupDetail {
    bench.store.groups(Some(group)).await.expect("groups are listed").remove(0)
}

/// Seconds from the last poll that was recorded to when the group was idle.
async fn idle_after(bench: &Bench, group: &GroupName) -> Option<u64> {
    let GroupDetail { polled_at, idle_since, .. } = detail(bench, group).await;
    idle_since.map(|since| polled_at.until(since).as_secs())
}

/// A group that polled once, for example with a misspelt name, stops counting against limits.
pub async fn an_idle_group_counts_against_no_limit(bench: &Bench) {
    let queue = queue(bench).await;
    let (works, typo) = (spec(bench, &queue, "works"), spec(bench, &queue, "typo"));
    bench.nothing(&works).await;
    bench.nothing(&typo).await;
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    assert_eq!(bench.drain(&works).await, ["a", "b", "c"]);
    bench.push(&queue, "p", &["d"]).await;
    bench.advance(60).await;
    assert_eq!(lens(bench, &queue).await, (4, 4));
    assert_eq!(idle_after(bench, &typo.line.group).await, None);
    bench.advance(40).await;
    assert_eq!(idle_after(bench, &typo.line.group).await, Some(100));
    assert_eq!(lens(bench, &queue).await, (1, 1));
    let page = Page { limit: 10, offset: 0 };
    let queues = bench.store.queue_counts(Some(&queue), page).await.expect("it is counted");
    assert_eq!(queues[0].messages.pending, 1);
    let partitions = bench.store.partition_counts(&queue, page).await.expect("it is counted");
    assert_eq!(partitions.iter().map(|one| one.messages.pending).sum::<u64>(), 1);
    let depth = bench.store.depth(&queue, None, page).await.expect("it is counted");
    assert_eq!(depth.expect("the queue exists").len, 1);
    let depth = bench.store.depth(&queue, Some(&typo.line.group), page).await;
    assert_eq!(depth.expect("it is counted").expect("the queue exists").len, 4);
}

/// Retention removes what the other groups have settled. What the idle group lost is counted, and
/// it continues with the oldest message that is stored.
pub async fn an_idle_group_holds_no_completed_message_back(bench: &Bench) {
    let queue = queue(bench).await;
    let (works, typo) = (spec(bench, &queue, "works"), spec(bench, &queue, "typo"));
    bench.nothing(&typo).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    assert_eq!(bench.drain(&works).await, ["a", "b"]);
    bench.advance(60).await;
    bench.push(&queue, "p", &["c"]).await;
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.advance(40).await;
    assert_eq!(bench.housekeep().await.removed, 2);
    let losses = bench.store.losses(&queue).await.expect("losses are read");
    assert_eq!((losses.expired, losses.evicted), (2, 0));
    assert_eq!(bench.drain(&typo).await, ["c"]);
    assert_eq!(idle_after(bench, &typo.line.group).await, None);
}

/// A group that is polled again before anything was removed continues where it was, and counts
/// again.
pub async fn a_poll_ends_idleness_and_the_group_continues(bench: &Bench) {
    let queue = queue(bench).await;
    let (works, slow) = (spec(bench, &queue, "works"), spec(bench, &queue, "slow"));
    bench.push(&queue, "p", &["a", "b"]).await;
    assert_eq!(bench.drain(&slow).await, ["a", "b"]);
    assert_eq!(bench.drain(&works).await, ["a", "b"]);
    bench.advance(200).await;
    bench.nothing(&works).await;
    bench.advance(200).await;
    bench.push(&queue, "p", &["c", "d"]).await;
    assert_eq!(bench.drain(&works).await, ["c", "d"]);
    assert_eq!(lens(bench, &queue).await, (0, 0));
    let taken = bench.take(&spec(bench, &queue, "slow").batch(1)).await;
    assert_eq!(taken.ids(), ["c"]);
    assert_eq!(lens(bench, &queue).await, (2, 2));
    assert_eq!(idle_after(bench, &slow.line.group).await, None);
}

/// A group that has settled something may pause for four times as long as one that never did.
pub async fn a_group_that_has_worked_may_pause_longer(bench: &Bench) {
    let queue = queue(bench).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let took = bench.group("took");
    bench.take(&spec(bench, &queue, "took").batch(1)).await;
    let settled = bench.group("settled");
    let taken = bench.take(&spec(bench, &queue, "settled").batch(1)).await;
    bench.complete(&taken).await;
    let at_once = bench.group("at-once");
    bench.take(&spec(bench, &queue, "at-once").batch(1).auto_ack()).await;
    bench.advance(340).await;
    assert_eq!(idle_after(bench, &took).await, Some(100));
    assert_eq!(idle_after(bench, &settled).await, None);
    bench.advance(60).await;
    assert_eq!(idle_after(bench, &settled).await, Some(400));
    assert_eq!(idle_after(bench, &at_once).await, Some(400));
}

/// A waiter makes no claims, but it is swept, and that counts as polling.
pub async fn a_waiter_that_is_swept_keeps_its_group_from_being_idle(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { group_idle_secs: 40_000, ..options() }).await;
    let waits = spec(bench, &queue, "waits");
    bench.nothing(&waits).await;
    let recorded = detail(bench, &waits.line.group).await.polled_at;
    // A poll is recorded again after a tenth of the time, which is 1,000 s.
    bench.advance(500).await;
    bench.sweep(&waits).await;
    assert_eq!(detail(bench, &waits.line.group).await.polled_at, recorded);
    for _ in 0..5 {
        bench.advance(6_000).await;
        bench.sweep(&waits).await;
    }
    assert_eq!(idle_after(bench, &waits.line.group).await, None);
    let polled_at = detail(bench, &waits.line.group).await.polled_at;
    assert!(recorded.until(polled_at).as_secs() >= 30_500);
}

/// A claim that finds nothing counts as a poll, however it names the queue.
pub async fn an_empty_claim_keeps_its_group_from_being_idle(bench: &Bench) {
    let queue = bench.queue("n.t");
    bench.configure(&queue, options()).await;
    let group = bench.group("g");
    let filter = ClaimSpec::filter(Some(bench.namespace("n")), None);
    for spec in [ClaimSpec::queue(&queue), ClaimSpec::partition(&queue, "no such"), filter] {
        bench.nothing(&spec.group(&group)).await;
        bench.advance(60).await;
    }
    assert_eq!(idle_after(bench, &group).await, None);
    bench.advance(40).await;
    assert_eq!(idle_after(bench, &group).await, Some(100));
}

/// Idle groups are ignored only while another group is active. Where all groups are idle, nothing
/// is removed.
pub async fn where_every_group_is_idle_all_of_them_count(bench: &Bench) {
    let queue = queue(bench).await;
    let (one, other) = (spec(bench, &queue, "one"), spec(bench, &queue, "other"));
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.drain(&one).await;
    bench.take(&spec(bench, &queue, "other").batch(1)).await;
    bench.advance(10_000).await;
    assert_eq!(idle_after(bench, &one.line.group).await, Some(400));
    assert_eq!(lens(bench, &queue).await, (2, 2));
    assert_eq!(bench.housekeep().await.removed, 0);
    assert_eq!(bench.drain(&other).await, ["a", "b"]);
}

/// When all groups were idle, the first one that polls again costs the others nothing, whether it
/// is an old or a new group.
pub async fn the_first_group_that_comes_back_takes_nothing_from_the_others(bench: &Bench) {
    let queue = queue(bench).await;
    let (one, other) = (spec(bench, &queue, "one"), spec(bench, &queue, "other"));
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.drain(&one).await;
    bench.nothing(&ClaimSpec::partition(&queue, "none").group(&other.line.group)).await;
    for first in ["one", "new"] {
        bench.advance(10_000).await;
        bench.drain(&spec(bench, &queue, first)).await;
        assert_eq!(idle_after(bench, &other.line.group).await, None);
        assert_eq!(bench.housekeep().await.removed, 0, "{first}");
    }
    assert_eq!(bench.drain(&other).await, ["a", "b"]);
}

/// Messages that an idle group holds under a live lease stay.
pub async fn an_idle_group_keeps_what_it_has_leased(bench: &Bench) {
    let queue = queue(bench).await;
    bench.push(&queue, "p", &["a"]).await;
    let slow = bench.take(&spec(bench, &queue, "slow")).await;
    bench.drain(&spec(bench, &queue, "works")).await;
    bench.advance(200).await;
    assert_eq!(idle_after(bench, &bench.group("slow")).await, Some(100));
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.complete(&slow).await;
    assert_eq!(bench.housekeep().await.removed, 1);
}

/// After a change of `groupIdleSeconds` the new time counts from the change; 0 means never.
pub async fn another_time_counts_from_the_change_on(bench: &Bench) {
    let queue = queue(bench).await;
    let typo = spec(bench, &queue, "typo");
    bench.nothing(&typo).await;
    bench.advance(150).await;
    bench.configure(&queue, QueueOptions { retry_limit: 1, ..options() }).await;
    assert_eq!(idle_after(bench, &typo.line.group).await, Some(100));
    bench.configure(&queue, QueueOptions { group_idle_secs: 40, ..options() }).await;
    assert_eq!(idle_after(bench, &typo.line.group).await, None);
    bench.advance(10).await;
    assert_eq!(idle_after(bench, &typo.line.group).await, Some(10));
    bench.configure(&queue, QueueOptions { group_idle_secs: 0, ..options() }).await;
    bench.advance(1_000_000).await;
    assert_eq!(idle_after(bench, &typo.line.group).await, None);
}
