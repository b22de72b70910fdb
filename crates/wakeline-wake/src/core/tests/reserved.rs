//! Waiters that a write serves in its own commit.

use super::*;

fn all_modes() -> [WakeMode; 3] {
    [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast]
}

/// Creates a rig with `n` waiters parked on line (1, 0), which is known to be empty.
fn parked(mode: WakeMode, n: usize) -> (Rig, Vec<WaiterId>) {
    let mut rig = Rig::new(mode);
    let ids = rig.park_many(n);
    (rig, ids)
}

#[test]
fn a_reserved_waiter_is_served_without_a_claim() {
    for mode in all_modes() {
        let (mut rig, ids) = parked(mode, 2);
        let mut reserved = rig.core.reserve(&hint(1), 1);
        assert_eq!(reserved.len(), 1);
        rig.core.unreserve(reserved.remove(0), Some(1));
        rig.pump();
        assert_eq!(rig.ended.get(&ids[0]), Some(&Ended::Claimed(1)), "the one that waited longest");
        assert_eq!(rig.ended.get(&ids[1]), None);
        assert!(rig.claims.is_empty(), "{mode}: nothing was left to claim");
        assert_eq!(rig.core.counters().leased_on_insert, 1);
    }
}

#[test]
fn a_hint_for_a_reserved_waiter_is_not_lost() {
    for mode in all_modes() {
        let (mut rig, ids) = parked(mode, 1);
        let mut reserved = rig.core.reserve(&hint(1), 5);
        assert_eq!(reserved.len(), 1);
        rig.core.hint(&[hint(1)], HintSource::Notify);
        rig.pump();
        assert!(rig.claims.is_empty(), "{mode}: there is no waiter to claim for");
        rig.core.unreserve(reserved.remove(0), None);
        rig.pump();
        assert_eq!(rig.claims.len(), 1, "{mode}: it claims when it is back");
        rig.found(1);
        assert_eq!(rig.ended.get(&ids[0]), Some(&Ended::Claimed(1)));
    }
}

#[test]
fn a_reserved_waiter_that_was_not_served_waits_on() {
    for mode in all_modes() {
        let (mut rig, ids) = parked(mode, 1);
        let mut reserved = rig.core.reserve(&hint(1), 1);
        rig.core.unreserve(reserved.remove(0), None);
        rig.pump();
        assert!(rig.claims.is_empty() && rig.ended.is_empty(), "{mode}");
        rig.core.hint(&[hint(1)], HintSource::InProcess);
        rig.pump();
        rig.found(1);
        assert_eq!(rig.ended.get(&ids[0]), Some(&Ended::Claimed(1)));
    }
}

#[test]
fn what_was_leased_to_a_waiter_that_left_is_released() {
    for mode in all_modes() {
        let (mut rig, ids) = parked(mode, 1);
        let mut reserved = rig.core.reserve(&hint(1), 1);
        rig.core.cancel(ids[0]);
        rig.core.unreserve(reserved.remove(0), Some(1));
        rig.pump();
        assert_eq!(rig.released, [1], "{mode}");
    }
}

#[test]
fn waiters_that_cannot_take_it_do_not_wait_or_are_claimed_for_are_left_alone() {
    let (mut rig, _) = parked(WakeMode::Fused, 1);
    assert!(rig.core.reserve(&hint(2), 1).is_empty(), "another topic");
    let other_group = ToyHint { group: Some(9), ..hint(1) };
    assert!(rig.core.reserve(&other_group, 1).is_empty(), "another filter");
    rig.core.hint(&[hint(1)], HintSource::InProcess);
    assert!(rig.core.reserve(&hint(1), 1).is_empty(), "it is being claimed for");
    let mut polling = Rig::new(WakeMode::Poll(crate::mode::PollMode::default()));
    polling.arrive((1, 0), LONG);
    polling.empty(None);
    assert!(polling.core.reserve(&hint(1), 1).is_empty(), "poll mode uses no hints");
}
