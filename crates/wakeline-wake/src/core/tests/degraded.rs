use super::*;

#[test]
fn lost_link_polls_all_lines_in_one_call_in_every_hint_mode() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let mut rig = Rig::new(mode);
        for line in [(1, 0), (1, 0), (2, 0)] {
            rig.arrive(line, LONG);
        }
        rig.settle();
        rig.core.link(down());
        rig.pump();
        assert_eq!(rig.log, ["degraded"]);
        rig.at(100 * MS);
        assert_eq!(rig.in_flight(), [[((1, 0), 2), ((2, 0), 1)]], "{mode}");
        rig.settle();
        rig.at(200 * MS);
        assert_eq!(rig.claims.len(), 1);
        assert_eq!(rig.core.counters.wakes.listener_lost, 4);
        let degraded = rig.core.snapshot().degraded.expect("degraded");
        assert_eq!(degraded.reason, "the connection that receives notifications is lost: cut");
        assert_eq!(degraded.since, 200 * MS);
    }
}

/// Corresponds to `test_exits_aggressive_after_consecutive_empty_successes` of the original design.
#[test]
fn polling_ends_after_the_duration_and_clean_claims_once_the_link_is_up() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    rig.core.link(down());
    for _ in 0..10 {
        rig.arrive((1, 0), Patience::Now);
    }
    rig.settle();
    rig.core.link(Link::Up);
    rig.idle_until(29 * S);
    rig.arrive((1, 0), LONG);
    rig.idle_until(58 * S);
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.log, ["degraded"], "clean claims alone do not end it");
    rig.idle_until(61 * S);
    assert_eq!(rig.log, ["degraded", "recovered"]);
    let before = rig.claims_total();
    rig.idle_until(80 * S);
    assert_eq!(rig.claims_total(), before, "idle again");
}

/// Corresponds to `test_stays_aggressive_while_processing_work` of the original design.
#[test]
fn polling_goes_on_while_the_link_is_down_or_work_is_found() {
    let config = LongPollConfig {
        aggressive_poll_duration: S,
        aggressive_exit_threshold: 2,
        ..LongPollConfig::default()
    };
    let mut rig = Rig::with(WakeMode::Fused, config);
    rig.arrive((1, 0), LONG);
    rig.core.link(down());
    rig.idle_until(20 * S);
    assert_eq!(rig.log, ["degraded"]);
    rig.core.link(Link::Up);
    rig.at(20 * S + 100 * MS);
    rig.empty(None);
    assert_eq!(rig.log, ["degraded"], "one clean claim is not two");
    rig.at(20 * S + 200 * MS);
    rig.found(1);
    rig.arrive((1, 0), LONG);
    rig.empty(None);
    assert_eq!(rig.log, ["degraded"], "in a row");
    rig.at(20 * S + 400 * MS);
    rig.empty(None);
    assert_eq!(rig.log, ["degraded", "recovered"]);
}

#[test]
fn without_waiters_degraded_polling_ends_by_time_and_makes_no_claims() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.core.link(down());
    rig.idle_until(5 * S);
    rig.core.link(Link::Up);
    rig.idle_until(60 * S);
    assert_eq!(rig.log, ["degraded", "recovered"]);
    assert_eq!(rig.claims_total(), 0);
}

#[test]
fn ordinary_hints_and_timers_do_not_start_polling() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    rig.hint(hint(1));
    rig.empty(Some(S));
    rig.at(S);
    rig.empty(None);
    assert_eq!(rig.core.snapshot().degraded, None);
    assert_eq!(rig.core.next_wakeup(), Some(30 * S));
}

