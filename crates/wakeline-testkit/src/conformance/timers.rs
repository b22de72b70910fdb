//! Timers: scheduled messages with a key, by which they are replaced and cancelled.

use wakeline_core::{QueueName, TimerKey, Timestamp};
use wakeline_store::flow::Visible;
use wakeline_store::{
    CancelItem, CancelOutcome, PushOutcome, ScheduleItem, ScheduleOutcome, ScheduledFilter,
    ScheduledMessage, StoreError, TransactCommand, TransactOutcome,
};

use super::schedule::{after, later, schedule};
use super::{Bench, ClaimSpec, item, secs};

fn key(name: &str) -> TimerKey {
    TimerKey::new(name).expect("a short name")
}

/// A timer that delivers a message with this transaction id.
fn timer(queue: &QueueName, name: &str, id: &str, due: Visible) -> ScheduleItem {
    ScheduleItem { key: Some(key(name)), ..later(item(queue, "p", id), due) }
}

async fn set(bench: &Bench, timer: ScheduleItem) -> ScheduleOutcome {
    schedule(bench, vec![timer]).await.remove(0)
}

fn replaced(outcome: &ScheduleOutcome) -> bool {
    match outcome {
        ScheduleOutcome::Scheduled { replaced, .. } => *replaced,
        ScheduleOutcome::Duplicate { .. } => panic!("{outcome:?}"),
    }
}

async fn cancel(bench: &Bench, queue: &QueueName, names: &[&str]) -> Vec<CancelOutcome> {
    let cancel = |name: &&str| CancelItem { queue: queue.clone(), key: key(name) };
    let cancels = names.iter().map(cancel).collect();
    let command = TransactCommand { cancels, ..TransactCommand::default() };
    let reply = bench.store.transact(command).await.expect("timers are cancelled");
    let TransactOutcome::Committed(done) = reply.outcome else { panic!("{reply:?}") };
    done.cancels
}

async fn list(bench: &Bench, queue: &QueueName) -> Vec<ScheduledMessage> {
    let filter = ScheduledFilter { queue: queue.clone(), key: None, after: None, limit: 100 };
    bench.store.scheduled(filter).await.expect("timers are listed")
}

/// A timer that is cancelled in time is never delivered, and its transaction id is free.
pub async fn a_cancelled_timer_never_comes(bench: &Bench) {
    let queue = bench.queue("q");
    let sent = timer(&queue, "k", "a", after(10));
    let id = sent.message.id;
    let ScheduleOutcome::Scheduled { deliver_at, .. } = set(bench, sent).await else { panic!() };
    bench.advance_ms(9_999).await;
    let outcomes = cancel(bench, &queue, &["k", "unknown"]).await;
    let CancelOutcome::Cancelled(named) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert_eq!((named.id, named.transaction_id.as_str()), (id, "a"));
    assert_eq!(named.deliver_at, deliver_at);
    assert_eq!(outcomes[1], CancelOutcome::Absent);
    assert_eq!(cancel(bench, &queue, &["k"]).await, [CancelOutcome::Absent]);
    bench.advance(10).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    let again = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
    assert!(matches!(again, PushOutcome::Queued { .. }), "{again:?}");
}

/// A timer that is due is delivered: it is too late to cancel it, and later it is unknown.
pub async fn a_timer_that_is_due_can_not_be_cancelled(bench: &Bench) {
    let queue = bench.queue("q");
    set(bench, timer(&queue, "k", "a", after(10))).await;
    bench.advance(10).await;
    let outcomes = cancel(bench, &queue, &["k"]).await;
    assert!(matches!(&outcomes[0], CancelOutcome::TooLate(named)
        if named.transaction_id.as_str() == "a"));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
    assert_eq!(cancel(bench, &queue, &["k"]).await, [CancelOutcome::Absent]);
}

/// Setting a timer again moves it; only the last message is delivered.
pub async fn a_timer_is_replaced_by_its_key(bench: &Bench) {
    let queue = bench.queue("q");
    assert!(!replaced(&set(bench, timer(&queue, "k", "a", after(10))).await));
    assert!(!replaced(&set(bench, timer(&queue, "other", "b", after(15))).await));
    let mut moved = timer(&queue, "k", "c", after(20));
    moved.message.partition = super::partition_name("r");
    assert!(replaced(&set(bench, moved).await));
    let spec = ClaimSpec::queue(&queue);
    assert_eq!(bench.nothing(&spec).await, secs(15));
    bench.advance(100).await;
    let mut seen = bench.drain(&spec).await;
    seen.sort();
    assert_eq!(seen, ["b", "c"]);
    // The same message may be scheduled again under its own key.
    set(bench, timer(&queue, "again", "d", after(10))).await;
    assert!(replaced(&set(bench, timer(&queue, "again", "d", after(5))).await));
    assert_eq!(bench.nothing(&spec).await, secs(5));
}

/// A replacement whose transaction id is known changes nothing.
pub async fn a_known_id_does_not_replace_a_timer(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    set(bench, timer(&queue, "k", "b", after(10))).await;
    let outcome = set(bench, timer(&queue, "k", "a", after(1))).await;
    assert!(matches!(outcome, ScheduleOutcome::Duplicate { .. }), "{outcome:?}");
    bench.advance(10).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a", "b"]);
}

