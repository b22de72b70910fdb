//! The history checker accepts correct histories and detects each violation.

use std::time::Duration;

use wakeline_core::Verdict;
use wakeline_testkit::history::{
    CallOutcome, ClientHistory, Extend, Push, Report, SeenDelivery, SeenMessage, Settle, Span,
    Violation, check,
};

fn span(from: u64, to: u64) -> Span {
    Span { from: Duration::from_secs(from), to: Duration::from_secs(to) }
}

fn push(message: &str, span: Span, answer: CallOutcome) -> Push {
    Push { partition: "p".into(), message: message.into(), span, answer }
}

fn delivery(lease: &str, span: Span, messages: &[(&str, i64)]) -> SeenDelivery {
    let seen = |(message, offset): &(&str, i64)| SeenMessage {
        message: (*message).into(),
        offset: *offset,
    };
    SeenDelivery {
        group: "g".into(),
        partition: "p".into(),
        lease: Some(lease.into()),
        lease_for: Duration::from_secs(100),
        span,
        messages: messages.iter().map(seen).collect(),
    }
}

fn settle(lease: &str, message: &str, span: Span, answer: CallOutcome) -> Settle {
    Settle {
        group: "g".into(),
        partition: "p".into(),
        lease: lease.into(),
        what: Some((message.into(), Verdict::Completed)),
        span,
        answer,
    }
}

/// A correct history: two messages, delivered and completed one after the other; then a third one,
/// whose push has an unknown outcome.
fn right() -> ClientHistory {
    ClientHistory {
        pushes: vec![
            push("a", span(1, 2), CallOutcome::Ok),
            push("b", span(3, 4), CallOutcome::Ok),
            push("c", span(5, 6), CallOutcome::Unknown),
        ],
        deliveries: vec![
            delivery("one", span(10, 11), &[("a", 0)]),
            delivery("two", span(14, 15), &[("b", 1), ("c", 2)]),
        ],
        settles: vec![
            settle("one", "a", span(12, 13), CallOutcome::Ok),
            settle("two", "c", span(16, 17), CallOutcome::Ok),
            settle("two", "b", span(18, 19), CallOutcome::Ok),
        ],
        drained_by: vec!["g".into()],
        ..ClientHistory::default()
    }
}

fn only_violation(history: &ClientHistory) -> Violation {
    let Report { mut violations, .. } = check(history);
    assert_eq!(violations.len(), 1, "{violations:?}");
    violations.remove(0)
}

#[test]
fn a_right_history_passes() {
    let report = check(&right());
    report.assert_clean();
    assert_eq!((report.acknowledged, report.recovered, report.settled), (2, 1, 3));
    assert_eq!((report.delivered, report.redelivered), (3, 0));
}

#[test]
fn a_lost_message_is_caught() {
    let mut history = right();
    history.settles[0].what = Some(("a".into(), Verdict::Failed));
    assert!(matches!(only_violation(&history), Violation::Lost { message, .. } if message == "a"));
    // A dead letter is not lost, nor is a completion whose answer did not come.
    history.dead_letters.push(("g".into(), "p".into(), "a".into()));
    check(&history).assert_clean();
    history.dead_letters.clear();
    history.settles.push(settle("one", "a", span(12, 13), CallOutcome::Unknown));
    check(&history).assert_clean();
    // Every group must have completed the message.
    history.drained_by.push("h".into());
    assert_eq!(check(&history).violations.len(), 2);
}

#[test]
fn an_unacknowledged_message_may_get_lost() {
    let mut history = right();
    history.deliveries[1].messages.pop();
    history.settles.remove(1);
    check(&history).assert_clean();
}

#[test]
fn an_unexpected_message_is_caught() {
    let mut history = right();
    history.pushes[2].answer = CallOutcome::Refused;
    let expected = Violation::Unexpected { partition: "p".into(), message: "c".into() };
    assert_eq!(only_violation(&history), expected);
    history.pushes.remove(2);
    assert_eq!(only_violation(&history), expected);
}

#[test]
fn a_message_stored_twice_is_caught() {
    let mut history = right();
    history.pushes[2] = push("b", span(5, 6), CallOutcome::Ok);
    history.deliveries[1].messages[1].message = "b".into();
    history.settles.remove(1);
    assert!(
        matches!(only_violation(&history), Violation::StoredTwice { message, .. } if message == "b")
    );
}

#[test]
fn a_duplicate_effect_is_caught() {
    let mut history = right();
    history.settles.push(settle("one", "a", span(12, 14), CallOutcome::Ok));
    assert!(matches!(only_violation(&history), Violation::DuplicateEffect { .. }));
}

#[test]
fn a_delivery_after_completion_is_caught() {
    let mut history = right();
    history.deliveries.push(delivery("three", span(20, 21), &[("a", 0)]));
    assert!(matches!(only_violation(&history), Violation::DuplicateEffect { .. }));
}

