//! Redrive: dead letters are delivered again by jobs that any node can continue.

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    DeadLetterId, GroupName, MessageOrder, QueueName, QueueOptions, RedriveId, Verdict,
};
use wakeline_store::{
    DeadLetterFilter, PushItem, QueueBackgroundReport, Redrive, RedriveJob, RedriveState,
};

use super::{Bench, ClaimSpec, earliest_due, item, secs};

/// Makes dead letters of these messages, one after another, one second apart.
async fn bury(bench: &Bench, queue: &QueueName, group: &GroupName, ids: &[&str]) {
    for id in ids {
        bench.push(queue, "p", &[id]).await;
        let taken = bench.take(&ClaimSpec::queue(queue).group(group)).await;
        bench.settled(&taken, id, Verdict::DeadLetter).await;
        bench.advance(1).await;
    }
}

fn all_of(queue: &QueueName) -> Redrive {
    let filter = DeadLetterFilter { queue: Some(queue.clone()), ..Default::default() };
    Redrive { id: RedriveId::generate(), filter, to_queue: None, rate: None }
}

async fn start(bench: &Bench, redrive: &Redrive) -> RedriveJob {
    let (job, changes) =
        bench.store.start_redrive(redrive.clone()).await.expect("a job is started");
    let line = wakeline_core::QueueLine::background();
    assert!(
        changes.iter().any(|change| change.concerns(&line)),
        "the maintenance line is notified: {changes:?}"
    );
    job
}

async fn background(bench: &Bench, rows: u32) -> QueueBackgroundReport {
    bench.store.run_queue_background(rows).await.expect("background work is done")
}

async fn job(bench: &Bench, id: RedriveId) -> RedriveJob {
    bench.store.redrive_job(id).await.expect("a job is read").expect("it is there")
}

/// Runs a job to its end.
async fn redriven(bench: &Bench, redrive: &Redrive) -> RedriveJob {
    start(bench, redrive).await;
    while background(bench, 2).await.next_due == secs(0) {}
    job(bench, redrive.id).await
}

async fn background_due(bench: &Bench) -> Option<std::time::Duration> {
    let lines = vec![wakeline_core::QueueLine::background()];
    bench.store.sweep(lines).await.expect("the line is swept")[0]
}

/// A redriven message comes before later ones, with a new count of attempts, and to its own group
/// only.
pub async fn a_redriven_message_returns_to_its_group(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bury(bench, &queue, &g, &["a", "b"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["a", "b"]);
    bench.push(&queue, "p", &["c"]).await;
    let done = redriven(bench, &all_of(&queue)).await;
    assert_eq!((done.state, done.total), (RedriveState::Finished, 2));
    assert_eq!((done.done, done.failed), (2, 0));
    assert!(bench.dead_ids(&queue).await.is_empty());
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&g).batch(5)).await;
    assert_eq!(
        (taken.ids(), taken.attempts()),
        (vec!["a".into(), "b".into(), "c".into()], vec![1; 3])
    );
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["c"]);
}

/// A redrive notifies the waiters of its group and no others.
pub async fn a_redrive_notifies_its_group(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a"]).await;
    start(bench, &all_of(&queue)).await;
    let changes = background(bench, 10).await.changes;
    assert_eq!(earliest_due(&changes, &ClaimSpec::partition(&queue, "p").group(&group)), secs(0));
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue).group(&bench.group("h"))), None);
}

/// A live lease is not disturbed; the redriven message comes after it, also in relaxed order.
pub async fn a_redriven_message_waits_for_the_lease(bench: &Bench) {
    for ordering in [MessageOrder::Strict, MessageOrder::Relaxed] {
        let queue = bench.queue(&format!("{ordering:?}"));
        let group = bench.group("g");
        bench.configure(&queue, QueueOptions { ordering, ..Default::default() }).await;
        bury(bench, &queue, &group, &["a"]).await;
        bench.push(&queue, "p", &["b", "c"]).await;
        let spec = ClaimSpec::queue(&queue).group(&group);
        let held = bench.take(&spec).await;
        assert_eq!(held.ids(), ["b"]);
        redriven(bench, &all_of(&queue)).await;
        assert_eq!(bench.nothing(&spec).await, secs(300));
        bench.complete(&held).await;
        let taken = bench.take(&spec.clone().batch(5)).await;
        assert_eq!((taken.ids(), taken.attempts()), (vec!["a".into(), "c".into()], vec![1, 1]));
        bench.complete(&taken).await;
        bench.nothing(&spec).await;
    }
}

