use super::*;

#[test]
fn background_work_is_not_polled_for_unless_a_claim_for_it_failed() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.arrive((9, OWN), LONG);
    let consumer = rig.arrive((1, 0), LONG);
    rig.settle();
    rig.core.link(down());
    rig.at(100 * MS);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
    rig.settle();
    rig.hint(hint(9));
    assert_eq!(rig.in_flight(), [[((9, OWN), 1)]], "its hints wake it");
    rig.fail();
    rig.cancel(consumer);
    rig.at(200 * MS);
    assert_eq!(rig.in_flight(), [[((9, OWN), 1)]]);
    rig.settle();
    let before = rig.claims_total();
    rig.core.link(Link::Up);
    rig.idle_until(29 * S);
    rig.arrive((9, OWN), LONG);
    rig.idle_until(58 * S);
    rig.arrive((9, OWN), LONG);
    rig.idle_until(61 * S);
    assert_eq!(rig.log, ["degraded", "recovered"], "it keeps no polling alive");
    assert_eq!(rig.claims_total() - before, 2, "one for each arrival");
}

/// Creates one of the API's own waiters whose claim failed, after which a claim of another waiter,
/// which does not wait, succeeded.
fn failed_then_answered_for_another() -> Rig {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.arrive((9, OWN), LONG);
    rig.settle();
    rig.hint(hint(9));
    rig.fail();
    rig.arrive((1, 0), Patience::Now);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
    rig.empty(None);
    rig
}

#[test]
fn failed_background_work_is_repeated_though_a_claim_of_others_succeeds() {
    let mut rig = failed_then_answered_for_another();
    rig.at(100 * MS);
    assert_eq!(rig.in_flight(), [[((9, OWN), 1)]], "not left to the sweep");
    rig.settle();
    let before = rig.claims_total();
    rig.idle_until(29 * S);
    assert_eq!(rig.claims_total(), before, "once it has succeeded nothing polls for it");
}

#[test]
fn degraded_polling_does_not_end_before_failed_background_work_is_repeated() {
    let config = LongPollConfig { max_wait_time: 600 * S, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Compete, config);
    rig.arrive((9, OWN), Patience::Wait(600 * S));
    while rig.core.now < 58 * S {
        match rig.claims.front() {
            Some(seen) if seen.lines.iter().any(|(line, _)| line.1 == OWN) => {
                rig.fail();
                rig.arrive((1, 0), Patience::Now);
            }
            Some(_) => rig.empty(None),
            None => {
                let next = rig.core.next_wakeup().expect("the next try");
                rig.at(next);
                rig.sweeps.drain(..).for_each(drop);
            }
        }
    }
    assert_eq!(rig.log, ["degraded"]);
    while rig.claims.is_empty() {
        let next = rig.core.next_wakeup().expect("the next try");
        assert!(next < 66 * S, "a line's claims are at most 5 s apart");
        rig.at(next);
        rig.sweeps.drain(..).for_each(drop);
    }
    assert_eq!(rig.in_flight(), [[((9, OWN), 1)]]);
    assert_eq!(rig.log, ["degraded"], "it went on for it");
    rig.settle();
    rig.idle_until(67 * S);
    assert_eq!(rig.log, ["degraded", "recovered"]);
}
