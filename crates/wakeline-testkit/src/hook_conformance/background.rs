//! Rules of background work: expired payloads and deleted applications are removed.

use std::time::Duration;

use wakeline_core::{ApplicationRef, AttemptId, HookLine, HookMessageId, MessageRef};
use wakeline_store::hook::{
    ExpireMessages, ExpiredMessages, JobKind, JobState, NewMessage, SettledState,
};

use super::{HookBench, application, items, message, plain, push, request, secs, success};

async fn payload(bench: &HookBench, id: HookMessageId) -> bool {
    let found = bench.hook.message(&bench.of_app(), &MessageRef::Id(id), true).await;
    found.expect("it is read").expect("it is there").payload.is_some()
}

/// Rule 6 of messages: the payload is removed when it expires, the rest stays.
pub async fn a_payload_goes_at_its_time(bench: &HookBench) {
    let to = bench.with(plain()).await;
    let new = NewMessage { retention: secs(100), ..bench.message() };
    let (stored, _) = bench.stored(new).await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    bench.advance_ms(99_999).await;
    bench.background(10).await;
    assert!(payload(bench, stored.id).await);
    bench.advance_ms(1).await;
    bench.background(10).await;
    assert!(!payload(bench, stored.id).await);
    assert_eq!(bench.attempts(stored.id).await.len(), 1);
    bench.delivery(stored.id, to).await;
}

/// The report has the time until the next payload expires.
pub async fn the_next_expiry_is_in_sight(bench: &HookBench) {
    assert_eq!(bench.sweep(HookLine::Background).await, None);
    for retention in [500, 200, 300] {
        let retention = secs(retention);
        bench.stored(NewMessage { retention, ..bench.message() }).await;
    }
    assert_eq!(bench.sweep(HookLine::Background).await, Some(secs(200)));
    assert_eq!(bench.background(10).await, Some(secs(200)));
    bench.advance(200).await;
    assert_eq!(bench.sweep(HookLine::Background).await, Some(Duration::ZERO));
    assert_eq!(bench.background(10).await, Some(secs(100)));
}

/// One call removes no more rows than requested.
pub async fn payloads_go_in_pieces(bench: &HookBench) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        let new = NewMessage { retention: secs(10), ..bench.message() };
        ids.push(bench.stored(new).await.0.id);
    }
    bench.advance(10).await;
    let report = bench.hook.run_background(2).await.expect("a piece is done");
    assert_eq!((report.rows, report.next_due), (2, Some(Duration::ZERO)));
    let mut left = 0;
    for id in &ids {
        left += usize::from(payload(bench, *id).await);
    }
    assert_eq!(left, 3);
    bench.background(2).await;
    for id in ids {
        assert!(!payload(bench, id).await);
    }
}

/// A call that has nothing to do changes nothing.
pub async fn idle_background_work_does_nothing(bench: &HookBench) {
    let report = bench.hook.run_background(10).await.expect("answered");
    assert_eq!((report.rows, report.next_due), (0, None));
    assert_eq!(report.changes, []);
    assert_eq!(bench.sweep(HookLine::Background).await, None);
}

/// A payload can be removed before it expires.
pub async fn a_payload_can_be_expunged(bench: &HookBench) {
    bench.with(plain()).await;
    let id = bench.emit().await;
    let which = MessageRef::Id(id);
    assert!(bench.hook.expunge_payload(&bench.of_app(), &which).await.expect("answered"));
    assert!(!payload(bench, id).await);
    assert_eq!(bench.one().await.payload, None);
    let unknown = MessageRef::Id(HookMessageId::generate());
    assert!(!bench.hook.expunge_payload(&bench.of_app(), &unknown).await.expect("answered"));
}

/// A stored response can be removed; its attempt stays.
pub async fn an_answer_can_be_expunged(bench: &HookBench) {
    bench.with(plain()).await;
    let id = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    let attempt = item.token.attempt;
    let before = bench.attempt(attempt).await.expect("it is there");
    assert!(before.response.is_some());
    let (app, which) = (bench.of_app(), MessageRef::Id(id));
    assert!(bench.hook.expunge_response(&app, &which, attempt).await.expect("answered"));
    let after = bench.attempt(attempt).await.expect("it is there");
    assert_eq!(after, wakeline_store::hook::Attempt { response: None, ..before });
    let unknown = AttemptId::generate();
    assert!(!bench.hook.expunge_response(&app, &which, unknown).await.expect("answered"));
    let other = MessageRef::Id(bench.emit().await);
    assert!(!bench.hook.expunge_response(&app, &other, attempt).await.expect("answered"));
}

/// The rows of a deleted application are removed in pieces until none is left.
pub async fn what_a_deleted_application_left_goes_in_pieces(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(6).await;
    for item in bench.take(3).await {
        bench.deliver(&item).await;
    }
    bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    assert_eq!(bench.sweep(HookLine::Background).await, Some(Duration::ZERO));
    let mut rows = 0;
    for _ in 0..1_000 {
        let report = bench.hook.run_background(2).await.expect("a piece is done");
        rows += report.rows;
        if report.next_due.is_none() {
            break;
        }
    }
    assert!(rows >= 6, "at least the messages: {rows}");
    assert_eq!(bench.sweep(HookLine::Background).await, None);
}