/// A group that was moved back to before the message gets it once.
pub async fn what_is_ahead_of_its_group_is_not_doubled(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b"]).await;
    let to = wakeline_store::SeekTo::Beginning;
    let seek = wakeline_store::Seek { group: group.clone(), queue: None, partition: None, to };
    bench.store.seek(seek).await.expect("a group is moved");
    assert_eq!(redriven(bench, &all_of(&queue)).await.done, 2);
    let spec = ClaimSpec::queue(&queue).group(&group);
    let taken = bench.take(&spec).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.push(&queue, "p", &["c"]).await;
    assert_eq!(bench.drain(&spec).await, ["b", "c"]);
    assert_eq!(redriven(bench, &all_of(&queue)).await.done, 1);
    assert_eq!(bench.drain(&spec).await, ["a"]);
}

/// A redrive works in pieces, oldest first, at its rate by the store's clock.
pub async fn a_redrive_keeps_its_rate(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b", "c"]).await;
    assert_eq!(background_due(bench).await, None);
    let redrive = Redrive { rate: Some(10), ..all_of(&queue) };
    start(bench, &redrive).await;
    assert_eq!(background_due(bench).await, secs(0));
    let tenth = Some(std::time::Duration::from_millis(100));
    for left in [["b", "c"].as_slice(), &["c"], &[]] {
        let piece = background(bench, 100).await;
        let mut dead = bench.dead_ids(&queue).await;
        dead.reverse();
        assert_eq!(dead, left);
        let running = !left.is_empty();
        assert_eq!(piece.next_due, tenth.filter(|_| running));
        assert_eq!(background_due(bench).await, tenth.filter(|_| running));
        if running {
            assert_eq!(background(bench, 100).await.rows, 0, "it is not due yet");
            bench.advance_ms(100).await;
        }
    }
    assert_eq!(job(bench, redrive.id).await.state, RedriveState::Finished);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["a", "b", "c"]);
}

/// Messages that are given up after the start are left for another job, so that no message is
/// redriven twice.
pub async fn a_redrive_ends_where_it_began(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b"]).await;
    let redrive = all_of(&queue);
    assert_eq!(start(bench, &redrive).await.total, 2);
    assert_eq!(background(bench, 1).await.rows, 1);
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&group)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    let again = start(bench, &redrive).await;
    assert_eq!((again.total, again.done), (2, 1));
    while background(bench, 1).await.next_due == secs(0) {}
    let ended = job(bench, redrive.id).await;
    assert_eq!((ended.state, ended.done), (RedriveState::Finished, 2));
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["b"]);
}

/// Cancelling keeps what was redriven and leaves the rest in the dead letters.
pub async fn a_cancelled_redrive_goes_no_further(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b"]).await;
    let redrive = all_of(&queue);
    start(bench, &redrive).await;
    background(bench, 1).await;
    let cancelled = bench.store.cancel_redrive(redrive.id).await.expect("a job is cancelled");
    let cancelled = cancelled.expect("it is there");
    assert_eq!((cancelled.state, cancelled.done), (RedriveState::Cancelled, 1));
    assert_eq!((background_due(bench).await, background(bench, 1).await.rows), (None, 0));
    assert_eq!(bench.dead_ids(&queue).await, ["b"]);
    let unknown = RedriveId::generate();
    assert_eq!(bench.store.cancel_redrive(unknown).await.expect("it is answered"), None);
    assert_eq!(bench.store.redrive_job(unknown).await.expect("it is answered"), None);
}

