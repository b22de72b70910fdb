//! Scheduled messages, which get their offset once they are due.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{LeaseToken, QueueOptions, Subscription, Timestamp, Verdict};
use wakeline_store::flow::Visible;
use wakeline_store::{
    PushItem, PushOutcome, ScheduleItem, ScheduleOutcome, TransactCommand, TransactOutcome,
};

use super::{Bench, ClaimSpec, at_once, earliest_due, item, secs};

pub(super) fn after(seconds: u64) -> Visible {
    Visible::After(Duration::from_secs(seconds))
}

/// A message without a key.
pub(super) fn later(message: PushItem, due: Visible) -> ScheduleItem {
    ScheduleItem { message, due, key: None }
}

/// Schedules messages; returns the outcome of each.
pub(super) async fn schedule(bench: &Bench, schedules: Vec<ScheduleItem>) -> Vec<ScheduleOutcome> {
    let sent = schedules.len();
    let command = TransactCommand { schedules, ..TransactCommand::default() };
    let reply = bench.store.transact(command).await.expect("messages are scheduled");
    let TransactOutcome::Committed(done) = reply.outcome else { panic!("{reply:?}") };
    assert_eq!(done.schedules.len(), sent, "one outcome per message");
    done.schedules
}

/// Schedules one message.
async fn one(bench: &Bench, message: PushItem, due: Visible) {
    let outcome = schedule(bench, vec![later(message, due)]).await.remove(0);
    assert!(matches!(outcome, ScheduleOutcome::Scheduled { replaced: false, .. }), "{outcome:?}");
}

/// A scheduled message comes exactly when it is due, not a millisecond early; claims and sweeps
/// report the time before.
pub async fn a_scheduled_message_comes_when_it_is_due(bench: &Bench) {
    let queue = bench.queue("q");
    one(bench, item(&queue, "p", "a"), after(10)).await;
    let spec = ClaimSpec::queue(&queue);
    assert_eq!(bench.nothing(&spec).await, secs(10));
    assert_eq!(bench.sweep(&spec).await, secs(10));
    bench.advance_ms(9_999).await;
    assert_eq!(bench.nothing(&spec).await, Some(Duration::from_millis(1)));
    bench.advance_ms(1).await;
    assert_eq!(bench.sweep(&spec).await, secs(0));
    let taken = bench.take(&spec).await;
    assert_eq!((taken.ids(), taken.offsets()), (vec!["a".into()], vec![0]));
}

/// A message can be scheduled for a time, which may be in the past.
pub async fn a_message_is_scheduled_for_a_moment(bench: &Bench) {
    let queue = bench.queue("q");
    let now = bench.now().await;
    let at = Timestamp(now.0 + 5_000_000);
    let outcomes = schedule(
        bench,
        vec![
            later(item(&queue, "p", "soon"), Visible::At(at)),
            later(item(&queue, "p", "past"), Visible::At(Timestamp(now.0 - 5_000_000))),
            later(item(&queue, "p", "now"), Visible::Now),
        ],
    )
    .await;
    let ScheduleOutcome::Scheduled { deliver_at, .. } = outcomes[0] else { panic!("{outcomes:?}") };
    assert_eq!(deliver_at, at);
    let spec = ClaimSpec::queue(&queue).batch(10);
    assert_eq!(bench.drain(&spec).await, ["past", "now"]);
    assert_eq!(bench.nothing(&spec).await, secs(5));
    bench.advance(5).await;
    assert_eq!(bench.drain(&spec).await, ["soon"]);
}