/// Leases of a deleted application end with it, before and after its rows are removed.
pub async fn leases_of_a_deleted_application_end_with_it(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(3).await;
    let held = push(vec![request(2)]);
    let got = items(&bench.claim(held.clone()).await.groups[0]);
    bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    assert!(bench.claim(held.clone()).await.groups[0].is_empty(), "they hold nothing any more");
    assert_eq!(bench.settle(success(got[0].token)).await.state, SettledState::Stale);
    bench.advance(30).await;
    assert!(bench.take(9).await.is_empty());
    bench.background(2).await;
    assert!(bench.claim(held).await.groups[0].is_empty());
    assert_eq!(bench.settle(success(got[1].token)).await.state, SettledState::Stale);
    assert_eq!(bench.none().await, None);
}

/// Jobs run before expired payloads are removed.
pub async fn jobs_come_before_what_expires(bench: &HookBench) {
    bench.with(plain()).await;
    let kept = bench.stored(NewMessage { retention: secs(10), ..bench.message() }).await.0.id;
    let item = bench.one().await;
    bench.fail(&item).await;
    bench.advance(20).await;
    let job = bench.start(JobKind::Recover, Default::default()).await;
    for _ in 0..100 {
        bench.hook.run_background(10).await.expect("a piece is done");
        if bench.job(job).await.state == JobState::Finished {
            break;
        }
    }
    assert_eq!(bench.job(job).await.changed, 1, "its payload was still there");
    let item = bench.one().await;
    assert_eq!(item.message, kept);
}

/// A finished job is kept for 7 days.
pub async fn finished_jobs_are_kept_for_seven_days(bench: &HookBench) {
    let job = bench.done(JobKind::Recover, Default::default()).await.spec.id;
    bench.advance(7 * 86_400 - 1).await;
    bench.background(10).await;
    assert!(bench.hook.job(job).await.expect("it is read").is_some());
    bench.advance(1).await;
    bench.background(10).await;
    assert_eq!(bench.hook.job(job).await.expect("it is read"), None);
}

/// Background work of one application does not affect others.
pub async fn expiry_leaves_other_messages_alone(bench: &HookBench) {
    let other = bench.application(application(None)).await;
    let kept = bench.stored(message(other)).await.0.id;
    let gone = bench.stored(NewMessage { retention: secs(1), ..bench.message() }).await.0.id;
    bench.advance(1).await;
    bench.background(10).await;
    assert!(!payload(bench, gone).await);
    let which = ApplicationRef::Id(other);
    let found = bench.hook.message(&which, &MessageRef::Id(kept), true).await;
    assert!(found.expect("it is read").expect("it is there").payload.is_some());
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Visits all messages that are older than a day, in small pieces.
async fn expire(bench: &HookBench) -> ExpiredMessages {
    let mut all = ExpiredMessages::default();
    let mut after = None;
    loop {
        let command = ExpireMessages { older_than: DAY, after, rows: 4 };
        let piece = bench.hook.expire_messages(command).await.expect("a piece is done");
        all.messages += piece.messages;
        all.deliveries += piece.deliveries;
        all.attempts += piece.attempts;
        after = piece.next;
        if after.is_none() {
            return all;
        }
    }
}

/// Old messages are removed with everything that belongs to them, unless they wait or can be sent
/// again.
pub async fn old_messages_go_unless_they_are_needed(bench: &HookBench) {
    old_messages_go(bench).await;
    pending_and_kept_messages_stay(bench).await;
}

async fn old_messages_go(bench: &HookBench) {
    bench.with(plain()).await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        let new = NewMessage { retention: secs(10), ..bench.message() };
        ids.push(bench.stored(new).await.0.id);
        let item = bench.one().await;
        bench.deliver(&item).await;
    }
    bench.advance(24 * 3600).await;
    let young = bench.stored(NewMessage { retention: secs(10), ..bench.message() }).await.0.id;
    bench.background(100).await;
    assert_eq!(expire(bench).await, ExpiredMessages::default(), "a day old is not older");
    bench.advance(1).await;
    let gone = ExpiredMessages { messages: 7, deliveries: 7, attempts: 7, next: None };
    assert_eq!(expire(bench).await, gone);
    for id in ids {
        let found = bench.hook.message(&bench.of_app(), &MessageRef::Id(id), true).await;
        assert_eq!(found.expect("it is read"), None);
        assert!(bench.attempts(id).await.is_empty());
    }
    payload(bench, young).await;
    assert_eq!(expire(bench).await, ExpiredMessages::default(), "twice is nothing");
    let item = bench.one().await;
    bench.deliver(&item).await;
    bench.advance(25 * 3600).await;
    bench.background(100).await;
    assert_eq!(expire(bench).await.messages, 1);
}

/// Messages that have not been delivered, or that can be sent again, stay.
async fn pending_and_kept_messages_stay(bench: &HookBench) {
    let short = || NewMessage { retention: secs(10), ..bench.message() };
    let waiting = bench.stored(short()).await.0.id;
    let leased = bench.stored(short()).await.0.id;
    let under_way = bench.one().await;
    bench.advance(2 * 24 * 3600).await;
    let kept = bench.stored(NewMessage { retention: DAY * 9, ..bench.message() }).await.0.id;
    bench.background(100).await;
    bench.advance(2 * 24 * 3600).await;
    assert_eq!(expire(bench).await, ExpiredMessages::default());
    for id in [waiting, leased, kept] {
        payload(bench, id).await;
    }
    drop(under_way);
}
