use super::*;
use crate::mode::PollMode;

fn fixed() -> WakeMode {
    WakeMode::Poll(PollMode { adaptive: false, ..PollMode::default() })
}

fn adaptive() -> WakeMode {
    WakeMode::Poll(PollMode::default())
}

/// When the next claim begins.
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
    let mut rig = Rig::new(fixed());
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
    let mut rig = Rig::new(adaptive());
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
    assert!(matches!(big, Parked::Yes(..)));
    rig.pump();
    rig.found(1);
    assert!(rig.claims.is_empty(), "one of five is not full: nobody hurries");
    rig.arrive((1, 0), LONG);
    rig.found(1);
    assert_eq!(rig.claims.len(), 1, "one of one is full: the next goes at once");
}

#[test]
fn failing_claims_are_spaced_out() {
    let mut rig = Rig::new(fixed());
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