/// Messages are ordered by the time at which they became due or were pushed.
pub async fn messages_are_ordered_by_when_they_are_due(bench: &Bench) {
    let queue = bench.queue("q");
    one(bench, item(&queue, "p", "third"), after(20)).await;
    one(bench, item(&queue, "p", "second"), after(10)).await;
    one(bench, item(&queue, "p", "fourth"), after(20)).await;
    bench.push(&queue, "p", &["first"]).await;
    bench.advance(20).await;
    bench.push(&queue, "p", &["fifth"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(taken.ids(), ["first", "second", "third", "fourth", "fifth"]);
    assert_eq!(taken.offsets(), [0, 1, 2, 3, 4]);
}

/// A scheduled message holds back nothing, neither in its partition nor in others.
pub async fn nothing_waits_for_a_scheduled_message(bench: &Bench) {
    let queue = bench.queue("q");
    one(bench, item(&queue, "p", "later"), after(100)).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.push(&queue, "r", &["b"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a", "b"]);
    assert_eq!(bench.nothing(&ClaimSpec::partition(&queue, "p")).await, secs(100));
    assert_eq!(bench.nothing(&ClaimSpec::partition(&queue, "r")).await, None);
    bench.advance(100).await;
    assert_eq!(bench.nothing(&ClaimSpec::partition(&queue, "r")).await, None);
    assert_eq!(bench.take(&ClaimSpec::partition(&queue, "p")).await.ids(), ["later"]);
}

/// A transaction id is known from the time it is scheduled until the window after its delivery has
/// passed.
pub async fn a_scheduled_id_is_known(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { dedup_window_secs: 60, ..Default::default() }).await;
    let first = item(&queue, "p", "a");
    let id = first.id;
    schedule(bench, vec![later(first, after(100))]).await;
    let pushed = async |expected: bool| {
        let outcome = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
        let known = matches!(outcome, PushOutcome::Duplicate { id: first, .. } if first == id);
        assert_eq!(known, expected, "{outcome:?}");
    };
    pushed(true).await;
    let again = schedule(bench, vec![later(item(&queue, "p", "a"), after(1))]).await.remove(0);
    assert!(matches!(again, ScheduleOutcome::Duplicate { id: first, .. } if first == id));
    bench.advance(99).await;
    pushed(true).await;
    bench.advance(1).await;
    pushed(true).await;
    bench.advance(60).await;
    pushed(true).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
    bench.advance(1).await;
    pushed(false).await;
    // In another partition the id was free all the time.
    assert!(matches!(
        bench.push(&queue, "r", &["a"]).await.outcomes[0],
        PushOutcome::Queued { .. }
    ));
}

/// A message that was pushed within the window is not scheduled again; within one call the first
/// counts.
pub async fn a_known_id_is_not_scheduled(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let items = ["a", "b", "b"].map(|id| later(item(&queue, "p", id), after(5)));
    let first = items[1].message.id;
    let outcomes = schedule(bench, items.to_vec()).await;
    assert!(matches!(outcomes[0], ScheduleOutcome::Duplicate { .. }), "{outcomes:?}");
    assert!(matches!(outcomes[1], ScheduleOutcome::Scheduled { .. }), "{outcomes:?}");
    assert!(matches!(outcomes[2], ScheduleOutcome::Duplicate { id, .. } if id == first));
    bench.advance(5).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["a", "b"]);
}

/// A transaction that pushes and schedules the same message stores it once.
pub async fn a_transaction_recognises_what_it_schedules(bench: &Bench) {
    let queue = bench.queue("q");
    let command = TransactCommand {
        schedules: vec![later(item(&queue, "p", "a"), after(5))],
        pushes: vec![item(&queue, "p", "a"), item(&queue, "p", "b")],
        ..TransactCommand::default()
    };
    let reply = bench.store.transact(command).await.expect("a transaction is answered");
    let TransactOutcome::Committed(done) = reply.outcome else { panic!("{reply:?}") };
    assert!(matches!(done.pushes[0], PushOutcome::Duplicate { .. }), "{done:?}");
    assert!(matches!(done.pushes[1], PushOutcome::Queued { .. }), "{done:?}");
    bench.advance(5).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["b", "a"]);
}

/// The pushes of a transaction come before what it schedules, due or not; messages that were due
/// before come before both.
pub async fn a_transaction_pushes_before_what_it_schedules(bench: &Bench) {
    let queue = bench.queue("q");
    one(bench, item(&queue, "p", "first"), after(1)).await;
    bench.advance(1).await;
    let command = TransactCommand {
        schedules: vec![later(item(&queue, "p", "third"), Visible::Now)],
        pushes: vec![item(&queue, "p", "second")],
        ..TransactCommand::default()
    };
    bench.store.transact(command).await.expect("a transaction is answered");
    assert_eq!(
        bench.drain(&ClaimSpec::queue(&queue).batch(10)).await,
        ["first", "second", "third"]
    );
}

/// A refused transaction schedules nothing.
pub async fn a_refused_transaction_schedules_nothing(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    let mut settle = taken.item("a", Verdict::Completed);
    settle.token = Some(LeaseToken::generate());
    let command = TransactCommand {
        schedules: vec![later(item(&queue, "p", "b"), after(5))],
        settles: vec![settle],
        ..TransactCommand::default()
    };
    let reply = bench.store.transact(command).await.expect("a transaction is answered");
    assert!(matches!(reply.outcome, TransactOutcome::Refused(_)), "{reply:?}");
    assert_eq!(earliest_due(&reply.changes, &ClaimSpec::queue(&queue)), None);
    bench.complete(&taken).await;
    bench.advance(5).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    assert!(matches!(
        bench.push(&queue, "p", &["b"]).await.outcomes[0],
        PushOutcome::Queued { .. }
    ));
}

/// Scheduling reports when the message will be due.
pub async fn scheduling_reports_when_the_message_is_due(bench: &Bench) {
    let queue = bench.queue("ns.task");
    let schedules = vec![
        later(item(&queue, "p", "a"), after(30)),
        later(item(&queue, "p", "b"), after(20)),
        later(item(&queue, "r", "c"), after(40)),
    ];
    let command = TransactCommand { schedules, ..TransactCommand::default() };
    let changes = bench.store.transact(command).await.expect("it is answered").changes;
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), secs(20));
    assert_eq!(earliest_due(&changes, &ClaimSpec::partition(&queue, "r")), secs(40));
    let everywhere = ClaimSpec::filter(Some(bench.namespace("ns")), None);
    assert_eq!(earliest_due(&changes, &everywhere.group(&bench.group("g"))), secs(20));
}

