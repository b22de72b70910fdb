//! Everything that makes work available reports a change, with its line and the time it is due.

use wakeline_core::{QueueOptions, Subscription, Verdict};
use wakeline_store::{Seek, SeekTo, TransactCommand};

use super::{Bench, ClaimSpec, at_once, earliest_due, item, secs};

/// A push notifies every line that may be waiting for its message.
pub async fn a_push_notifies_every_line_of_its_message(bench: &Bench) {
    let queue = bench.queue("n.t");
    let changes = bench.push(&queue, "p", &["a"]).await.changes;
    let (namespace, task) = queue.derived_scope();
    for spec in [
        ClaimSpec::queue(&queue),
        ClaimSpec::partition(&queue, "p"),
        ClaimSpec::filter(namespace, None),
        ClaimSpec::filter(None, task),
        ClaimSpec::filter(None, None),
        ClaimSpec::queue(&queue).group(&bench.group("any")),
    ] {
        assert_eq!(earliest_due(&changes, &spec), secs(0), "{spec:?}");
    }
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&bench.queue("other"))), None);
    assert_eq!(earliest_due(&changes, &ClaimSpec::partition(&queue, "other")), None);
}

/// A push to several queues and partitions notifies each; a duplicate notifies none.
pub async fn a_push_notifies_every_queue_and_partition(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let items = vec![item(&one, "x", "a"), item(&one, "y", "b"), item(&two, "z", "c")];
    let changes = bench.push_items(items).await.changes;
    for (queue, partition) in [(&one, "x"), (&one, "y"), (&two, "z")] {
        assert_eq!(earliest_due(&changes, &ClaimSpec::partition(queue, partition)), secs(0));
    }
    let again = bench.push(&one, "x", &["a"]).await;
    assert_eq!(earliest_due(&again.changes, &ClaimSpec::queue(&one)), None);
}

/// The reported time includes the delay or the window.
pub async fn a_push_reports_when_its_message_is_due(bench: &Bench) {
    for (name, delay_secs, window_secs, due) in
        [("delay", 30, 0, 30), ("window", 0, 20, 20), ("both", 10, 25, 25)]
    {
        let queue = bench.queue(name);
        let options = QueueOptions { delay_secs, window_secs, ..Default::default() };
        bench.configure(&queue, options).await;
        let changes = bench.push(&queue, "p", &["a"]).await.changes;
        assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), secs(due), "{name}");
    }
}

/// The end of a lease notifies its own group, at once, if more messages follow.
pub async fn the_end_of_a_lease_reports_the_messages_behind_it(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let group = bench.group("g");
    let spec = ClaimSpec::queue(&queue).group(&group);
    let taken = bench.take(&spec.clone().batch(2)).await;
    let partial = bench.settled(&taken, "b", Verdict::Completed).await;
    assert_eq!(earliest_due(&partial, &spec), None, "the lease still holds the partition");
    let last = bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(earliest_due(&last, &spec), secs(0));
    assert_eq!(earliest_due(&last, &ClaimSpec::queue(&queue).group(&bench.group("other"))), None);
    let taken = bench.take(&spec).await;
    let nothing = bench.settled(&taken, "c", Verdict::Completed).await;
    assert_eq!(earliest_due(&nothing, &spec), None, "nothing is left");
}

/// Messages that were pushed during the lease count as behind it.
pub async fn the_end_of_a_lease_reports_messages_pushed_meanwhile(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.push(&queue, "p", &["b"]).await;
    let changes = bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), secs(0));
}

/// A failure reports when the retry is due; with verdict retry that is at once.
pub async fn a_failure_reports_when_its_retry_is_due(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { retry_delay_ms: 45_000, ..at_once() }).await;
    bench.push(&queue, "p", &["a"]).await;
    let spec = ClaimSpec::queue(&queue);
    let taken = bench.take(&spec).await;
    assert_eq!(earliest_due(&bench.settled(&taken, "a", Verdict::Failed).await, &spec), secs(45));
    bench.advance(45).await;
    let taken = bench.take(&spec).await;
    assert_eq!(earliest_due(&bench.settled(&taken, "a", Verdict::Retry).await, &spec), secs(0));
    let taken = bench.take(&spec).await;
    assert_eq!(earliest_due(&bench.settled(&taken, "a", Verdict::DeadLetter).await, &spec), None);
}

