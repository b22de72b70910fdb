//! Subscriptions: what each group sees, and from which message on.

use wakeline_core::{GroupName, Subscription, Timestamp};

use super::{Bench, ClaimSpec};

/// Every group gets every message once.
pub async fn two_groups_each_see_a_message_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    for spec in [
        ClaimSpec::queue(&queue),
        ClaimSpec::queue(&queue).group(&bench.group("g")),
        ClaimSpec::queue(&queue).group(&bench.group("h")),
    ] {
        assert_eq!(bench.drain(&spec).await, ["a", "b"]);
        bench.nothing(&spec).await;
    }
}

/// What one group holds, fails or gives up does not affect another.
pub async fn groups_do_not_disturb_each_other(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let (g, h) = (bench.group("g"), bench.group("h"));
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&g).batch(2)).await;
    bench.settled(&taken, "a", wakeline_core::Verdict::DeadLetter).await;
    let other = bench.take(&ClaimSpec::queue(&queue).group(&h).batch(2)).await;
    assert_eq!((other.ids(), other.attempts()), (taken.ids(), vec![1, 1]));
}

/// A subscription to `all` begins at the oldest message.
pub async fn all_begins_at_the_oldest_message(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.advance(50).await;
    bench.push(&queue, "p", &["c"]).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g")).subscribe(Subscription::All);
    assert_eq!(bench.drain(&spec).await, ["a", "b", "c"]);
}

/// A subscription to `new` begins after the messages pushed before the first poll, in every
/// partition.
pub async fn new_begins_after_the_first_poll(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "x", &["old"]).await;
    bench.push(&queue, "y", &["old"]).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g")).subscribe(Subscription::New);
    bench.nothing(&spec).await;
    bench.push(&queue, "x", &["a"]).await;
    bench.push(&queue, "later", &["b"]).await;
    let mut ids = bench.drain(&spec).await;
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
}

/// The first poll counts even if the queue does not exist yet.
pub async fn new_counts_from_a_poll_before_the_queue_exists(bench: &Bench) {
    let queue = bench.queue("q");
    let by_queue = ClaimSpec::queue(&queue).group(&bench.group("g")).subscribe(Subscription::New);
    let by_partition =
        ClaimSpec::partition(&queue, "p").group(&bench.group("h")).subscribe(Subscription::New);
    bench.nothing(&by_queue).await;
    bench.nothing(&by_partition).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(5).await;
    assert_eq!(bench.drain(&by_queue).await, ["a"]);
    assert_eq!(bench.drain(&by_partition).await, ["a"]);
    let late = ClaimSpec::queue(&queue).group(&bench.group("late")).subscribe(Subscription::New);
    bench.nothing(&late).await;
}

/// The first poll counts even if the partition does not exist yet.
pub async fn new_counts_from_a_poll_before_the_partition_exists(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "other", &["old"]).await;
    let spec =
        ClaimSpec::partition(&queue, "p").group(&bench.group("g")).subscribe(Subscription::New);
    bench.nothing(&spec).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.push(&queue, "other", &["b"]).await;
    assert_eq!(bench.drain(&spec).await, ["a"]);
    // The poll of one partition began the group in the whole queue.
    let whole = ClaimSpec::queue(&queue).group(&bench.group("g"));
    assert_eq!(bench.drain(&whole).await, ["b"]);
}

