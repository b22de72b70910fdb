use super::*;
use crate::mode::{PollGrouping, PollMode};

fn poll(adaptive: bool, grouping: PollGrouping) -> WakeMode {
    WakeMode::Poll(PollMode { adaptive, grouping, ..PollMode::default() })
}

fn fixed() -> WakeMode {
    poll(false, PollGrouping::Waiter)
}

fn grouped() -> WakeMode {
    WakeMode::Poll(PollMode::default())
}

/// Returns when the next claim begins.
fn next_claim(rig: &mut Rig) -> Duration {
    loop {
        let next = rig.core.next_wakeup().expect("a poll is planned");
        rig.at(next);
        if !rig.claims.is_empty() {
            return next;
        }
    }
}

#[test]
fn hints_timers_and_the_link_are_not_used() {
    for mode in [fixed(), grouped()] {
        let mut rig = Rig::new(mode);
        rig.arrive((1, 0), LONG);
        rig.empty(Some(10 * MS));
        rig.hint(hint(1));
        rig.core.everything();
        rig.core.link(Link::Off { reason: "not configured".into() });
        rig.at(99 * MS);
        assert!(rig.claims.is_empty());
        assert_eq!(rig.core.snapshot().degraded, None);
        rig.at(100 * MS);
        assert_eq!(rig.claims.len(), 1);
        rig.idle_until(29 * S);
        assert_eq!(rig.core.counters.sweeps, 0);
    }
}

#[test]
fn pick_up_is_measured_from_a_hint_that_woke_no_waiter() {
    for mode in [fixed(), grouped()] {
        let mut rig = Rig::new(mode);
        rig.park_many(1);
        rig.at(30 * MS);
        rig.hint(hint(1));
        rig.hint(hint(2));
        rig.at(100 * MS);
        rig.found(1);
        assert_eq!(rig.pickups, [70 * MS]);
    }
}

#[test]
fn without_a_hint_pick_up_is_measured_from_the_last_empty_claim() {
    for mode in [fixed(), grouped()] {
        let mut rig = Rig::new(mode);
        rig.park_many(1);
        rig.at(100 * MS);
        rig.empty(None);
        rig.at(200 * MS);
        rig.at(205 * MS);
        rig.found(1);
        assert_eq!(rig.pickups, [105 * MS]);
        // What was there when the waiter came has not kept any waiter waiting.
        rig.at(20 * S);
        rig.arrive((1, 0), LONG);
        rig.found(1);
        assert_eq!(rig.pickups.len(), 1);
    }
}

#[test]
fn what_a_full_batch_left_over_is_not_picked_up_late() {
    for mode in [fixed(), grouped()] {
        let mut rig = Rig::new(mode);
        rig.park_many(2);
        rig.at(100 * MS);
        let first = rig.claims.len();
        rig.found(1);
        if first == 1 {
            // Line grouping: one waiter got nothing, so that nothing is left.
            assert_eq!(rig.pickups, [100 * MS]);
            continue;
        }
        rig.at(150 * MS);
        rig.found(1);
        assert_eq!(rig.pickups, [100 * MS], "the second claim says nothing of when it came");
    }
}

#[test]
fn one_claim_per_interval_serves_all_waiters_of_a_line() {
    let mut rig = Rig::new(grouped());
    let ids = rig.park_many(100);
    let before = rig.claims_total();
    rig.idle_until(990 * MS);
    assert_eq!(rig.claims_total() - before, 9, "at 100, 200, .. 900 ms");
    rig.at(S);
    assert_eq!(rig.in_flight(), [[((1, 0), 100)]]);
    rig.found(2);
    assert_eq!(rig.ended[&ids[0]], Ended::Claimed(1), "the first to come is the first served");
    assert_eq!(rig.ended[&ids[1]], Ended::Claimed(1));
    rig.at(1_099 * MS);
    assert!(rig.claims.is_empty(), "98 went without: there is no more");
    rig.at(1_100 * MS);
    assert_eq!(rig.in_flight(), [[((1, 0), 98)]]);
}

#[test]
fn after_full_batches_for_all_that_a_claim_served_the_next_claim_goes_at_once() {
    let mut rig = Rig::new(grouped());
    rig.park_many(REQUESTS_PER_CALL_MAX + 1);
    rig.at(100 * MS);
    rig.found(REQUESTS_PER_CALL_MAX);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
}