#[test]
fn an_error_begins_the_count_of_clean_claims_again_and_not_the_time() {
    let config = LongPollConfig { max_wait_time: 600 * S, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    rig.arrive((1, 0), Patience::Wait(600 * S));
    rig.fail();
    rig.idle_until(59_850 * MS);
    rig.at(59_900 * MS);
    rig.fail();
    rig.idle_until(60_200 * MS);
    assert_eq!(rig.log, ["degraded"], "not five clean claims since the error");
    rig.idle_until(61 * S);
    assert_eq!(rig.log, ["degraded", "recovered"], "the minute counts from the first error");
}

/// Corresponds to `test_stays_aggressive_during_intermittent_errors` of the original design.
#[test]
fn claims_that_succeed_and_fail_in_turn_keep_it_polling() {
    let config = LongPollConfig { max_wait_time: 600 * S, ..LongPollConfig::default() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    rig.arrive((1, 0), Patience::Wait(600 * S));
    rig.fail();
    let mut fails = false;
    while rig.core.now < 180 * S {
        let next = rig.core.next_wakeup().expect("the next poll");
        rig.at(next);
        while !rig.claims.is_empty() {
            if fails {
                rig.fail()
            } else {
                rig.empty(None)
            }
            fails = !fails;
        }
    }
    assert_eq!(rig.log, ["degraded"], "three times the duration, and never five clean ones");
    rig.idle_until(182 * S);
    assert_eq!(rig.log, ["degraded", "recovered"]);
}

/// Corresponds to `test_enters_aggressive_when_notify_delivery_times_out` of the original design.
#[test]
fn unanswered_hint_wakes_all_waiters_and_starts_polling() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.park_many(3);
    rig.hint(hint(1));
    assert_eq!(rig.claims.len(), 1);
    rig.at(99 * MS);
    assert_eq!(rig.log, [""; 0]);
    rig.at(100 * MS);
    assert_eq!(rig.log, ["degraded"]);
    assert_eq!(rig.claims.len(), 2, "as many as may be under way");
    assert_eq!(rig.core.counters.wakes.delivery_timeout, 2);
}

#[test]
fn answered_hint_and_hint_without_waiters_time_out_nothing() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.hint(hint(1));
    rig.at(90 * MS);
    rig.empty(None);
    rig.cancel(id);
    rig.hint(hint(1));
    rig.at(S);
    assert_eq!(rig.core.snapshot().degraded, None);
}

/// Corresponds to `test_enters_aggressive_mode_on_db_error` of the original design.
#[test]
fn failing_claims_back_off_and_waiters_stay_parked() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.hint(hint(1));
    rig.fail();
    assert_eq!(rig.log, ["degraded"]);
    while !rig.ended.contains_key(&id) {
        let next = rig.core.next_wakeup().expect("a deadline");
        rig.at(next);
        while !rig.claims.is_empty() {
            rig.fail();
        }
    }
    assert!(rig.core.counters.claims.error < 40, "{}", rig.core.counters.claims.error);
    assert_eq!(rig.core.now, 30 * S);
    assert_eq!(rig.ended[&id], Ended::Failed("no database".into()));
}

#[test]
fn waiter_gets_its_work_when_claims_work_again() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Compete);
    rig.hint(hint(1));
    rig.fail();
    rig.at(100 * MS);
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
    assert_eq!(rig.core.counters.wakes.claim_error, 1);
}

#[test]
fn impatient_poll_gets_the_error_even_while_others_are_held_back() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    for _ in 0..3 {
        let id = rig.arrive((2, 0), Patience::Now);
        rig.fail();
        assert_eq!(rig.ended[&id], Ended::Failed("no database".into()));
    }
    rig.hint(hint(1));
    assert!(rig.claims.is_empty(), "claims for those who can wait are held back");
    let later = rig.core.next_wakeup().expect("the end of the hold");
    rig.idle_until(later + S);
    assert!(rig.core.counters.claims.empty > 1);
}

#[test]
fn line_whose_claims_always_fail_does_not_affect_other_lines() {
    let mut rig = Rig::new(WakeMode::Fused);
    let good: Vec<_> = (1..=7).map(|topic| rig.arrive((topic, 0), LONG)).collect();
    rig.arrive((8, 0), LONG);
    rig.settle();
    rig.core.everything();
    rig.pump();
    while good.iter().any(|id| !rig.ended.contains_key(id)) {
        match rig.claims.front() {
            Some(seen) if seen.lines.iter().any(|(line, _)| line.0 == 8) => rig.fail(),
            Some(seen) => {
                let requests = seen.lines.len();
                rig.found(requests);
            }
            None => {
                let next = rig.core.next_wakeup().expect("a retry");
                rig.at(next);
            }
        }
        assert!(rig.core.now < 5 * S, "{:?}", rig.ended);
    }
}

#[test]
fn line_whose_claims_always_fail_is_tried_less_and_less_often() {
    let mut rig = Rig::new(WakeMode::Fused);
    rig.arrive((8, 0), LONG);
    rig.fail();
    rig.arrive((1, 0), LONG);
    while rig.core.now < 20 * S {
        match rig.claims.front() {
            Some(seen) if seen.lines.iter().any(|(line, _)| line.0 == 8) => rig.fail(),
            Some(_) => rig.empty(None),
            None => {
                let next = rig.core.next_wakeup().expect("the next poll");
                rig.at(next);
            }
        }
    }
    let claims = rig.core.counters.claims;
    assert!(claims.error < 15, "{claims:?}");
    assert!(claims.empty > 100, "its neighbour is polled as ever: {claims:?}");
}

