//! Groups that nobody polls any more hold nothing up.

use wakeline_core::{GroupName, QueueName, QueueOptions};
use wakeline_store::{GroupDetail, Page};

use super::{Ask, Bench, at_once, partition_name};

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

fn ask(bench: &Bench, queue: &QueueName, group: &str) -> Ask {
    Ask::queue(queue).group(&bench.group(group)).batch(10)
}

/// What counts against the limits of the queue and of the partition `p`.
async fn lens(bench: &Bench, queue: &QueueName) -> (u64, u64) {
    let room = bench.store.room(queue, &[partition_name("p")]).await.expect("it is read");
    let room = room.expect("the queue exists");
    (room.len, room.partition_lens[0])
}

async fn detail(bench: &Bench, group: &GroupName) -> GroupDetail {
    bench.store.groups(Some(group)).await.expect("groups are listed").remove(0)
}

/// Seconds from the last poll that was recorded to when the group was idle.
async fn idle_after(bench: &Bench, group: &GroupName) -> Option<u64> {
    let GroupDetail { polled_at, idle_since, .. } = detail(bench, group).await;
    idle_since.map(|since| polled_at.until(since).as_secs())
}

/// A group that polled once, of a misspelt name, stops counting against limits.
pub async fn an_idle_group_counts_against_no_limit(bench: &Bench) {
    let queue = queue(bench).await;
    let (works, typo) = (ask(bench, &queue, "works"), ask(bench, &queue, "typo"));
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
    let tally = bench.store.queue_tallies(Some(&queue), page).await.expect("it is counted");
    assert_eq!(tally[0].tally.pending, 1);
    let tallies = bench.store.partition_tallies(&queue, page).await.expect("it is counted");
    assert_eq!(tallies.iter().map(|one| one.tally.pending).sum::<u64>(), 1);
    let depth = bench.store.depth(&queue, None, page).await.expect("it is counted");
    assert_eq!(depth.expect("the queue exists").len, 1);
    let depth = bench.store.depth(&queue, Some(&typo.line.group), page).await;
    assert_eq!(depth.expect("it is counted").expect("the queue exists").len, 4);
}

/// What the others have settled goes; what the idle group lost by that is counted, and it goes on
/// with the oldest message that is stored.
pub async fn an_idle_group_holds_no_completed_message_back(bench: &Bench) {
    let queue = queue(bench).await;
    let (works, typo) = (ask(bench, &queue, "works"), ask(bench, &queue, "typo"));
    bench.nothing(&typo).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    assert_eq!(bench.drain(&works).await, ["a", "b"]);
    bench.advance(60).await;
    bench.push(&queue, "p", &["c"]).await;
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.advance(40).await;
    assert_eq!(bench.housekeep().await.removed, 2);
    let losses = bench.store.losses(&queue).await.expect("losses are told");
    assert_eq!((losses.expired, losses.evicted), (2, 0));
    assert_eq!(bench.drain(&typo).await, ["c"]);
    assert_eq!(idle_after(bench, &typo.line.group).await, None);
}

/// A group that is polled again before anything went continues where it was, and counts again.
pub async fn a_poll_ends_idleness_and_the_group_continues(bench: &Bench) {
    let queue = queue(bench).await;
    let (works, slow) = (ask(bench, &queue, "works"), ask(bench, &queue, "slow"));
    bench.push(&queue, "p", &["a", "b"]).await;
    assert_eq!(bench.drain(&slow).await, ["a", "b"]);
    assert_eq!(bench.drain(&works).await, ["a", "b"]);
    bench.advance(200).await;
    bench.nothing(&works).await;
    bench.advance(200).await;
    bench.push(&queue, "p", &["c", "d"]).await;
    assert_eq!(bench.drain(&works).await, ["c", "d"]);
    assert_eq!(lens(bench, &queue).await, (0, 0));
    let taken = bench.take(&ask(bench, &queue, "slow").batch(1)).await;
    assert_eq!(taken.ids(), ["c"]);
    assert_eq!(lens(bench, &queue).await, (2, 2));
    assert_eq!(idle_after(bench, &slow.line.group).await, None);
}

