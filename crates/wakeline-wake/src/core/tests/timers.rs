use super::*;

#[test]
fn timer_is_not_lost_because_another_claim_succeeded() {
    let mut rig = Rig::new(WakeMode::Fused);
    let ids = rig.park_many(3);
    rig.hint(ToyHint { due_in: S, ..hint(1) });
    rig.hint(ToyHint { due_in: 3 * S, ..hint(1) });
    assert!(rig.claims.is_empty(), "not due yet");
    rig.at(S / 2);
    rig.hint(hint(1));
    rig.found(1);
    rig.at(S - MS);
    assert!(rig.claims.is_empty(), "never early");
    rig.at(S);
    assert_eq!(rig.claims.len(), 1);
    rig.answer(1, Some(2 * S));
    rig.at(3 * S - MS);
    assert!(rig.claims.is_empty());
    rig.at(3 * S);
    rig.found(1);
    assert_eq!(rig.ended.len(), ids.len());
    assert_eq!(rig.claims_total(), 1 + 3, "one per timer, one for the work between");
}

#[test]
fn empty_claim_sets_the_next_due_time_rounded_up() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.arrive((1, 0), LONG);
    rig.empty(Some(Duration::from_micros(60_001)));
    rig.at(60 * MS);
    assert!(rig.claims.is_empty());
    rig.at(61 * MS);
    assert_eq!(rig.claims.len(), 1);
    assert_eq!(rig.core.counters.wakes.timer, 1);
}

#[test]
fn grace_period_is_added() {
    let config = LongPollConfig { timer_grace_period: 100 * MS, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    rig.arrive((1, 0), LONG);
    rig.empty(Some(S));
    rig.at(S + 99 * MS);
    assert!(rig.claims.is_empty());
    rig.at(S + 100 * MS);
    assert_eq!(rig.claims.len(), 1);
}

#[test]
fn timer_that_comes_during_a_claim_makes_the_line_claim_again() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let (mut rig, _) = Rig::with_parked(mode);
        rig.hint(ToyHint { due_in: 10 * MS, ..hint(1) });
        rig.hint(hint(1));
        rig.at(10 * MS);
        rig.empty(None);
        assert_eq!(rig.claims.len(), 1, "{mode}");
    }
}

#[test]
fn later_hint_leaves_emptiness_known() {
    let (mut rig, first) = Rig::with_parked(WakeMode::Fused);
    rig.hint(ToyHint { due_in: S, ..hint(1) });
    rig.arrive((1, 0), LONG);
    assert!(rig.claims.is_empty());
    rig.cancel(first);
    rig.at(S);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
}

#[test]
fn timer_of_a_line_without_waiters_makes_its_next_poll_claim() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.hint(ToyHint { due_in: S, ..hint(1) });
    rig.cancel(id);
    rig.at(2 * S);
    assert!(rig.claims.is_empty());
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.claims.len(), 1);
}

#[test]
fn work_due_at_the_deadline_is_claimed_for() {
    let mut rig = Rig::new(WakeMode::Fused);
    let id = rig.arrive((1, 0), Patience::Wait(S));
    rig.empty(Some(S));
    rig.at(S);
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
}

#[test]
fn store_that_says_now_and_returns_nothing_is_not_called_in_a_loop() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.arrive((1, 0), LONG);
    rig.empty(Some(Duration::ZERO));
    while rig.core.now < S {
        let next = rig.core.next_wakeup().expect("a timer");
        rig.at(next);
        while !rig.claims.is_empty() {
            rig.empty(Some(Duration::ZERO));
        }
    }
    assert!(rig.claims_total() < 45, "{}", rig.claims_total());
}

#[test]
fn failing_claims_are_repeated_at_the_pace_that_was_set_last() {
    let config = LongPollConfig { degraded_poll_interval: 3600 * S, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    rig.core.set_degraded_poll_interval(50 * MS);
    let id = rig.arrive((1, 0), LONG);
    rig.fail();
    rig.at(50 * MS);
    rig.fail();
    rig.at(150 * MS);
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
}
