//! Random inputs: no waiter is left parked while something that it waits for is pending.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::core::arrivals::WaiterStage;
use crate::core::timers::TimerPurpose;
use crate::mode::{PollGrouping, PollMode};

#[derive(Debug, Clone)]
enum Input {
    Park { line: ToyLine, millis: u64 },
    Cancel(usize),
    Hint { topic: Option<u32>, group: Option<u8>, due_millis: u64 },
    Everything,
    Link(bool),
    Advance(u64),
    Answer { found: usize, due_millis: Option<u64>, further: bool },
    Fail,
    Swept { due_millis: Option<u64> },
    Released(usize),
}

fn input() -> impl Strategy<Value = Input> {
    let line = (0..3u32, 0..2u8);
    prop_oneof![
        6 => (line, prop_oneof![Just(0), 1..2_000u64, Just(30_000)])
            .prop_map(|(line, millis)| Input::Park { line, millis }),
        2 => any::<prop::sample::Index>().prop_map(|at| Input::Cancel(at.index(64))),
        5 => (prop::option::weighted(0.9, 0..3u32), prop::option::of(0..2u8), prop_oneof![
            3 => Just(0), 1 => 1..3_000u64])
            .prop_map(|(topic, group, due_millis)| Input::Hint { topic, group, due_millis }),
        1 => Just(Input::Everything),
        1 => any::<bool>().prop_map(Input::Link),
        4 => prop_oneof![0..200u64, 0..70_000u64].prop_map(Input::Advance),
        8 => (0..4usize, prop::option::of(0..3_000u64), any::<bool>()).prop_map(
            |(found, due_millis, further)| Input::Answer { found, due_millis, further }),
        1 => Just(Input::Fail),
        2 => prop::option::of(prop_oneof![Just(0), 1..3_000u64])
            .prop_map(|due_millis| Input::Swept { due_millis }),
        1 => (0..3usize).prop_map(Input::Released),
    ]
}

fn mode() -> impl Strategy<Value = WakeMode> {
    prop_oneof![
        Just(WakeMode::Fused),
        Just(WakeMode::Compete),
        Just(WakeMode::Broadcast),
        Just(WakeMode::Poll(PollMode::default())),
        Just(WakeMode::Poll(PollMode { grouping: PollGrouping::Waiter, ..PollMode::default() })),
    ]
}

/// What the test knows about the waiters, independently of the core.
#[derive(Default)]
struct Ledger {
    arrived: Vec<WaiterId>,
    cancelled: BTreeSet<WaiterId>,
}

fn apply(rig: &mut Rig, ledger: &mut Ledger, input: Input) {
    match input {
        Input::Park { line, millis } => {
            let patience = Patience::Wait(Duration::from_millis(millis));
            if let ParkOutcome::Parked(id, _) = rig.core.park(line, 1, patience) {
                ledger.arrived.push(id);
            }
        }
        Input::Cancel(at) => {
            if let Some(id) = ledger.arrived.get(at).copied()
                && !rig.ended.contains_key(&id)
            {
                ledger.cancelled.insert(id);
                rig.core.cancel(id);
            }
        }
        Input::Hint { topic, group, due_millis } => {
            let due_in = Duration::from_millis(due_millis);
            rig.core.hint(&[ToyHint { topic, group, due_in }], HintSource::Notify);
        }
        Input::Everything => rig.core.everything(),
        Input::Link(true) => rig.core.link(Link::Up),
        Input::Link(false) => rig.core.link(Link::Down { reason: "cut".into() }),
        Input::Advance(millis) => rig.at(rig.core.now + Duration::from_millis(millis)),
        Input::Answer { found, due_millis, further } if !rig.claims.is_empty() => {
            rig.further = further;
            rig.answer(found, due_millis.map(Duration::from_millis));
        }
        Input::Fail if !rig.claims.is_empty() => rig.fail(),
        Input::Swept { due_millis } => {
            if let Some(lines) = rig.sweeps.pop_front() {
                rig.core.swept(vec![due_millis.map(Duration::from_millis); lines.len()]);
            }
        }
        Input::Released(at) => {
            if let Some(line) = rig.core.lines.ids().get(at).copied() {
                rig.core.released(&[line]);
            }
        }
        Input::Answer { .. } | Input::Fail => {}
    }
    rig.pump();
}