#[test]
fn two_holders_are_caught() {
    let mut history = right();
    // "one" is settled only at 30, but "two" gets the partition at 15.
    history.settles[0].span = span(30, 31);
    history.settles[0].answer = CallOutcome::Refused;
    history.settles.push(settle("two", "a", span(16, 17), CallOutcome::Ok));
    history.deliveries[1].messages.insert(0, SeenMessage { message: "a".into(), offset: 0 });
    assert_eq!(
        only_violation(&history),
        Violation::TwoHolders { partition: "p".into(), first: "one".into(), second: "two".into() }
    );
}

#[test]
fn a_lease_that_may_have_ended_has_no_second_holder() {
    let mut history = right();
    // The settlement was requested before the second claim was answered, so it may have counted
    // before.
    history.settles[0].span = span(14, 40);
    check(&history).assert_clean();
    // The lease had expired in time.
    let mut history = right();
    history.deliveries[0].lease_for = Duration::from_secs(4);
    history.deliveries[1].messages.insert(0, SeenMessage { message: "a".into(), offset: 0 });
    history.settles[0] = settle("two", "a", span(16, 17), CallOutcome::Ok);
    check(&history).assert_clean();
    // It had not expired if it was extended.
    history.extends.push(Extend {
        partition: "p".into(),
        lease: "one".into(),
        lease_for: Duration::from_secs(50),
        span: span(12, 13),
        answer: CallOutcome::Ok,
    });
    assert!(matches!(only_violation(&history), Violation::TwoHolders { .. }));
}

#[test]
fn an_inversion_of_deliveries_is_caught() {
    let mut history = right();
    history.deliveries[0].messages[0] = SeenMessage { message: "b".into(), offset: 1 };
    history.deliveries[1].messages[0] = SeenMessage { message: "a".into(), offset: 0 };
    history.settles[0].what = Some(("b".into(), Verdict::Completed));
    history.settles[2].what = Some(("a".into(), Verdict::Completed));
    assert!(
        matches!(only_violation(&history), Violation::OutOfOrder { message, .. } if message == "a")
    );
}

#[test]
fn an_inversion_of_pushes_is_caught() {
    let mut history = right();
    history.pushes[0].span = span(7, 8);
    history.pushes[1].span = span(3, 4);
    // "b" was acknowledged before "a" was pushed, but "a" lies before it.
    assert!(
        matches!(only_violation(&history), Violation::OutOfOrder { message, .. } if message == "a")
    );
    // Concurrent pushes may be in any order.
    history.pushes[1].span = span(3, 8);
    check(&history).assert_clean();
}

#[test]
fn a_redelivery_is_not_an_inversion() {
    let mut history = right();
    history.settles[0].answer = CallOutcome::Unknown;
    history.deliveries.push(delivery("three", span(30, 31), &[("a", 0)]));
    history.settles.push(settle("three", "a", span(32, 33), CallOutcome::Ok));
    check(&history).assert_clean();
}

#[test]
fn a_zombie_that_is_believed_is_caught() {
    let zombie = |lease_for, at, answer| {
        let mut history = right();
        history.deliveries[0].lease_for = Duration::from_secs(lease_for);
        history.deliveries[1].messages.insert(0, SeenMessage { message: "a".into(), offset: 0 });
        history.settles[0] = settle("one", "a", at, answer);
        history.dead_letters.push(("g".into(), "p".into(), "a".into()));
        history
    };
    // The settlement came after another lease got the partition.
    let history = zombie(3, span(16, 17), CallOutcome::Ok);
    assert!(
        matches!(only_violation(&history), Violation::ZombieSettle { lease, .. } if lease == "one")
    );
    check(&zombie(3, span(16, 17), CallOutcome::Refused)).assert_clean();
    // The settlement came after the lease had expired, although the partition was not claimed
    // again.
    let mut history = zombie(3, span(14, 15), CallOutcome::Ok);
    history.deliveries.truncate(1);
    history.settles.truncate(1);
    history.drained_by.clear();
    assert!(matches!(only_violation(&history), Violation::ZombieSettle { .. }));
}

#[test]
fn a_settlement_of_what_was_not_held_is_caught() {
    let mut history = right();
    let mut unknown = settle("one", "c", span(11, 12), CallOutcome::Ok);
    unknown.what = Some(("c".into(), Verdict::Failed));
    history.settles.push(unknown);
    assert!(matches!(only_violation(&history), Violation::ZombieSettle { .. }));
}

#[test]
fn a_large_history_is_checked_in_one_go() {
    let mut history = ClientHistory { drained_by: vec!["g".into()], ..ClientHistory::default() };
    for n in 0..20_000_u64 {
        let (name, at) = (n.to_string(), n * 10);
        history.pushes.push(push(&name, span(at, at + 1), CallOutcome::Ok));
        let offset = i64::try_from(n).expect("a small number");
        history.deliveries.push(delivery(&name, span(at + 2, at + 3), &[(&name, offset)]));
        history.settles.push(settle(&name, &name, span(at + 4, at + 5), CallOutcome::Ok));
    }
    let report = check(&history);
    report.assert_clean();
    assert_eq!((report.acknowledged, report.delivered), (20_000, 20_000));
}
