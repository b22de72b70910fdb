//! An invalid request is answered alone, and does not count as a failure of the store.

use super::*;

/// Every mode in which hints wake.
const MODES: [WakeMode; 3] = [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast];

#[test]
fn a_refused_waiter_is_answered_alone() {
    let mut rig = Rig::new(WakeMode::Fused);
    let first = rig.arrive((1, 0), LONG);
    let [second, third] = [(); 2].map(|()| rig.arrive((1, 0), LONG));
    rig.empty(None);
    rig.settle();
    rig.hint(hint(1));
    rig.refuse(&[1]);
    assert_eq!(rig.ended, HashMap::from([(second, Ended::Failed("wrong".into()))]));
    assert!(rig.log.is_empty() && !rig.core.is_degraded());
    rig.hint(hint(1));
    rig.found(2);
    assert_eq!(rig.ended[&first], Ended::Claimed(1));
    assert_eq!(rig.ended[&third], Ended::Claimed(1));
}

#[test]
fn refusals_neither_degrade_nor_hold_up_the_claims_of_others() {
    for mode in MODES {
        let (mut rig, innocent) = Rig::with_parked(mode);
        for topic in 2..50 {
            let wrong = rig.arrive((topic, 0), LONG);
            rig.refuse(&[0]);
            assert_eq!(rig.ended[&wrong], Ended::Failed("wrong".into()), "{mode}");
        }
        assert!(!rig.core.is_degraded() && rig.log.is_empty(), "{mode}");
        let claims = rig.core.counters.claims;
        assert_eq!((claims.refused, claims.error), (48, 0), "{mode}");
        rig.hint(hint(1));
        assert_eq!(rig.in_flight(), [[((1, 0), 1)]], "{mode}: it is claimed for at once");
        rig.found(1);
        assert_eq!(rig.ended[&innocent], Ended::Claimed(1), "{mode}");
    }
}

#[test]
fn a_refused_line_of_a_call_says_nothing_of_the_others() {
    let config = LongPollConfig { claims_in_flight_max: 1, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    let busy = rig.arrive((9, 0), Patience::Now);
    let waits = [rig.arrive((1, 0), LONG), rig.arrive((2, 0), LONG), rig.arrive((3, 0), LONG)];
    rig.empty(None);
    assert_eq!(rig.in_flight(), [[((1, 0), 1), ((2, 0), 1), ((3, 0), 1)]], "one call for all");
    rig.refuse(&[1]);
    assert_eq!(rig.ended[&busy], Ended::Empty);
    assert_eq!(rig.ended[&waits[1]], Ended::Failed("wrong".into()));
    assert_eq!((rig.core.waiters(), rig.core.is_degraded()), (2, false));
}

#[test]
fn a_wake_spent_on_an_invalid_request_goes_to_the_next_waiter() {
    let (mut rig, wrong) = Rig::with_parked(WakeMode::Compete);
    let next = rig.arrive((1, 0), LONG);
    rig.settle();
    rig.hint(hint(1));
    rig.refuse(&[0]);
    assert_eq!(rig.ended[&wrong], Ended::Failed("wrong".into()));
    rig.found(1);
    assert_eq!(rig.ended[&next], Ended::Claimed(1));
}

#[test]
fn a_call_that_only_refused_does_not_end_degraded_polling() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    rig.hint(hint(1));
    rig.fail();
    assert!(rig.core.is_degraded());
    let clean = |rig: &Rig| rig.core.counters.claims.empty;
    let before = clean(&rig);
    for topic in 2..20 {
        rig.arrive((topic, 0), Patience::Now);
        rig.refuse(&[0]);
    }
    assert!(rig.core.is_degraded());
    assert_eq!(clean(&rig), before);
}
