//! Whatever makes work available says so: for which line, and when.

use wakeline_core::{QueueOptions, Subscription, Verdict};
use wakeline_store::{Seek, SeekTo, TransactCommand};

use super::{Ask, Bench, at_once, item, secs, told};

/// A push tells everyone who may be waiting for its message.
pub async fn a_push_tells_every_view_of_its_message(bench: &Bench) {
    let queue = bench.queue("n.t");
    let changes = bench.push(&queue, "p", &["a"]).await.changes;
    let (namespace, task) = queue.derived_scope();
    for ask in [
        Ask::queue(&queue),
        Ask::partition(&queue, "p"),
        Ask::filter(namespace, None),
        Ask::filter(None, task),
        Ask::filter(None, None),
        Ask::queue(&queue).group(&bench.group("any")),
    ] {
        assert_eq!(told(&changes, &ask), secs(0), "{ask:?}");
    }
    assert_eq!(told(&changes, &Ask::queue(&bench.queue("other"))), None);
    assert_eq!(told(&changes, &Ask::partition(&queue, "other")), None);
}

/// A push to several queues and partitions tells of each; a duplicate makes nothing available.
pub async fn a_push_tells_of_all_it_touched(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let items = vec![item(&one, "x", "a"), item(&one, "y", "b"), item(&two, "z", "c")];
    let changes = bench.push_items(items).await.changes;
    for (queue, partition) in [(&one, "x"), (&one, "y"), (&two, "z")] {
        assert_eq!(told(&changes, &Ask::partition(queue, partition)), secs(0));
    }
    let again = bench.push(&one, "x", &["a"]).await;
    assert_eq!(told(&again.changes, &Ask::queue(&one)), None);
}

/// A delay or a window is in the time that is told.
pub async fn a_push_tells_when_its_message_is_due(bench: &Bench) {
    for (name, delay_secs, window_secs, due) in
        [("delay", 30, 0, 30), ("window", 0, 20, 20), ("both", 10, 25, 25)]
    {
        let queue = bench.queue(name);
        let options = QueueOptions { delay_secs, window_secs, ..Default::default() };
        bench.configure(&queue, options).await;
        let changes = bench.push(&queue, "p", &["a"]).await.changes;
        assert_eq!(told(&changes, &Ask::queue(&queue)), secs(due), "{name}");
    }
}

/// The end of a lease with more behind it tells its own group, at once.
pub async fn the_end_of_a_lease_tells_what_is_behind_it(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let group = bench.group("g");
    let ask = Ask::queue(&queue).group(&group);
    let taken = bench.take(&ask.clone().batch(2)).await;
    let partial = bench.settled(&taken, "b", Verdict::Completed).await;
    assert_eq!(told(&partial, &ask), None, "the lease still holds the partition");
    let last = bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(told(&last, &ask), secs(0));
    assert_eq!(told(&last, &Ask::queue(&queue).group(&bench.group("other"))), None);
    let taken = bench.take(&ask).await;
    let nothing = bench.settled(&taken, "c", Verdict::Completed).await;
    assert_eq!(told(&nothing, &ask), None, "nothing is left");
}

/// What was pushed during the lease counts as behind it.
pub async fn the_end_of_a_lease_tells_what_was_pushed_meanwhile(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&Ask::queue(&queue)).await;
    bench.push(&queue, "p", &["b"]).await;
    let changes = bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(told(&changes, &Ask::queue(&queue)), secs(0));
}

/// A failure tells when the retry is due; a retry is due at once.
pub async fn a_failure_tells_when_its_retry_is_due(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { retry_delay_ms: 45_000, ..at_once() }).await;
    bench.push(&queue, "p", &["a"]).await;
    let ask = Ask::queue(&queue);
    let taken = bench.take(&ask).await;
    assert_eq!(told(&bench.settled(&taken, "a", Verdict::Failed).await, &ask), secs(45));
    bench.advance(45).await;
    let taken = bench.take(&ask).await;
    assert_eq!(told(&bench.settled(&taken, "a", Verdict::Retry).await, &ask), secs(0));
    let taken = bench.take(&ask).await;
    assert_eq!(told(&bench.settled(&taken, "a", Verdict::DeadLetter).await, &ask), None);
}