/// Once a timer is due its key can be used for another one.
pub async fn a_key_is_free_once_its_timer_is_due(bench: &Bench) {
    let queue = bench.queue("q");
    set(bench, timer(&queue, "k", "a", after(10))).await;
    bench.advance(10).await;
    assert!(!replaced(&set(bench, timer(&queue, "k", "b", after(10))).await));
    assert!(matches!(
        cancel(bench, &queue, &["k"]).await[0],
        CancelOutcome::Cancelled(ref named) if named.transaction_id.as_str() == "b"
    ));
    bench.advance(10).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
}

/// The key of a timer is unique within its queue.
pub async fn keys_count_per_queue(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    assert!(!replaced(&set(bench, timer(&one, "k", "a", after(10))).await));
    assert!(!replaced(&set(bench, timer(&two, "k", "a", after(10))).await));
    assert!(matches!(cancel(bench, &one, &["k"]).await[0], CancelOutcome::Cancelled(_)));
    bench.advance(10).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&one)).await, None);
    assert_eq!(bench.drain(&ClaimSpec::queue(&two)).await, ["a"]);
}

/// A transaction that names a timer twice is refused.
pub async fn a_transaction_names_a_timer_once(bench: &Bench) {
    let queue = bench.queue("q");
    set(bench, timer(&queue, "k", "a", after(10))).await;
    let cancels = vec![CancelItem { queue: queue.clone(), key: key("k") }];
    let twice = [
        TransactCommand {
            cancels,
            schedules: vec![timer(&queue, "k", "b", after(5))],
            ..TransactCommand::default()
        },
        TransactCommand {
            schedules: vec![timer(&queue, "k", "b", after(5)), timer(&queue, "k", "c", after(5))],
            ..TransactCommand::default()
        },
    ];
    for command in twice {
        let error = bench.store.transact(command).await.expect_err("it is refused");
        assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    }
    bench.advance(10).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
}

/// Scheduled messages are listed by due time, in pages, or by key.
pub async fn what_is_scheduled_is_listed(bench: &Bench) {
    let queue = bench.queue("q");
    assert!(list(bench, &queue).await.is_empty());
    let now = bench.now().await;
    set(bench, timer(&queue, "late", "c", after(30))).await;
    set(bench, timer(&queue, "soon", "a", after(10))).await;
    schedule(bench, vec![later(item(&queue, "r", "b"), after(30))]).await;
    let all = list(bench, &queue).await;
    let ids: Vec<_> = all.iter().map(|one| one.transaction_id.as_str()).collect();
    assert_eq!(ids, ["a", "c", "b"]);
    let first = &all[0];
    assert_eq!((first.key.clone(), first.partition.as_str()), (Some(key("soon")), "p"));
    assert_eq!((first.scheduled_at, first.deliver_at), (now, Timestamp(now.0 + 10_000_000)));
    assert_eq!(first.payload, item(&queue, "p", "a").payload);
    assert_eq!((all[2].key.clone(), all[2].partition.as_str()), (None, "r"));
    let mut paged = Vec::new();
    while paged.len() < 3 {
        let after = paged.last().map(|one: &ScheduledMessage| (one.deliver_at, one.seq));
        let filter = ScheduledFilter { queue: queue.clone(), key: None, after, limit: 1 };
        paged.extend(bench.store.scheduled(filter).await.expect("timers are listed"));
    }
    assert_eq!(paged, all);
    let filter =
        ScheduledFilter { queue: queue.clone(), key: Some(key("late")), after: None, limit: 9 };
    let found = bench.store.scheduled(filter).await.expect("timers are listed");
    assert_eq!(found, [all[1].clone()]);
    bench.advance(10).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
    assert_eq!(list(bench, &queue).await.len(), 2);
}

/// When delivery and cancellation race, exactly one of them happens.
pub async fn a_timer_is_delivered_or_cancelled(bench: &Bench) {
    let queue = bench.queue("q");
    for round in 0..30 {
        let id = format!("{round}");
        set(bench, timer(&queue, "k", &id, after(1))).await;
        let advance = async {
            bench.advance(1).await;
            bench.drain(&ClaimSpec::queue(&queue)).await
        };
        let (seen, outcomes) = tokio::join!(advance, cancel(bench, &queue, &["k"]));
        let mut seen = seen;
        seen.extend(bench.drain(&ClaimSpec::queue(&queue)).await);
        let cancelled = matches!(outcomes[0], CancelOutcome::Cancelled(_));
        assert_eq!(seen.len(), usize::from(!cancelled), "{seen:?} {outcomes:?}");
    }
}

/// Of concurrent timers with one key one is kept.
pub async fn racing_timers_of_a_key_leave_one(bench: &Bench) {
    let queue = bench.queue("q");
    for round in 0..10 {
        let set = |n: usize| {
            let mut timer = timer(&queue, "k", &format!("{round}-{n}"), after(1));
            timer.message.partition = super::partition_name(&format!("p{n}"));
            schedule(bench, vec![timer])
        };
        futures_util::future::join_all((0..4).map(set)).await;
        assert_eq!(list(bench, &queue).await.len(), 1);
        bench.advance(1).await;
        assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await.len(), 1);
    }
}