/// A poll by namespace or task counts for queues that are created later.
pub async fn a_filter_subscribes_to_queues_that_come_later(bench: &Bench) {
    let namespace = Some(bench.namespace("n"));
    let task = bench.task("t");
    let existing = bench.queue(&format!("n.{task}"));
    bench.push(&existing, "p", &["old"]).await;
    let views = [
        ClaimSpec::filter(namespace.clone(), None).group(&bench.group("by namespace")),
        ClaimSpec::filter(None, Some(task.clone())).group(&bench.group("by task")),
        ClaimSpec::filter(namespace, Some(task.clone())).group(&bench.group("by both")),
    ];
    let views = views.map(|spec| spec.subscribe(Subscription::New));
    for spec in &views {
        bench.nothing(spec).await;
    }
    bench.push(&existing, "p", &["existing"]).await;
    bench.push(&bench.queue("n.other"), "p", &["of the namespace"]).await;
    bench.push(&bench.queue(&format!("m.{task}")), "p", &["of the task"]).await;
    bench.advance(5).await;
    let expected =
        [vec!["existing", "of the namespace"], vec!["existing", "of the task"], vec!["existing"]];
    for (spec, expected) in views.iter().zip(expected) {
        let mut ids = bench.drain(spec).await;
        ids.sort();
        assert_eq!(ids, expected);
    }
}

/// A subscription `from` a time begins with the first message at or after that time.
pub async fn from_begins_at_its_moment_inclusively(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(10).await;
    bench.push(&queue, "p", &["b", "c"]).await;
    bench.advance(10).await;
    bench.push(&queue, "p", &["d"]).await;
    let now = bench.now().await;
    for (micros_ago, expected) in [
        (20_000_000, vec!["a", "b", "c", "d"]),
        (19_999_999, vec!["b", "c", "d"]),
        (10_000_000, vec!["b", "c", "d"]),
        (9_999_999, vec!["d"]),
        (0, vec!["d"]),
    ] {
        let from = Subscription::From(Timestamp(now.0 - micros_ago));
        let group = bench.group(&micros_ago.to_string());
        let spec = ClaimSpec::queue(&queue).group(&group).subscribe(from);
        assert_eq!(bench.drain(&spec).await, expected, "{micros_ago} µs ago");
    }
}

/// A subscription `from` a time also counts from a poll before the queue exists.
pub async fn from_counts_from_a_poll_before_the_queue_exists(bench: &Bench) {
    let queue = bench.queue("q");
    let now = bench.now().await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g")).subscribe(Subscription::From(now));
    bench.nothing(&spec).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(5).await;
    let later = ClaimSpec::queue(&queue).group(&bench.group("g")).subscribe(Subscription::New);
    assert_eq!(bench.drain(&later).await, ["a"]);
}

/// A time in the future is refused with the name of its field, and changes nothing.
pub async fn from_a_future_moment_is_refused(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let future = Timestamp(bench.now().await.0 + 1_000_000);
    let group = bench.group("g");
    let spec = ClaimSpec::queue(&queue).group(&group).subscribe(Subscription::From(future));
    let outcome = bench.claim(vec![spec.line_claim(1)]).await.remove(0);
    let refused = outcome.refused.expect("it is refused");
    assert_eq!((refused.field, &outcome.results[..]), ("subscriptionFrom", &[None][..]));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["a"]);
}

/// Once a group has begun, another subscription changes nothing.
pub async fn later_subscriptions_change_nothing(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g"));
    let taken = bench.take(&spec.clone().subscribe(Subscription::All)).await;
    bench.complete(&taken).await;
    assert_eq!(bench.drain(&spec.clone().subscribe(Subscription::New)).await, ["b"]);
    let new = ClaimSpec::queue(&queue).group(&bench.group("h"));
    bench.nothing(&new.clone().subscribe(Subscription::New)).await;
    bench.nothing(&new.subscribe(Subscription::All)).await;
}

/// Consumers without a group name always read everything.
pub async fn queue_mode_is_always_all(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let spec =
        ClaimSpec::queue(&queue).group(&GroupName::queue_mode()).subscribe(Subscription::New);
    assert_eq!(bench.drain(&spec).await, ["a"]);
}

/// Partitions that appear later are read from their first message.
pub async fn a_partition_that_comes_later_is_read_from_its_beginning(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "first", &["a"]).await;
    let group = bench.group("g");
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["a"]);
    bench.push(&queue, "later", &["b", "c"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["b", "c"]);
}
