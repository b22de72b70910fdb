//! The history checker lets right histories pass and catches each way to break a promise.

use std::time::Duration;

use wakeline_core::Verdict;
use wakeline_testkit::history::{
    Answer, Delivery, Extend, History, Push, Report, Seen, Settle, Span, Violation, check,
};

fn span(from: u64, to: u64) -> Span {
    Span { from: Duration::from_secs(from), to: Duration::from_secs(to) }
}

fn push(message: &str, at: (u64, u64), answer: Answer) -> Push {
    Push { partition: "p".into(), message: message.into(), span: span(at.0, at.1), answer }
}

fn delivery(lease: &str, at: (u64, u64), messages: &[(&str, i64)]) -> Delivery {
    let seen =
        |(message, offset): &(&str, i64)| Seen { message: (*message).into(), offset: *offset };
    Delivery {
        group: "g".into(),
        partition: "p".into(),
        lease: Some(lease.into()),
        lease_for: Duration::from_secs(100),
        span: span(at.0, at.1),
        messages: messages.iter().map(seen).collect(),
    }
}

fn settle(lease: &str, message: &str, at: (u64, u64), answer: Answer) -> Settle {
    Settle {
        group: "g".into(),
        partition: "p".into(),
        lease: lease.into(),
        what: Some((message.into(), Verdict::Completed)),
        span: span(at.0, at.1),
        answer,
    }
}

/// Two messages, delivered and completed one after the other; then a third, whose push was of
/// unknown outcome.
fn right() -> History {
    History {
        pushes: vec![
            push("a", (1, 2), Answer::Ok),
            push("b", (3, 4), Answer::Ok),
            push("c", (5, 6), Answer::Unknown),
        ],
        deliveries: vec![
            delivery("one", (10, 11), &[("a", 0)]),
            delivery("two", (14, 15), &[("b", 1), ("c", 2)]),
        ],
        settles: vec![
            settle("one", "a", (12, 13), Answer::Ok),
            settle("two", "c", (16, 17), Answer::Ok),
            settle("two", "b", (18, 19), Answer::Ok),
        ],
        drained_by: vec!["g".into()],
        ..History::default()
    }
}

fn only_violation(history: &History) -> Violation {
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
    history.settles.push(settle("one", "a", (12, 13), Answer::Unknown));
    check(&history).assert_clean();
    // Every group must have it.
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
    history.pushes[2].answer = Answer::Refused;
    let expected = Violation::Unexpected { partition: "p".into(), message: "c".into() };
    assert_eq!(only_violation(&history), expected);
    history.pushes.remove(2);
    assert_eq!(only_violation(&history), expected);
}

#[test]
fn a_message_stored_twice_is_caught() {
    let mut history = right();
    history.pushes[2] = push("b", (5, 6), Answer::Ok);
    history.deliveries[1].messages[1].message = "b".into();
    history.settles.remove(1);
    assert!(
        matches!(only_violation(&history), Violation::StoredTwice { message, .. } if message == "b")
    );
}

#[test]
fn a_duplicate_effect_is_caught() {
    let mut history = right();
    history.settles.push(settle("one", "a", (12, 14), Answer::Ok));
    assert!(matches!(only_violation(&history), Violation::DuplicateEffect { .. }));
}

#[test]
fn a_delivery_after_completion_is_caught() {
    let mut history = right();
    history.deliveries.push(delivery("three", (20, 21), &[("a", 0)]));
    assert!(matches!(only_violation(&history), Violation::DuplicateEffect { .. }));
}

#[test]
fn two_holders_are_caught() {
    let mut history = right();
    // "one" is settled only at 30, but "two" is given the partition at 15.
    history.settles[0].span = span(30, 31);
    history.settles[0].answer = Answer::Refused;
    history.settles.push(settle("two", "a", (16, 17), Answer::Ok));
    history.deliveries[1].messages.insert(0, Seen { message: "a".into(), offset: 0 });
    assert_eq!(
        only_violation(&history),
        Violation::TwoHolders { partition: "p".into(), first: "one".into(), second: "two".into() }
    );
}