/// A release tells at once.
pub async fn a_release_tells_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let ask = Ask::queue(&queue).group(&bench.group("g"));
    let taken = bench.take(&ask).await;
    let changes = bench.store.release(vec![taken.lease()]).await.expect("a lease is released");
    assert_eq!(told(&changes, &ask), secs(0));
    assert_eq!(told(&changes, &Ask::queue(&queue)), None);
    let stale = bench.store.release(vec![taken.lease()]).await.expect("a release is answered");
    assert_eq!(told(&stale, &ask), None);
}

/// A transaction tells of its pushes and of the leases it ended; a refused one of nothing.
pub async fn a_transaction_tells_of_both_sides(bench: &Bench) {
    let (from, to) = (bench.queue("from"), bench.queue("to"));
    bench.push(&from, "p", &["a", "b"]).await;
    let taken = bench.take(&Ask::queue(&from)).await;
    let transact = |id| {
        let settles = vec![taken.item(id, Verdict::Completed)];
        let pushes = vec![item(&to, "p", "c")];
        let command = TransactCommand { pushes, settles, ..TransactCommand::default() };
        async { bench.store.transact(command).await.expect("it is answered").changes }
    };
    let refused = transact("unknown").await;
    assert_eq!(told(&refused, &Ask::queue(&to)), None);
    let committed = transact("a").await;
    assert_eq!(told(&committed, &Ask::queue(&to)), secs(0));
    assert_eq!(told(&committed, &Ask::queue(&from)), secs(0));
}

/// Moving a group back tells it.
pub async fn a_seek_tells_its_group(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let pushed_at = bench.now().await;
    bench.advance(5).await;
    let ask = Ask::queue(&queue).group(&bench.group("g"));
    bench.nothing(&ask.clone().subscribe(Subscription::New)).await;
    let seek = Seek {
        group: ask.line.group.clone(),
        queue: None,
        partition: None,
        to: SeekTo::Since(pushed_at),
    };
    let (_, changes) = bench.store.seek(seek).await.expect("a group is moved");
    assert_eq!(told(&changes, &ask), secs(0));
    assert_eq!(told(&changes, &Ask::queue(&queue)), None);
}

/// Whoever waits in a group that is forgotten is told, also where it had only subscribed.
pub async fn a_deletion_tells_those_who_wait_in_its_group(bench: &Bench) {
    let (queue, to_come) = (bench.queue("q"), bench.queue("n.t"));
    bench.push(&queue, "p", &["a"]).await;
    let group = bench.group("g");
    let (namespace, _) = to_come.derived_scope();
    let new = |ask: Ask| ask.group(&group).subscribe(Subscription::New);
    let waiting = [
        new(Ask::queue(&queue)),
        new(Ask::partition(&queue, "p")),
        new(Ask::queue(&to_come)),
        new(Ask::filter(namespace, None)),
    ];
    for ask in &waiting {
        bench.nothing(ask).await;
    }
    let deleted = bench.store.delete_group(&group, Some(&queue)).await;
    let (_, changes) = deleted.expect("a group is deleted");
    let told_of = |changes: &[_]| waiting.each_ref().map(|ask| told(changes, ask).is_some());
    assert_eq!(told_of(&changes)[..3], [true, true, false], "{changes:?}");
    assert_eq!(told(&changes, &Ask::queue(&queue)), None, "other groups are not");
    bench.nothing(&waiting[0]).await;
    let deleted = bench.store.delete_group(&group, None).await;
    let (_, changes) = deleted.expect("a group is deleted");
    assert_eq!(told_of(&changes), [true; 4], "{changes:?}");
    let (_, again) = bench.store.delete_group(&group, None).await.expect("it is answered");
    assert_eq!(again, [], "nobody was in it any more");
}