#[test]
fn a_poll_that_arrives_during_a_claim_gets_one_that_began_after_it_came() {
    let mut rig = Rig::new(grouped());
    rig.arrive((1, 0), LONG);
    let short = rig.arrive((1, 0), Patience::Wait(50 * MS));
    rig.empty(None);
    assert_eq!(rig.in_flight(), [[((1, 0), 2)]]);
    rig.empty(None);
    rig.at(50 * MS);
    assert_eq!(rig.ended[&short], Ended::Empty);
}

#[test]
fn an_arrival_claims_at_once_and_moves_the_next_poll_of_its_line() {
    let mut rig = Rig::new(grouped());
    rig.park_many(1);
    rig.at(50 * MS);
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.in_flight(), [[((1, 0), 2)]]);
    rig.empty(None);
    rig.at(149 * MS);
    assert!(rig.claims.is_empty());
    rig.at(150 * MS);
    assert_eq!(rig.in_flight(), [[((1, 0), 2)]]);
}

#[test]
fn a_poll_that_does_not_wait_is_answered_by_a_claim_that_began_after_it_came() {
    let mut rig = Rig::new(grouped());
    rig.arrive((1, 0), LONG);
    let impatient = rig.arrive((1, 0), Patience::Now);
    rig.empty(None);
    assert!(!rig.ended.contains_key(&impatient));
    assert_eq!(rig.in_flight(), [[((1, 0), 2)]]);
    rig.empty(None);
    assert_eq!(rig.ended[&impatient], Ended::Empty);
}

#[test]
fn claims_find_items_or_none_and_all_of_them_count() {
    let mut rig = Rig::new(grouped());
    rig.park_many(2);
    rig.at(100 * MS);
    rig.found(2);
    assert_eq!(rig.items, [0, 0, 2], "the claims of the arrivals, and the poll");
}

#[test]
fn fixed_pace_claims_every_interval_for_each_waiter() {
    let mut rig = Rig::new(fixed());
    rig.arrive((1, 0), LONG);
    rig.arrive((1, 0), LONG);
    rig.settle();
    rig.idle_until(S);
    assert_eq!(rig.claims_total(), 22, "each at 0, 100, .. 1,000 ms, known emptiness or not");
}

#[test]
fn adaptive_pace_slows_down_while_idle_and_speeds_up_after_a_full_batch() {
    let mut rig = Rig::new(poll(true, PollGrouping::Waiter));
    rig.arrive((1, 0), LONG);
    let mut before = Duration::ZERO;
    for gap in [200, 400, 500, 500] {
        rig.empty(None);
        let now = next_claim(&mut rig);
        assert_eq!(now - before, gap * MS);
        before = now;
    }
    rig.found(1);
    rig.arrive((1, 0), LONG);
    rig.arrive((1, 0), LONG);
    rig.found(1);
    rig.empty(None);
    assert_eq!(next_claim(&mut rig) - before, 100 * MS, "twice the 50 ms after a full batch");
}

#[test]
fn full_batch_lets_the_next_waiter_claim_at_once() {
    let mut rig = Rig::new(fixed());
    rig.park_many(3);
    rig.at(100 * MS);
    assert_eq!(rig.claims.len(), 2, "the third waits for a slot");
    rig.empty(None);
    rig.empty(None);
    rig.empty(None);
    let big = rig.core.park((1, 0), 5, LONG);
    assert!(matches!(big, ParkOutcome::Parked(..)));
    rig.pump();
    rig.found(1);
    assert!(rig.claims.is_empty(), "one of five is not full: the pace stays");
    rig.arrive((1, 0), LONG);
    rig.found(1);
    assert_eq!(rig.claims.len(), 1, "one of one is full: the next goes at once");
}

#[test]
fn failing_claims_are_spaced_out() {
    for mode in [fixed(), grouped()] {
        let mut rig = Rig::new(mode);
        let id = rig.arrive((1, 0), LONG);
        let mut times = Vec::new();
        while !rig.ended.contains_key(&id) {
            rig.fail();
            while rig.claims.is_empty() && !rig.ended.contains_key(&id) {
                let next = rig.core.next_wakeup().expect("its deadline at least");
                rig.at(next);
            }
            times.push(rig.core.now);
        }
        assert!(times.len() < 40, "{times:?}");
        assert_eq!(rig.ended[&id], Ended::Failed("no database".into()));
    }
}