/// Lets every claim fail until the store works again; returns when the next one begins.
fn next_claim_after_an_outage(mode: WakeMode, heals: Duration) -> Duration {
    let config = LongPollConfig { max_wait_time: 600 * S, ..LongPollConfig::default() };
    let mut rig = Rig::with(mode, config);
    for line in [(1, 0), (1, 0), (2, 0), (3, 0)] {
        rig.arrive(line, Patience::Wait(600 * S));
    }
    rig.settle();
    rig.core.link(down());
    rig.pump();
    loop {
        while !rig.claims.is_empty() {
            rig.fail();
        }
        let next = rig.core.next_wakeup().expect("the next try");
        rig.at(next);
        if next >= heals && !rig.claims.is_empty() {
            return next;
        }
    }
}

#[test]
fn however_long_an_outage_lasted_claims_are_tried_again_within_a_second_of_its_end() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        for tenth in (1..=100).chain([600, 1_237, 3_000]) {
            let heals = tenth * 100 * MS;
            let waited = next_claim_after_an_outage(mode, heals) - heals;
            assert!(waited <= S, "{mode}: {waited:?} after an outage of {heals:?}");
        }
    }
}

#[test]
fn an_answer_of_the_store_ends_the_holding_back_of_all_lines() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.arrive((2, 0), LONG);
    rig.settle();
    rig.core.link(down());
    while rig.core.now < 10 * S {
        let next = rig.core.next_wakeup().expect("the next try");
        rig.at(next);
        while !rig.claims.is_empty() {
            rig.fail();
        }
    }
    rig.core.store_answered();
    let next = rig.core.next_wakeup().expect("the next poll");
    assert!(next - rig.core.now <= 100 * MS, "{next:?}");
    rig.at(next);
    assert_eq!(rig.in_flight().concat(), [((1, 0), 1), ((2, 0), 1)], "as degraded polling does");
    while rig.claims.front().is_some_and(|seen| seen.lines[0].0 != (1, 0)) {
        rig.empty(None);
    }
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
}

#[test]
fn reconnect_ends_the_holding_back() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    for _ in 0..5 {
        rig.arrive((2, 0), Patience::Now);
        rig.fail();
    }
    rig.core.everything();
    rig.pump();
    assert_eq!(rig.claims.len(), 1);
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
}

#[test]
fn claim_that_never_ends_frees_its_slot() {
    let (mut rig, _) = Rig::with_parked(WakeMode::Fused);
    let impatient = rig.arrive((1, 0), Patience::Now);
    let seen = rig.claims.pop_front().expect("a claim");
    rig.core.claim_failed(seen.call, None);
    rig.pump();
    assert_eq!(rig.ended[&impatient], Ended::Drained);
    rig.at(100 * MS);
    assert_eq!(rig.claims.len(), 1);
}

#[test]
fn five_minutes_with_an_event_a_minute_cost_under_a_claim_per_second() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let mut rig = Rig::new(mode);
        rig.park_many(4);
        let before = rig.claims_total();
        let mut next_event = 50 * S;
        let mut served = 0;
        while rig.core.now < 300 * S {
            let next = rig.core.next_wakeup().expect("deadlines").min(next_event);
            rig.at(next);
            poll_again(&mut rig);
            if next == next_event {
                rig.hint(hint(1));
                rig.found(1);
                served += rig.ended.len();
                poll_again(&mut rig);
                next_event += 60 * S;
            }
        }
        assert_eq!(served, 5);
        let claims = rig.claims_total() - before;
        assert!(claims < 60, "{mode}: {claims} claims in 300 s");
    }
}

/// Lets every waiter that was answered poll again.
fn poll_again(rig: &mut Rig) {
    for _ in 0..rig.ended.drain().count() {
        rig.arrive((1, 0), LONG);
    }
    rig.settle();
}

#[test]
fn a_waiter_for_which_a_lost_claim_may_have_taken_something_is_answered() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let mut rig = Rig::new(mode);
        let ParkOutcome::Parked(id, _) = rig.core.park((1, 0), UNREPEATABLE, LONG) else {
            panic!("the poll was accepted");
        };
        rig.pump();
        rig.fail();
        assert_eq!(rig.ended, HashMap::new(), "{mode}: another error takes nothing");
        rig.at(10 * S);
        let seen = rig.claims.pop_front().expect("it is claimed for again");
        rig.core.claim_failed(seen.call, Some("lost".into()));
        rig.pump();
        assert_eq!(rig.ended, HashMap::from([(id, Ended::Failed("lost".into()))]), "{mode}");
        assert_eq!(rig.core.waiters(), 0, "{mode}");
    }
}
