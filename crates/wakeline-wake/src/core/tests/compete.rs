use super::*;

/// Corresponds to `test_only_one_dispatcher_wakes_per_notify` of the original design.
#[test]
fn one_waiter_per_hint_claims_for_itself() {
    let mut rig = Rig::new(WakeMode::Compete);
    let ids = rig.park_many(4);
    rig.hint(hint(1));
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
    rig.empty(None);
    assert!(rig.claims.is_empty());
    rig.hint(hint(1));
    rig.found(1);
    assert_eq!(rig.ended[&ids[0]], Ended::Claimed(1), "the first to come is the first served");
}

#[test]
fn found_work_wakes_the_next_so_a_folded_burst_fans_out() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.park_many(4);
    rig.hint(hint(1));
    for _ in 0..4 {
        assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
        rig.found(1);
    }
    assert_eq!(rig.ended.len(), 4);
    assert!(rig.claims.is_empty());
}

/// The original design's "Query count per work item: 1 query", for an API whose claims look
/// further.
#[test]
fn an_item_costs_one_claim_where_claims_say_that_there_is_no_more() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.further = true;
    let ids = rig.park_many(4);
    rig.hint(hint(1));
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
    rig.answer(1, Some(5 * S));
    assert_eq!(rig.ended[&ids[0]], Ended::Claimed(1));
    assert!(rig.claims.is_empty(), "no other waiter is woken");
    rig.arrive((1, 0), LONG);
    assert!(rig.claims.is_empty(), "and whoever comes back knows that there is nothing");
    rig.at(5 * S);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]], "until the next item is due");
}

#[test]
fn a_burst_fans_out_and_ends_where_claims_say_that_there_is_no_more() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.further = true;
    rig.park_many(8);
    rig.hint(hint(1));
    for left in [2, 1, 0] {
        assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
        rig.answer(1, (left > 0).then_some(Duration::ZERO));
    }
    assert_eq!((rig.ended.len(), rig.claims.len()), (3, 0), "three items, three claims");
}

#[test]
fn a_hint_during_a_claim_that_says_no_more_is_answered_by_the_next_claim() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.further = true;
    rig.park_many(2);
    rig.hint(hint(1));
    rig.hint(hint(1));
    assert_eq!(rig.claims.len(), 2);
    rig.hint(hint(1));
    rig.found(1);
    rig.empty(None);
    assert_eq!(rig.claims.len(), 1, "the third hint found both busy");
}

#[test]
fn wake_one_respects_filters() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.arrive((1, 0), LONG);
    let right = rig.arrive((1, 1), LONG);
    rig.settle();
    for _ in 0..3 {
        rig.hint(ToyHint { group: Some(1), ..hint(1) });
        assert_eq!(rig.in_flight(), [[((1, 1), 1)]]);
        rig.empty(None);
    }
    rig.hint(ToyHint { group: Some(1), ..hint(1) });
    rig.found(1);
    assert_eq!(rig.ended[&right], Ended::Claimed(1));
}

#[test]
fn cancelled_woken_waiter_passes_its_wake_on() {
    let config = LongPollConfig { claims_in_flight_max: 1, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Compete, config);
    let ids = rig.park_many(2);
    rig.arrive((9, 9), Patience::Now);
    rig.hint(hint(1));
    assert_eq!(rig.in_flight(), [[((9, 9), 1)]], "the only slot is taken");
    rig.cancel(ids[0]);
    rig.empty(None);
    assert_eq!(rig.in_flight(), [[((1, 0), 1)]]);
    rig.found(1);
    assert_eq!(rig.ended[&ids[1]], Ended::Claimed(1));
}

#[test]
fn woken_waiter_whose_time_is_up_passes_its_wake_on() {
    let config = LongPollConfig { claims_in_flight_max: 1, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Compete, config);
    let short = rig.arrive((1, 0), Patience::Wait(50 * MS));
    let long = rig.arrive((1, 0), LONG);
    rig.settle();
    rig.arrive((9, 9), Patience::Now);
    rig.hint(hint(1));
    rig.at(60 * MS);
    assert_eq!(rig.ended[&short], Ended::Empty);
    rig.empty(None);
    rig.found(1);
    assert_eq!(rig.ended[&long], Ended::Claimed(1));
}

#[test]
fn hint_that_finds_all_waiters_busy_makes_one_claim_again() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.arrive((1, 0), LONG);
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.claims.len(), 2, "each arrival claims for itself");
    rig.hint(hint(1));
    rig.empty(None);
    assert_eq!(rig.claims.len(), 2, "the first that comes back empty claims again");
    rig.empty(None);
    assert_eq!(rig.claims.len(), 1);
    rig.found(1);
    assert_eq!(rig.ended.len(), 1);
}

#[test]
fn reconnect_wakes_one_waiter_of_each_line() {
    let mut rig = Rig::new(WakeMode::Compete);
    for line in [(1, 0), (1, 0), (2, 0), (2, 0)] {
        rig.arrive(line, LONG);
    }
    rig.settle();
    rig.core.everything();
    rig.pump();
    assert_eq!(rig.in_flight(), [[((1, 0), 1)], [((2, 0), 1)]]);
    assert_eq!(rig.core.counters.wakes.reconnect, 2);
}