#[test]
fn a_lease_that_may_have_ended_has_no_second_holder() {
    let mut history = right();
    // The settlement was made before the second grant was answered: it may have counted before.
    history.settles[0].span = span(14, 40);
    check(&history).assert_clean();
    // The lease ran out in time.
    let mut history = right();
    history.deliveries[0].lease_for = Duration::from_secs(4);
    history.deliveries[1].messages.insert(0, Seen { message: "a".into(), offset: 0 });
    history.settles[0] = settle("two", "a", (16, 17), Answer::Ok);
    check(&history).assert_clean();
    // Unless it was extended.
    history.extends.push(Extend {
        partition: "p".into(),
        lease: "one".into(),
        lease_for: Duration::from_secs(50),
        span: span(12, 13),
        answer: Answer::Ok,
    });
    assert!(matches!(only_violation(&history), Violation::TwoHolders { .. }));
}

#[test]
fn an_inversion_of_deliveries_is_caught() {
    let mut history = right();
    history.deliveries[0].messages[0] = Seen { message: "b".into(), offset: 1 };
    history.deliveries[1].messages[0] = Seen { message: "a".into(), offset: 0 };
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
    // At the same time they may lie in any order.
    history.pushes[1].span = span(3, 8);
    check(&history).assert_clean();
}

#[test]
fn a_redelivery_is_not_an_inversion() {
    let mut history = right();
    history.settles[0].answer = Answer::Unknown;
    history.deliveries.push(delivery("three", (30, 31), &[("a", 0)]));
    history.settles.push(settle("three", "a", (32, 33), Answer::Ok));
    check(&history).assert_clean();
}

#[test]
fn a_zombie_that_is_believed_is_caught() {
    let zombie = |lease_for, at, answer| {
        let mut history = right();
        history.deliveries[0].lease_for = Duration::from_secs(lease_for);
        history.deliveries[1].messages.insert(0, Seen { message: "a".into(), offset: 0 });
        history.settles[0] = settle("one", "a", at, answer);
        history.dead_letters.push(("g".into(), "p".into(), "a".into()));
        history
    };
    // After its successor was given the partition.
    let history = zombie(3, (16, 17), Answer::Ok);
    assert!(
        matches!(only_violation(&history), Violation::ZombieSettle { lease, .. } if lease == "one")
    );
    check(&zombie(3, (16, 17), Answer::Refused)).assert_clean();
    // After its own time, though nobody else came.
    let mut history = zombie(3, (14, 15), Answer::Ok);
    history.deliveries.truncate(1);
    history.settles.truncate(1);
    history.drained_by.clear();
    assert!(matches!(only_violation(&history), Violation::ZombieSettle { .. }));
}

#[test]
fn a_settlement_of_what_was_not_held_is_caught() {
    let mut history = right();
    let mut foreign = settle("one", "c", (11, 12), Answer::Ok);
    foreign.what = Some(("c".into(), Verdict::Failed));
    history.settles.push(foreign);
    assert!(matches!(only_violation(&history), Violation::ZombieSettle { .. }));
}

#[test]
fn a_large_history_is_checked_in_one_go() {
    let mut history = History { drained_by: vec!["g".into()], ..History::default() };
    for n in 0..20_000_u64 {
        let (name, at) = (n.to_string(), n * 10);
        history.pushes.push(push(&name, (at, at + 1), Answer::Ok));
        let offset = i64::try_from(n).expect("a small number");
        history.deliveries.push(delivery(&name, (at + 2, at + 3), &[(&name, offset)]));
        history.settles.push(settle(&name, &name, (at + 4, at + 5), Answer::Ok));
    }
    let report = check(&history);
    report.assert_clean();
    assert_eq!((report.acknowledged, report.delivered), (20_000, 20_000));
}