/// A dead letter of a deleted group cannot return to it; it can be pushed to a queue instead.
pub async fn dead_letters_of_a_forgotten_group_stay(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bury(bench, &queue, &g, &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&h)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.store.delete_group(&g, None).await.expect("a group is deleted");
    let done = redriven(bench, &all_of(&queue)).await;
    assert_eq!((done.state, done.total), (RedriveState::Finished, 2));
    assert_eq!((done.done, done.failed), (1, 1));
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["a"]);
    let moved = Redrive { to_queue: Some(queue.clone()), ..all_of(&queue) };
    assert_eq!(redriven(bench, &moved).await.done, 1);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await.len(), 1);
}

/// A dead letter is moved complete, to a partition of the same name, as a new message.
pub async fn dead_letters_are_moved_to_another_queue(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("other"));
    let group = bench.group("g");
    let sent = PushItem {
        payload: Bytes::from_static(b"{ \"x\":  1 }"),
        producer: Some("me".to_owned()),
        trace_id: Some(Uuid::new_v4()),
        ..item(&queue, "p", "a")
    };
    bench.push_items(vec![sent.clone()]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&group)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    let moved = Redrive { to_queue: Some(other.clone()), ..all_of(&queue) };
    start(bench, &moved).await;
    let piece = background(bench, 10).await;
    assert_eq!(earliest_due(&piece.changes, &ClaimSpec::queue(&other)), secs(0));
    assert!(bench.dead_ids(&queue).await.is_empty());
    bench.nothing(&ClaimSpec::queue(&queue).group(&group)).await;
    let taken = bench.take(&ClaimSpec::partition(&other, "p")).await;
    let message = taken.messages()[0];
    assert_eq!((&message.payload, &message.producer), (&sent.payload, &sent.producer));
    assert_eq!((message.trace_id, message.attempt), (sent.trace_id, 1));
    assert_ne!(message.id, sent.id);
}

/// A message that two groups gave up is moved twice, also back into its own queue; deduplication
/// drops neither.
pub async fn what_is_moved_is_not_taken_for_a_repetition(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    for group in ["g", "h"] {
        let taken = bench.take(&ClaimSpec::queue(&queue).group(&bench.group(group))).await;
        bench.settled(&taken, "a", Verdict::DeadLetter).await;
    }
    let moved = Redrive { to_queue: Some(queue.clone()), ..all_of(&queue) };
    assert_eq!(redriven(bench, &moved).await.done, 2);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&bench.group("g"))).await.len(), 2);
}

/// Only dead letters that match the filter are redriven.
pub async fn a_redrive_keeps_to_its_filter(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bury(bench, &queue, &g, &["a", "b"]).await;
    for id in ["a", "b"] {
        let taken = bench.take(&ClaimSpec::queue(&queue).group(&h)).await;
        bench.settled(&taken, id, Verdict::DeadLetter).await;
    }
    let number = bench.dead_letters(&queue).await[0].number;
    let one = DeadLetterFilter { number: Some(number), ..Default::default() };
    assert_eq!(redriven(bench, &Redrive { filter: one, ..all_of(&queue) }).await.done, 1);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["b"]);
    let of_g = DeadLetterFilter { group: Some(g.clone()), ..Default::default() };
    assert_eq!(redriven(bench, &Redrive { filter: of_g, ..all_of(&queue) }).await.done, 2);
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    let unknown = DeadLetterFilter { number: Some(DeadLetterId(i64::MAX)), ..Default::default() };
    let nothing = redriven(bench, &Redrive { filter: unknown, ..all_of(&queue) }).await;
    assert_eq!((nothing.state, nothing.total), (RedriveState::Finished, 0));
}

/// A dead letter whose message is no longer stored stays, unless it is moved to a queue.
pub async fn dead_letters_of_messages_that_are_gone_stay(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a"]).await;
    bench.store.clear_queue(&queue, false).await.expect("a queue is cleared");
    let done = redriven(bench, &all_of(&queue)).await;
    assert_eq!((done.done, done.failed), (0, 1));
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    let moved = Redrive { to_queue: Some(queue.clone()), ..all_of(&queue) };
    assert_eq!(redriven(bench, &moved).await.done, 1);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await.len(), 1);
}