/// A release notifies at once.
pub async fn a_release_notifies_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g"));
    let taken = bench.take(&spec).await;
    let changes = bench.store.release(vec![taken.lease()]).await.expect("a lease is released");
    assert_eq!(earliest_due(&changes, &spec), secs(0));
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), None);
    let stale = bench.store.release(vec![taken.lease()]).await.expect("a release is answered");
    assert_eq!(earliest_due(&stale, &spec), None);
}

/// A transaction reports its pushes and the leases it ended; a refused one reports nothing.
pub async fn a_transaction_reports_pushes_and_settlements(bench: &Bench) {
    let (from, to) = (bench.queue("from"), bench.queue("to"));
    bench.push(&from, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&from)).await;
    let transact = |id| {
        let settles = vec![taken.item(id, Verdict::Completed)];
        let pushes = vec![item(&to, "p", "c")];
        let command = TransactCommand { pushes, settles, ..TransactCommand::default() };
        async { bench.store.transact(command).await.expect("it is answered").changes }
    };
    let refused = transact("unknown").await;
    assert_eq!(earliest_due(&refused, &ClaimSpec::queue(&to)), None);
    let committed = transact("a").await;
    assert_eq!(earliest_due(&committed, &ClaimSpec::queue(&to)), secs(0));
    assert_eq!(earliest_due(&committed, &ClaimSpec::queue(&from)), secs(0));
}

/// Moving a group back notifies it.
pub async fn a_seek_notifies_its_group(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let pushed_at = bench.now().await;
    bench.advance(5).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g"));
    bench.nothing(&spec.clone().subscribe(Subscription::New)).await;
    let seek = Seek {
        group: spec.line.group.clone(),
        queue: None,
        partition: None,
        to: SeekTo::Since(pushed_at),
    };
    let (_, changes) = bench.store.seek(seek).await.expect("a group is moved");
    assert_eq!(earliest_due(&changes, &spec), secs(0));
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), None);
}

/// Waiters of a deleted group are notified, also in queues where the group had only subscribed.
pub async fn deleting_a_group_notifies_its_waiters(bench: &Bench) {
    let (queue, to_come) = (bench.queue("q"), bench.queue("n.t"));
    bench.push(&queue, "p", &["a"]).await;
    let group = bench.group("g");
    let (namespace, _) = to_come.derived_scope();
    let new = |spec: ClaimSpec| spec.group(&group).subscribe(Subscription::New);
    let waiting = [
        new(ClaimSpec::queue(&queue)),
        new(ClaimSpec::partition(&queue, "p")),
        new(ClaimSpec::queue(&to_come)),
        new(ClaimSpec::filter(namespace, None)),
    ];
    for spec in &waiting {
        bench.nothing(spec).await;
    }
    let deleted = bench.store.delete_group(&group, Some(&queue)).await;
    let (_, changes) = deleted.expect("a group is deleted");
    let due_times =
        |changes: &[_]| waiting.each_ref().map(|spec| earliest_due(changes, spec).is_some());
    assert_eq!(due_times(&changes)[..3], [true, true, false], "{changes:?}");
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), None, "other groups are not");
    bench.nothing(&waiting[0]).await;
    let deleted = bench.store.delete_group(&group, None).await;
    let (_, changes) = deleted.expect("a group is deleted");
    assert_eq!(due_times(&changes), [true; 4], "{changes:?}");
    let (_, again) = bench.store.delete_group(&group, None).await.expect("it is answered");
    assert_eq!(again, [], "the group has no waiters any more");
}
