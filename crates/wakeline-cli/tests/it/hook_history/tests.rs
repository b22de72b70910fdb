//! Tests of the checker itself, with histories that violate one guarantee each.

use super::*;

const SECOND: i64 = 1_000_000;

fn arrival(request: &str, at: i64, answer: Option<u16>) -> Arrival {
    Arrival {
        request: request.to_owned(),
        endpoint: "e".to_owned(),
        message: "msg".to_owned(),
        mark: "w-1".to_owned(),
        at,
        answer,
        retry_after: Duration::ZERO,
        verified: true,
    }
}

fn logged(number: u64, outcome: &str, began_at: i64, answer: Option<(u16, &str)>) -> Logged {
    Logged {
        endpoint: "e".to_owned(),
        message: "msg".to_owned(),
        number,
        outcome: outcome.to_owned(),
        began_at,
        answer: answer.map(|(status, request)| (status, request.to_owned())),
    }
}

/// A history of three attempts: one was answered 500, one has no result because of a crash, and one
/// succeeded.
fn good() -> History {
    let endpoint = "e".to_owned();
    let rules = Rules {
        schedule: vec![Duration::from_secs(1); 5],
        lease: Duration::from_secs(11),
        ordered: true,
    };
    History {
        rules: [(endpoint.clone(), rules)].into(),
        accepted: vec![Accepted {
            mark: "w-1".to_owned(),
            message: "msg".to_owned(),
            endpoints: vec![endpoint.clone()],
        }],
        refused: vec!["x-1".to_owned()],
        arrivals: vec![
            arrival("r1", 10, Some(500)),
            arrival("r2", SECOND, Some(200)),
            arrival("r3", 12 * SECOND, Some(200)),
        ],
        log: vec![
            logged(1, "failed", 5, Some((500, "r1"))),
            logged(2, "unknown", SECOND - 10, None),
            logged(3, "succeeded", 12 * SECOND - 10, Some((200, "r3"))),
        ],
        planned: vec![Planned {
            endpoint: endpoint.clone(),
            message: "msg".to_owned(),
            seen_at: 20,
            next_at: SECOND - 20,
        }],
        ended: vec![Ended {
            endpoint,
            message: "msg".to_owned(),
            state: "delivered".to_owned(),
            attempts: 3,
        }],
    }
}

fn assert_violation(name: &str, corrupt: impl FnOnce(&mut History)) {
    let mut history = good();
    corrupt(&mut history);
    let violations = check(&history).violations;
    assert!(!violations.is_empty(), "no violation was found: {name}");
}

#[test]
fn a_correct_history_has_no_violations() {
    let report = check(&good());
    report.assert_clean();
    assert_eq!((report.measured, report.unknown), (2, 1));
}

#[test]
fn lost_messages_and_wrong_answers_are_found() {
    assert_violation("a message that never arrived", |h| {
        h.arrivals.clear();
        h.log.clear();
    });
    assert_violation("a delivery that still waits", |h| h.ended[0].state = "retrying".to_owned());
    assert_violation("a delivery that is not there", |h| h.ended.clear());
    assert_violation("only failures", |h| {
        h.arrivals.truncate(1);
        h.log.truncate(1);
        h.ended[0].attempts = 1;
    });
    assert_violation("a refused message that was sent", |h| {
        let refused = Arrival { mark: "x-1".to_owned(), ..arrival("r9", 0, Some(200)) };
        h.arrivals.push(refused);
    });
    assert_violation("one post, two messages", |h| {
        let other = Arrival { message: "other".to_owned(), ..arrival("r9", 0, None) };
        h.arrivals.push(other);
    });
    assert_violation("an endpoint that is not subscribed", |h| h.accepted[0].endpoints.clear());
    assert_violation("a bad signature", |h| h.arrivals[2].verified = false);
}

#[test]
fn requests_that_are_not_in_the_log_are_found() {
    assert_violation("a request too many", |h| {
        h.arrivals.push(arrival("r4", 13 * SECOND, Some(200)))
    });
    assert_violation("a request too many in the middle", |h| {
        h.arrivals.push(arrival("r4", 2 * SECOND, None));
    });
    assert_violation("an attempt that no receiver saw", |h| {
        h.log[2].answer = Some((200, "r7".to_owned()));
    });
    assert_violation("another status than was answered", |h| {
        h.log[0].answer = Some((503, "r1".to_owned()));
    });
    assert_violation("a failure that is logged as a success", |h| {
        h.log[0].outcome = "succeeded".to_owned()
    });
    assert_violation("a success without an answer", |h| h.log[2].answer = None);
    assert_violation("a gap in the numbers", |h| h.log[2].number = 4);
    assert_violation("a number twice", |h| h.log[2].number = 2);
    assert_violation("attempts that were not counted", |h| h.ended[0].attempts = 2);
    assert_violation("two attempts for one request", |h| {
        h.log.push(logged(4, "succeeded", 12 * SECOND, Some((200, "r3"))));
        h.ended[0].attempts = 4;
    });
}

#[test]
fn early_attempts_are_found() {
    assert_violation("a wait that was cut short", |h| h.arrivals[1].at = SECOND / 2);
    assert_violation("an attempt before the lease ended", |h| h.arrivals[2].at = 11 * SECOND);
    assert_violation("an attempt before Retry-After", |h| {
        h.arrivals[0].retry_after = Duration::from_secs(2);
    });
    assert_violation("an attempt before its planned time", |h| h.planned[0].next_at = SECOND + 20);
}

#[test]
fn disorder_is_found_where_order_is_guaranteed() {
    let two = |h: &mut History| {
        let mut later = good();
        later.accepted[0].mark = "w-2".to_owned();
        later.accepted[0].message = "later".to_owned();
        later.ended[0].message = "later".to_owned();
        later.ended[0].attempts = 1;
        h.accepted.extend(later.accepted);
        h.ended.extend(later.ended);
        let answer = Some((200, "r5"));
        let log = Logged { message: "later".to_owned(), ..logged(1, "succeeded", 5, answer) };
        h.log.push(log);
    };
    let request = |at| Arrival {
        message: "later".to_owned(),
        mark: "w-2".to_owned(),
        ..arrival("r5", at, Some(200))
    };
    let mut history = good();
    two(&mut history);
    history.arrivals.push(request(13 * SECOND));
    check(&history).assert_clean();
    assert_violation("a later one overtakes a retry", |h| {
        two(h);
        h.arrivals.push(request(2 * SECOND));
    });
    assert_violation("a later one comes first", |h| {
        two(h);
        h.arrivals.push(request(0));
    });
}