/// Every group gets a scheduled message; a group that begins with new messages does not get one
/// that was due before.
pub async fn every_group_gets_a_scheduled_message(bench: &Bench) {
    let queue = bench.queue("q");
    let (one_group, two) = (bench.group("one"), bench.group("two"));
    one(bench, item(&queue, "p", "a"), after(10)).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).group(&one_group)).await, secs(10));
    bench.advance(10).await;
    let new = ClaimSpec::queue(&queue).group(&bench.group("new")).subscribe(Subscription::New);
    assert_eq!(bench.nothing(&new).await, None);
    for group in [&one_group, &two] {
        assert_eq!(bench.take(&ClaimSpec::queue(&queue).group(group)).await.ids(), ["a"]);
    }
    one(bench, item(&queue, "p", "b"), after(10)).await;
    assert_eq!(bench.nothing(&new).await, secs(10));
    bench.advance(10).await;
    assert_eq!(bench.take(&new).await.ids(), ["b"]);
}

/// A claim by namespace and task gets scheduled messages as well.
pub async fn a_filter_sees_what_is_scheduled(bench: &Bench) {
    let (near, far) = (bench.queue("ns.near"), bench.queue("ns.far"));
    one(bench, item(&far, "p", "b"), after(20)).await;
    one(bench, item(&near, "p", "a"), after(10)).await;
    let spec = ClaimSpec::filter(Some(bench.namespace("ns")), None);
    assert_eq!(bench.nothing(&spec).await, secs(10));
    assert_eq!(bench.sweep(&spec).await, secs(10));
    bench.advance(20).await;
    let mut seen = bench.drain(&spec).await;
    seen.sort();
    assert_eq!(seen, ["a", "b"]);
}

/// The delay and the window count from the scheduled time.
pub async fn a_scheduled_message_is_delayed_from_its_time(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { delay_secs: 30, ..Default::default() }).await;
    one(bench, item(&queue, "p", "a"), after(10)).await;
    let spec = ClaimSpec::queue(&queue);
    assert_eq!(bench.nothing(&spec).await, secs(10));
    bench.advance(10).await;
    assert_eq!(bench.nothing(&spec).await, secs(30));
    bench.advance(30).await;
    assert_eq!(bench.take(&spec).await.ids(), ["a"]);
}

/// In strict order retries hold a partition, also for messages that become due meanwhile.
pub async fn a_scheduled_message_waits_behind_a_retry(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_delay_ms: 60_000, ..at_once() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a"]).await;
    one(bench, item(&queue, "p", "b"), after(10)).await;
    let spec = ClaimSpec::queue(&queue);
    let taken = bench.take(&spec).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    bench.advance(10).await;
    assert_eq!(bench.nothing(&spec).await, secs(50));
    bench.advance(50).await;
    assert_eq!(bench.drain(&spec).await, ["a", "b"]);
}