/// A group that has settled something may pause for four times as long as one that never did.
pub async fn a_group_that_has_worked_may_pause_longer(bench: &Bench) {
    let queue = queue(bench).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let took = bench.group("took");
    bench.take(&ask(bench, &queue, "took").batch(1)).await;
    let settled = bench.group("settled");
    let taken = bench.take(&ask(bench, &queue, "settled").batch(1)).await;
    bench.complete(&taken).await;
    let at_once = bench.group("at-once");
    bench.take(&ask(bench, &queue, "at-once").batch(1).auto_ack()).await;
    bench.advance(340).await;
    assert_eq!(idle_after(bench, &took).await, Some(100));
    assert_eq!(idle_after(bench, &settled).await, None);
    bench.advance(60).await;
    assert_eq!(idle_after(bench, &settled).await, Some(400));
    assert_eq!(idle_after(bench, &at_once).await, Some(400));
}

/// Whoever waits makes no claims, but is swept: that is polling.
pub async fn a_waiter_that_is_swept_keeps_its_group_from_being_idle(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { group_idle_secs: 40_000, ..options() }).await;
    let waits = ask(bench, &queue, "waits");
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

/// A claim that finds nothing is a poll, in whatever way the queue was named.
pub async fn an_empty_claim_keeps_its_group_from_being_idle(bench: &Bench) {
    let queue = bench.queue("n.t");
    bench.configure(&queue, options()).await;
    let group = bench.group("g");
    let filter = Ask::filter(Some(bench.namespace("n")), None);
    for ask in [Ask::queue(&queue), Ask::partition(&queue, "no such"), filter] {
        bench.nothing(&ask.group(&group)).await;
        bench.advance(60).await;
    }
    assert_eq!(idle_after(bench, &group).await, None);
    bench.advance(40).await;
    assert_eq!(idle_after(bench, &group).await, Some(100));
}

/// Idle groups give way to those that work. Where nobody works, nothing is lost.
pub async fn where_every_group_is_idle_all_of_them_count(bench: &Bench) {
    let queue = queue(bench).await;
    let (one, other) = (ask(bench, &queue, "one"), ask(bench, &queue, "other"));
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.drain(&one).await;
    bench.take(&ask(bench, &queue, "other").batch(1)).await;
    bench.advance(10_000).await;
    assert_eq!(idle_after(bench, &one.line.group).await, Some(400));
    assert_eq!(lens(bench, &queue).await, (2, 2));
    assert_eq!(bench.housekeep().await.removed, 0);
    assert_eq!(bench.drain(&other).await, ["a", "b"]);
}

/// After a time in which nobody polled, the first group that comes back takes nothing from the
/// others, be it an old one or a new one.
pub async fn the_first_group_that_comes_back_takes_nothing_from_the_others(bench: &Bench) {
    let queue = queue(bench).await;
    let (one, other) = (ask(bench, &queue, "one"), ask(bench, &queue, "other"));
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.drain(&one).await;
    bench.nothing(&Ask::partition(&queue, "none").group(&other.line.group)).await;
    for first in ["one", "new"] {
        bench.advance(10_000).await;
        bench.drain(&ask(bench, &queue, first)).await;
        assert_eq!(idle_after(bench, &other.line.group).await, None);
        assert_eq!(bench.housekeep().await.removed, 0, "{first}");
    }
    assert_eq!(bench.drain(&other).await, ["a", "b"]);
}

/// What an idle group has under a live lease stays.
pub async fn an_idle_group_keeps_what_it_has_leased(bench: &Bench) {
    let queue = queue(bench).await;
    bench.push(&queue, "p", &["a"]).await;
    let slow = bench.take(&ask(bench, &queue, "slow")).await;
    bench.drain(&ask(bench, &queue, "works")).await;
    bench.advance(200).await;
    assert_eq!(idle_after(bench, &bench.group("slow")).await, Some(100));
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.complete(&slow).await;
    assert_eq!(bench.housekeep().await.removed, 1);
}

/// With another `groupIdleSeconds` the time counts from the change on; 0 is never.
pub async fn another_time_counts_from_the_change_on(bench: &Bench) {
    let queue = queue(bench).await;
    let typo = ask(bench, &queue, "typo");
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
