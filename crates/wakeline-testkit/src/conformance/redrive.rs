//! Dead letters that are delivered again: by jobs that any node carries on.

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    DeadLetterId, GroupName, MessageOrder, QueueName, QueueOptions, RedriveId, Verdict,
};
use wakeline_store::{DeadLetterFilter, PushItem, QueueChores, Redrive, RedriveJob, RedriveState};

use super::{Ask, Bench, item, secs, told};

/// Gives messages up, one after another, a second apart.
async fn bury(bench: &Bench, queue: &QueueName, group: &GroupName, ids: &[&str]) {
    for id in ids {
        bench.push(queue, "p", &[id]).await;
        let taken = bench.take(&Ask::queue(queue).group(group)).await;
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
    let line = wakeline_core::QueueLine::chores();
    assert!(changes.iter().any(|change| change.concerns(&line)), "who works is told: {changes:?}");
    job
}

async fn chores(bench: &Bench, rows: u32) -> QueueChores {
    bench.store.do_queue_chores(rows).await.expect("chores are done")
}

async fn job(bench: &Bench, id: RedriveId) -> RedriveJob {
    bench.store.redrive_job(id).await.expect("a job is read").expect("it is there")
}

/// Runs a job to its end.
async fn redriven(bench: &Bench, redrive: &Redrive) -> RedriveJob {
    start(bench, redrive).await;
    while chores(bench, 2).await.next_due == secs(0) {}
    job(bench, redrive.id).await
}

async fn chores_due(bench: &Bench) -> Option<std::time::Duration> {
    let lines = vec![wakeline_core::QueueLine::chores()];
    bench.store.sweep(lines).await.expect("the line is swept")[0]
}

/// It comes before what is behind it, counted anew, and to its own group only.
pub async fn a_redriven_message_returns_to_its_group(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bury(bench, &queue, &g, &["a", "b"]).await;
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&h)).await, ["a", "b"]);
    bench.push(&queue, "p", &["c"]).await;
    let done = redriven(bench, &all_of(&queue)).await;
    assert_eq!((done.state, done.total), (RedriveState::Finished, 2));
    assert_eq!((done.done, done.failed), (2, 0));
    assert!(bench.dead_ids(&queue).await.is_empty());
    let taken = bench.take(&Ask::queue(&queue).group(&g).batch(5)).await;
    assert_eq!(
        (taken.ids(), taken.attempts()),
        (vec!["a".into(), "b".into(), "c".into()], vec![1; 3])
    );
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&h)).await, ["c"]);
}

/// Those who wait in its group hear of it, and nobody else.
pub async fn a_redrive_tells_its_group(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a"]).await;
    start(bench, &all_of(&queue)).await;
    let changes = chores(bench, 10).await.changes;
    assert_eq!(told(&changes, &Ask::partition(&queue, "p").group(&group)), secs(0));
    assert_eq!(told(&changes, &Ask::queue(&queue).group(&bench.group("h"))), None);
}

/// A lease that is out is not disturbed; the message comes after it, also in relaxed order.
pub async fn a_redriven_message_waits_for_the_lease(bench: &Bench) {
    for ordering in [MessageOrder::Strict, MessageOrder::Relaxed] {
        let queue = bench.queue(&format!("{ordering:?}"));
        let group = bench.group("g");
        bench.configure(&queue, QueueOptions { ordering, ..Default::default() }).await;
        bury(bench, &queue, &group, &["a"]).await;
        bench.push(&queue, "p", &["b", "c"]).await;
        let ask = Ask::queue(&queue).group(&group);
        let held = bench.take(&ask).await;
        assert_eq!(held.ids(), ["b"]);
        redriven(bench, &all_of(&queue)).await;
        assert_eq!(bench.nothing(&ask).await, secs(300));
        bench.complete(&held).await;
        let taken = bench.take(&ask.clone().batch(5)).await;
        assert_eq!((taken.ids(), taken.attempts()), (vec!["a".into(), "c".into()], vec![1, 1]));
        bench.complete(&taken).await;
        bench.nothing(&ask).await;
    }
}

/// A group that was moved back before the message gets it once.
pub async fn what_is_ahead_of_its_group_is_not_doubled(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b"]).await;
    let to = wakeline_store::SeekTo::Beginning;
    let seek = wakeline_store::Seek { group: group.clone(), queue: None, partition: None, to };
    bench.store.seek(seek).await.expect("a group is moved");
    assert_eq!(redriven(bench, &all_of(&queue)).await.done, 2);
    let ask = Ask::queue(&queue).group(&group);
    let taken = bench.take(&ask).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.push(&queue, "p", &["c"]).await;
    assert_eq!(bench.drain(&ask).await, ["b", "c"]);
    assert_eq!(redriven(bench, &all_of(&queue)).await.done, 1);
    assert_eq!(bench.drain(&ask).await, ["a"]);
}

/// Piece by piece, oldest first, as fast as its rate allows by the store's clock.
pub async fn a_redrive_keeps_its_rate(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b", "c"]).await;
    assert_eq!(chores_due(bench).await, None);
    let redrive = Redrive { rate: Some(10), ..all_of(&queue) };
    start(bench, &redrive).await;
    assert_eq!(chores_due(bench).await, secs(0));
    let tenth = Some(std::time::Duration::from_millis(100));
    for left in [["b", "c"].as_slice(), &["c"], &[]] {
        let piece = chores(bench, 100).await;
        let mut dead = bench.dead_ids(&queue).await;
        dead.reverse();
        assert_eq!(dead, left);
        let running = !left.is_empty();
        assert_eq!(piece.next_due, tenth.filter(|_| running));
        assert_eq!(chores_due(bench).await, tenth.filter(|_| running));
        if running {
            assert_eq!(chores(bench, 100).await.rows, 0, "it is not due yet");
            bench.advance_ms(100).await;
        }
    }
    assert_eq!(job(bench, redrive.id).await.state, RedriveState::Finished);
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&group)).await, ["a", "b", "c"]);
}