/// A message becomes due while its partition is leased.
pub async fn a_message_becomes_due_under_a_lease(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    one(bench, item(&queue, "p", "b"), after(10)).await;
    let spec = ClaimSpec::queue(&queue);
    let held = bench.take(&spec).await;
    bench.advance(10).await;
    assert_eq!(bench.nothing(&spec).await, secs(290));
    bench.complete(&held).await;
    assert_eq!(bench.take(&spec).await.ids(), ["b"]);
}

/// A scheduled message keeps all fields that its producer set.
pub async fn a_scheduled_message_keeps_what_it_carries(bench: &Bench) {
    let queue = bench.queue("q");
    let trace_id = Some(Uuid::new_v4());
    let payload = Bytes::from(format!("{{\"x\":\"{}\"}}", "y".repeat(100_000)));
    let rich = PushItem {
        trace_id,
        payload: payload.clone(),
        producer: Some("me".to_owned()),
        ..item(&queue, "p", "rich")
    };
    let id = rich.id;
    let plain = later(item(&queue, "p", "plain"), after(1));
    let outcomes = schedule(bench, vec![plain, later(rich, after(1))]).await;
    assert!(matches!(outcomes[1], ScheduleOutcome::Scheduled { id: own, .. } if own == id));
    bench.advance(1).await;
    let now = bench.now().await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let messages = taken.messages();
    assert_eq!((messages[0].trace_id, messages[0].producer.as_deref()), (None, None));
    let rich = messages[1];
    assert_eq!((rich.id, rich.trace_id, rich.attempt), (id, trace_id, 1));
    assert_eq!((rich.producer.as_deref(), rich.created_at), (Some("me"), now));
    assert_eq!(rich.payload, payload);
}

/// Thousands of messages that are due at once all come, in order.
pub async fn many_messages_become_due_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    let expected: Vec<String> = (0..2_500).map(|n| format!("{n:04}")).collect();
    for ids in expected.chunks(500) {
        let items = ids.iter().map(|id| later(item(&queue, "p", id), after(10)));
        schedule(bench, items.collect()).await;
    }
    bench.advance(10).await;
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let taken = bench.take(&ClaimSpec::queue(&queue).batch(1_000)).await;
        seen.extend(taken.ids());
        bench.complete(&taken).await;
    }
    assert_eq!(seen, expected);
}

/// Deleting a queue removes its scheduled messages.
pub async fn a_deleted_queue_forgets_its_schedule(bench: &Bench) {
    let queue = bench.queue("q");
    one(bench, item(&queue, "p", "a"), after(10)).await;
    assert!(bench.store.delete_queue(&queue).await.expect("it is deleted"));
    bench.push(&queue, "p", &["b"]).await;
    bench.advance(10).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
}

/// Deleting a partition removes its scheduled messages; a new one of the same name has none.
pub async fn a_deleted_partition_forgets_its_schedule(bench: &Bench) {
    let queue = bench.queue("q");
    one(bench, item(&queue, "p", "a"), after(10)).await;
    one(bench, item(&queue, "r", "b"), after(10)).await;
    let name = super::partition_name("p");
    assert!(bench.store.delete_partition(&queue, &name).await.expect("it is deleted"));
    one(bench, item(&queue, "p", "a"), after(20)).await;
    bench.advance(10).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(10));
}

/// Concurrent claims deliver a scheduled message exactly once.
pub async fn racing_claims_move_a_message_once(bench: &Bench) {
    let queue = bench.queue("q");
    for round in 0..20 {
        let ids: Vec<String> = (0..4).map(|n| format!("{round}-{n}")).collect();
        let items = ids.iter().map(|id| later(item(&queue, &id[id.len() - 1..], id), after(1)));
        schedule(bench, items.collect()).await;
        bench.advance(1).await;
        let spec = ClaimSpec::queue(&queue).batch(10).auto_ack();
        let claims = (0..4).map(|_| async { bench.try_take(&spec).await });
        let taken = futures_util::future::join_all(claims).await;
        let mut seen: Vec<String> =
            taken.iter().flatten().flat_map(super::TakenBatch::ids).collect();
        while let Some(more) = bench.try_take(&spec).await {
            seen.extend(more.ids());
        }
        seen.sort();
        assert_eq!(seen, ids);
    }
}