/// Checks the core's invariants, between any two inputs.
fn check(rig: &Rig, ledger: &Ledger) -> Result<(), TestCaseError> {
    let core = &rig.core;
    prop_assert!(core.calls.len() <= core.config.claims_in_flight_max);
    let full = core.calls.len() == core.config.claims_in_flight_max;
    let held = core.now < core.health.held_until;
    if !full && !held {
        prop_assert!(!core.claim_queue.has_calm(), "a claim waits although a slot is free");
    }
    for id in core.lines.ids() {
        let line = core.lines.get(id).expect("listed");
        let members: Vec<_> = core.waiters.values().filter(|i| i.line == id).collect();
        let at_stage = |stage| members.iter().filter(|i| i.stage == stage).count();
        prop_assert_eq!(line.idle.len(), at_stage(WaiterStage::Idle));
        prop_assert_eq!(line.queued, at_stage(WaiterStage::Queued));
        prop_assert_eq!(line.busy, at_stage(WaiterStage::InCall));
        if core.mode.claims_by_line() {
            prop_assert!(line.calls.len() <= 1, "a line is in at most one claim");
        }
        if !line.idle.is_empty() && core.mode.uses_hints() {
            let scheduled = line.queued > 0
                || line.place.is_some()
                || !line.calls.is_empty()
                || core.timers.get(TimerPurpose::DegradedPoll).is_some();
            let pending = line.hinted.is_some() || line.wake_owed || line.dirty;
            prop_assert!(!pending || scheduled, "a hint is pending and nothing is planned");
            prop_assert!(
                scheduled || line.empty_at.is_some(),
                "a waiter is parked in a line that is not known to be empty"
            );
            prop_assert!(
                core.timers.get(TimerPurpose::Sweep).is_some() || core.waiting == 0,
                "a waiter without a sweep to come"
            );
        }
    }
    if !core.mode.uses_hints() {
        let idle = core.waiters.iter().filter(|(_, i)| i.stage == WaiterStage::Idle);
        for (id, waiter) in idle {
            let line = core.lines.get(waiter.line).expect("it has a waiter");
            let planned = if core.mode.claims_by_line() {
                let next = core.timers.get(TimerPurpose::LinePoll(waiter.line));
                next.is_some() || line.place.is_some() || !line.calls.is_empty()
            } else {
                core.timers.get(TimerPurpose::Poll(*id)).is_some()
            };
            prop_assert!(planned, "a waiter without a next poll");
        }
    }
    for id in &ledger.arrived {
        let alive = core.waiters.contains_key(id);
        let gone = rig.ended.contains_key(id) || ledger.cancelled.contains(id);
        prop_assert!(alive != gone, "{:?} is lost, or answered and still there", id);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_waiter_is_parked_despite_a_pending_hint_without_a_planned_claim(
        mode in mode(),
        inputs in prop::collection::vec(input(), 1..120),
    ) {
        let mut rig = Rig::new(mode);
        let mut ledger = Ledger::default();
        for input in inputs {
            apply(&mut rig, &mut ledger, input);
            check(&rig, &ledger)?;
        }
        // Left alone with a working store, every waiter is answered within its patience.
        rig.core.link(Link::Up);
        rig.pump();
        rig.idle_until(rig.core.now + 40 * S);
        check(&rig, &ledger)?;
        prop_assert_eq!(rig.core.waiters(), 0);
        prop_assert_eq!(rig.core.waiting, 0);
    }
}