/// What was given up after the start is left for another job; what was done is not done again.
pub async fn a_redrive_ends_where_it_began(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b"]).await;
    let redrive = all_of(&queue);
    assert_eq!(start(bench, &redrive).await.total, 2);
    assert_eq!(chores(bench, 1).await.rows, 1);
    let taken = bench.take(&Ask::queue(&queue).group(&group)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    let again = start(bench, &redrive).await;
    assert_eq!((again.total, again.done), (2, 1));
    while chores(bench, 1).await.next_due == secs(0) {}
    let ended = job(bench, redrive.id).await;
    assert_eq!((ended.state, ended.done), (RedriveState::Finished, 2));
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&group)).await, ["b"]);
}

/// What was redriven stays so; the rest stays dead.
pub async fn a_cancelled_redrive_goes_no_further(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bury(bench, &queue, &group, &["a", "b"]).await;
    let redrive = all_of(&queue);
    start(bench, &redrive).await;
    chores(bench, 1).await;
    let cancelled = bench.store.cancel_redrive(redrive.id).await.expect("a job is cancelled");
    let cancelled = cancelled.expect("it is there");
    assert_eq!((cancelled.state, cancelled.done), (RedriveState::Cancelled, 1));
    assert_eq!((chores_due(bench).await, chores(bench, 1).await.rows), (None, 0));
    assert_eq!(bench.dead_ids(&queue).await, ["b"]);
    let unknown = RedriveId::generate();
    assert_eq!(bench.store.cancel_redrive(unknown).await.expect("it is answered"), None);
    assert_eq!(bench.store.redrive_job(unknown).await.expect("it is answered"), None);
}

/// Without its group a message has nowhere to go; it can be pushed to a queue instead.
pub async fn dead_letters_of_a_forgotten_group_stay(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bury(bench, &queue, &g, &["a"]).await;
    let taken = bench.take(&Ask::queue(&queue).group(&h)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.store.delete_group(&g, None).await.expect("a group is deleted");
    let done = redriven(bench, &all_of(&queue)).await;
    assert_eq!((done.state, done.total), (RedriveState::Finished, 2));
    assert_eq!((done.done, done.failed), (1, 1));
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&h)).await, ["a"]);
    let moved = Redrive { to_queue: Some(queue.clone()), ..all_of(&queue) };
    assert_eq!(redriven(bench, &moved).await.done, 1);
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&h)).await.len(), 1);
}

/// Whole, to a partition of the same name, as a message of its own.
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
    let taken = bench.take(&Ask::queue(&queue).group(&group)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    let moved = Redrive { to_queue: Some(other.clone()), ..all_of(&queue) };
    start(bench, &moved).await;
    let piece = chores(bench, 10).await;
    assert_eq!(told(&piece.changes, &Ask::queue(&other)), secs(0));
    assert!(bench.dead_ids(&queue).await.is_empty());
    bench.nothing(&Ask::queue(&queue).group(&group)).await;
    let taken = bench.take(&Ask::partition(&other, "p")).await;
    let message = taken.messages()[0];
    assert_eq!((&message.payload, &message.producer), (&sent.payload, &sent.producer));
    assert_eq!((message.trace_id, message.attempt), (sent.trace_id, 1));
    assert_ne!(message.id, sent.id);
}

/// One message that two groups gave up is moved twice, back into its own queue too: no
/// deduplication swallows it.
pub async fn what_is_moved_is_not_taken_for_a_repetition(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    for group in ["g", "h"] {
        let taken = bench.take(&Ask::queue(&queue).group(&bench.group(group))).await;
        bench.settled(&taken, "a", Verdict::DeadLetter).await;
    }
    let moved = Redrive { to_queue: Some(queue.clone()), ..all_of(&queue) };
    assert_eq!(redriven(bench, &moved).await.done, 2);
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&bench.group("g"))).await.len(), 2);
}

/// Only those that fit are redriven.
pub async fn a_redrive_keeps_to_its_filter(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bury(bench, &queue, &g, &["a", "b"]).await;
    for id in ["a", "b"] {
        let taken = bench.take(&Ask::queue(&queue).group(&h)).await;
        bench.settled(&taken, id, Verdict::DeadLetter).await;
    }
    let number = bench.dead_letters(&queue).await[0].number;
    let one = DeadLetterFilter { number: Some(number), ..Default::default() };
    assert_eq!(redriven(bench, &Redrive { filter: one, ..all_of(&queue) }).await.done, 1);
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&h)).await, ["b"]);
    let of_g = DeadLetterFilter { group: Some(g.clone()), ..Default::default() };
    assert_eq!(redriven(bench, &Redrive { filter: of_g, ..all_of(&queue) }).await.done, 2);
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    let unknown = DeadLetterFilter { number: Some(DeadLetterId(i64::MAX)), ..Default::default() };
    let nothing = redriven(bench, &Redrive { filter: unknown, ..all_of(&queue) }).await;
    assert_eq!((nothing.state, nothing.total), (RedriveState::Finished, 0));
}

/// Of a message that is no longer stored only the dead letter is left: it stays, or is moved.
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
    assert_eq!(bench.drain(&Ask::queue(&queue).group(&group)).await.len(), 1);
}
