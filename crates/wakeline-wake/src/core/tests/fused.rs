use super::*;

#[test]
fn one_claim_serves_all_waiters_in_order_of_arrival() {
    let mut rig = Rig::new(WakeMode::Fused);
    let ids = rig.park_many(5);
    rig.hint(hint(1));
    assert_eq!(rig.in_flight(), [[((1, 0), 5)]]);
    rig.found(3);
    for id in &ids[..3] {
        assert_eq!(rig.ended[id], Ended::Claimed(1));
    }
    assert_eq!(rig.ended.len(), 3, "waiters that got nothing stay parked");
    assert!(rig.claims.is_empty(), "the claim that left some without showed that it is empty");
    rig.hint(hint(1));
    rig.found(2);
    assert_eq!(rig.ended.len(), 5);
}

#[test]
fn hint_between_empty_claim_and_wait_is_not_lost() {
    let mut rig = Rig::new(WakeMode::Fused);
    let id = rig.arrive((1, 0), LONG);
    rig.hint(hint(1));
    assert_eq!(rig.claims.len(), 1, "a line is in at most one claim");
    rig.empty(None);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]], "the hint came after the claim had begun");
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
}

#[test]
fn waiting_poll_on_a_line_known_to_be_empty_parks_without_a_claim() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    rig.arrive((1, 0), LONG);
    assert!(rig.claims.is_empty());
    rig.arrive((1, 1), LONG);
    assert_eq!(rig.in_flight(), [[((1, 1), 1)]], "another group's line is not known");
}

#[test]
fn poll_that_does_not_wait_always_claims() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    let id = rig.arrive((1, 0), Patience::Now);
    assert_eq!(rig.in_flight(), [[((1, 0), 2)]]);
    let late = rig.arrive((1, 0), Patience::Now);
    rig.empty(None);
    assert_eq!(rig.ended[&id], Ended::Empty);
    assert!(!rig.ended.contains_key(&late), "its claim has to begin after its arrival");
    rig.empty(None);
    assert_eq!(rig.ended[&late], Ended::Empty);
    assert_eq!(rig.ended.len(), 2);
}

#[test]
fn emptiness_is_not_trusted_after_a_hint_or_a_lost_link_or_the_interval() {
    let (mut rig, first) = Rig::with_parked(WakeMode::Fused);
    rig.cancel(first);
    rig.hint(hint(1));
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.claims.len(), 1, "a hint came while there was no waiter");
    rig.empty(None);
    rig.core.link(Link::Down { reason: "cut".into() });
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.claims.len(), 1, "hints may be lost");

    let (mut rig, first) = Rig::with_parked(WakeMode::Fused);
    rig.cancel(first);
    rig.at(59 * S);
    let second = rig.arrive((1, 0), LONG);
    assert!(rig.claims.is_empty());
    rig.cancel(second);
    rig.at(61 * S);
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.claims.len(), 1, "what was known is too old");
}

#[test]
fn full_claim_says_nothing_about_emptiness() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.hint(hint(1));
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.claims.len(), 1);
}

#[test]
fn arrival_during_a_claim_is_claimed_for_if_that_claim_was_full() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.arrive((1, 0), LONG);
    let second = rig.arrive((1, 0), LONG);
    rig.found(1);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
    rig.empty(None);
    assert!(!rig.ended.contains_key(&second));
    assert!(rig.claims.is_empty());
}

#[test]
fn several_dirty_lines_share_one_call() {
    let mut rig = Rig::with(
        WakeMode::Fused,
        LongPollConfig { claims_in_flight_max: 1, ..LongPollConfig::default() },
    );
    for topic in 1..=3 {
        rig.arrive((topic, 0), LONG);
    }
    assert_eq!(rig.claims.len(), 1);
    rig.settle();
    let all = ToyHint { topic: None, ..hint(0) };
    rig.hint(all);
    assert_eq!(rig.in_flight(), [[((1, 0), 1), ((2, 0), 1), ((3, 0), 1)]]);
}

#[test]
fn a_batch_of_hints_makes_one_claim() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.park_many(3);
    rig.core.hint(&[hint(1), hint(1), hint(1)], HintSource::Notify);
    rig.pump();
    assert_eq!(rig.in_flight(), [[((1, 0), 3)]]);
    rig.empty(None);
    assert!(rig.claims.is_empty());
    assert_eq!(rig.core.counters.wakes.notify, 1);
    assert_eq!(rig.core.counters.hints.notify, 3);
}

#[test]
fn at_most_a_thousand_requests_go_in_one_call_and_the_rest_follows() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.park_many(1_500);
    rig.hint(hint(1));
    assert_eq!(rig.in_flight(), [[((1, 0), 1_000)]]);
    rig.found(1_000);
    assert_eq!(rig.in_flight(), [[((1, 0), 500)]]);
    rig.found(500);
    assert_eq!(rig.ended.len(), 1_500);
}

#[test]
fn impatient_poll_behind_a_thousand_is_answered_by_their_empty_claim() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.park_many(1_000);
    let id = rig.arrive((1, 0), Patience::Now);
    assert_eq!(rig.in_flight(), [[((1, 0), 1_000)]]);
    rig.found(999);
    assert_eq!(rig.ended[&id], Ended::Empty);
}

#[test]
fn hints_wake_only_the_lines_that_they_concern() {
    let mut rig = Rig::new(WakeMode::Fused);
    for line in [(1, 0), (1, 1), (2, 0)] {
        rig.arrive(line, LONG);
    }
    rig.settle();
    rig.hint(ToyHint { group: Some(1), ..hint(1) });
    assert_eq!(rig.in_flight(), [[((1, 1), 1)]]);
}

#[test]
fn pick_up_is_measured_from_the_first_hint() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    rig.at(S);
    rig.hint(hint(1));
    rig.at(S + 2 * MS);
    rig.hint(hint(1));
    rig.at(S + 7 * MS);
    rig.found(1);
    assert_eq!(rig.pickups, [7 * MS]);
}

#[test]
fn too_many_waiters_are_refused_but_impatient_polls_are_not() {
    let mut rig =
        Rig::with(WakeMode::Fused, LongPollConfig { waiters_max: 2, ..LongPollConfig::default() });
    let ids = rig.park_many(2);
    assert_eq!(rig.core.park((1, 0), 1, LONG), ParkOutcome::TooMany);
    rig.arrive((1, 0), Patience::Now);
    rig.settle();
    rig.cancel(ids[0]);
    rig.arrive((1, 0), LONG);
}

#[test]
fn switched_off_nothing_waits() {
    let config = LongPollConfig { enabled: false, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    let id = rig.arrive((1, 0), LONG);
    rig.empty(None);
    assert_eq!(rig.ended[&id], Ended::Empty);
    let id = rig.arrive((1, 0), Patience::Wait(Duration::ZERO));
    assert_eq!(rig.claims.len(), 1);
    rig.empty(None);
    assert_eq!(rig.ended[&id], Ended::Empty);
}

#[test]
fn memory_of_lines_without_waiters_is_bounded() {
    let config = LongPollConfig { waiters_max: 10, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    for topic in 0..1_000 {
        rig.arrive((topic, 0), Patience::Now);
        rig.settle();
    }
    rig.at(S);
    assert_eq!(rig.core.snapshot().lines_remembered, 10);
    rig.at(61 * S);
    assert_eq!(rig.core.snapshot().lines_remembered, 0);
    assert_eq!(rig.core.next_wakeup(), None, "an idle hub needs no wakeup");
}
