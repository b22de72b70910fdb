use super::*;

#[test]
fn every_waiter_claims_for_itself() {
    let mut rig = Rig::new(WakeMode::Broadcast);
    rig.park_many(100);
    let before = rig.claims_total();
    rig.hint(hint(1));
    assert_eq!(rig.claims.len(), 2, "bounded by claims_in_flight_max");
    rig.found(1);
    rig.settle();
    assert_eq!(rig.claims_total() - before, 100);
    assert_eq!(rig.ended.len(), 1);
}

#[test]
fn waiter_in_a_claim_claims_again_if_a_hint_came_meanwhile() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Broadcast);
    rig.hint(hint(1));
    rig.hint(hint(1));
    assert_eq!(rig.claims.len(), 1);
    rig.empty(None);
    assert_eq!(rig.claims.len(), 1);
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
}

#[test]
fn only_concerned_waiters_claim() {
    let mut rig = Rig::new(WakeMode::Broadcast);
    for line in [(1, 0), (1, 1), (2, 0)] {
        rig.arrive(line, LONG);
    }
    rig.settle();
    rig.hint(ToyHint { group: Some(1), ..hint(1) });
    assert_eq!(rig.in_flight(), [[((1, 1), 1)]]);
}
