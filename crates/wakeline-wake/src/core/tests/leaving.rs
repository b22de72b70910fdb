use super::*;
use crate::core::arrivals::OVERRUN_MAX;

#[test]
fn patience_is_capped_by_max_wait_time() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    let id = rig.arrive((1, 0), Patience::Wait(3_600 * S));
    rig.at(30 * S - MS);
    assert!(!rig.ended.contains_key(&id));
    rig.at(30 * S);
    assert_eq!(rig.ended[&id], Ended::Empty);
    assert_eq!(rig.core.waiters(), 0);
}

#[test]
fn waiter_whose_claim_is_under_way_at_its_deadline_gets_what_it_finds() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.at(30 * S - MS);
    rig.hint(hint(1));
    rig.at(30 * S);
    assert!(rig.ended.is_empty());
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
}

#[test]
fn wait_ends_even_if_the_claim_hangs_and_its_result_is_released() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.at(30 * S - MS);
    rig.hint(hint(1));
    rig.at(30 * S);
    rig.at(30 * S + OVERRUN_MAX);
    assert_eq!(rig.ended[&id], Ended::Empty);
    rig.found(1);
    assert_eq!(rig.released, [1]);
}

#[test]
fn waiter_without_patience_leaves_at_once_if_parked_and_with_its_claim_otherwise() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let (mut rig, parked) = Rig::with_parked(mode);
        rig.core.end_patience(parked);
        rig.pump();
        assert_eq!(rig.ended[&parked], Ended::Empty, "{mode}");
        for found in [0, 1] {
            let id = rig.arrive((1, 0), LONG);
            rig.hint(hint(1));
            rig.core.end_patience(id);
            rig.pump();
            assert!(!rig.ended.contains_key(&id), "{mode}: its claim is under way");
            rig.found(found);
            let end = if found > 0 { Ended::Claimed(1) } else { Ended::Empty };
            assert_eq!(rig.ended[&id], end, "{mode}");
            rig.settle();
        }
        assert!(rig.released.is_empty(), "{mode}: {:?}", rig.released);
    }
}

#[test]
fn result_for_a_cancelled_waiter_is_released_and_offered_to_the_next() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let mut rig = Rig::new(mode);
        let ids = rig.park_many(2);
        rig.hint(hint(1));
        rig.cancel(ids[0]);
        assert_eq!(rig.core.waiters(), 1, "gone at once");
        rig.found(1);
        assert_eq!(rig.released, [1]);
        rig.settle();
        let line = rig.core.waiters[&ids[1]].line;
        rig.core.released(&[line]);
        rig.pump();
        rig.found(1);
        assert_eq!(rig.ended[&ids[1]], Ended::Claimed(1), "{mode}");
    }
}

#[test]
fn result_for_a_forgotten_line_is_released() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.hint(hint(1));
    rig.cancel(id);
    rig.at(600 * S);
    assert_eq!(rig.core.snapshot().lines_remembered, 0);
    rig.found(1);
    assert_eq!(rig.released, [1]);
}

#[test]
fn drain_answers_parked_waiters_at_once_and_those_in_a_claim_by_its_end() {
    let mut rig = Rig::new(WakeMode::Compete);
    let ids = rig.park_many(3);
    rig.hint(hint(1));
    rig.core.drain();
    rig.pump();
    assert_eq!(rig.ended.len(), 2);
    assert!(rig.ended.values().all(|end| *end == Ended::Drained));
    rig.found(1);
    assert_eq!(rig.ended[&ids[0]], Ended::Claimed(1));
    assert_eq!(rig.core.counters.wakes.shutdown, 3);
    assert_eq!(rig.core.park((1, 0), 1, LONG), ParkOutcome::Drained);
    let id = rig.arrive((1, 0), Patience::Now);
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1), "a poll that does not wait still claims");
}

#[test]
fn drained_waiter_in_an_empty_claim_is_answered_as_drained() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.hint(hint(1));
    rig.core.drain();
    rig.empty(None);
    assert_eq!(rig.ended[&id], Ended::Drained);
}

#[test]
fn ten_thousand_cancellations_leave_nothing_behind() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let mut rig = Rig::new(mode);
        let ids = rig.park_many(10_000);
        rig.hint(hint(1));
        for id in ids {
            rig.cancel(id);
        }
        rig.settle();
        assert_eq!(rig.core.waiters(), 0);
        assert_eq!(rig.core.waiting, 0);
        assert_eq!(rig.core.claim_queue.len(), 0, "{mode}");
        rig.at(61 * S);
        assert_eq!(rig.core.next_wakeup(), None, "{mode}");
    }
}
