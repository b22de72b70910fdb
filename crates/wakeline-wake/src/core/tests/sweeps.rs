use super::*;

#[test]
fn clients_that_poll_again_cost_one_sweep_a_minute_and_no_claim() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let mut rig = Rig::new(mode);
        rig.park_many(100);
        let first = rig.claims_total();
        while rig.core.now < 600 * S {
            let next = rig.core.next_wakeup().expect("deadlines");
            rig.core.advance(next);
            // They come back while the sweep of the same moment is in flight.
            rig.pump();
            let gone: Vec<_> = rig.ended.drain().collect();
            for (_, end) in gone {
                assert_eq!(end, Ended::Empty);
                rig.arrive((1, 0), LONG);
            }
            rig.settle();
        }
        assert_eq!(rig.claims_total() - first, 0, "{mode}");
        assert_eq!(rig.core.counters.sweeps, 10, "{mode}");
        assert_eq!(rig.core.counters.missed_hints, 0);
    }
}

#[test]
fn without_waiters_there_is_no_sweep() {
    let (mut rig, id) = Rig::with_parked(WakeMode::Fused);
    rig.cancel(id);
    rig.idle_until(600 * S);
    assert_eq!(rig.core.counters.sweeps, 0);
}

fn long_waits() -> LongPollConfig {
    LongPollConfig { max_wait_time: 1_000 * S, ..LongPollConfig::default() }
}

fn swept_as(rig: &mut Rig, due: Option<Duration>) {
    rig.at(60 * S);
    let lines = rig.sweeps.pop_front().expect("a sweep");
    assert_eq!(lines, [(1, 0)]);
    rig.core.swept(vec![due]);
    rig.pump();
}

#[test]
fn sweep_that_finds_work_claims_and_counts_the_missed_hint() {
    let mut rig = Rig::with(WakeMode::Fused, long_waits());
    let id = rig.arrive((1, 0), Patience::Wait(900 * S));
    rig.empty(None);
    swept_as(&mut rig, Some(Duration::ZERO));
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
    assert_eq!(rig.core.counters.wakes.fallback, 1);
    rig.at(61 * S);
    assert_eq!(rig.core.counters.missed_hints, 1);
}

#[test]
fn hint_that_comes_just_after_the_sweep_was_not_missed() {
    let mut rig = Rig::with(WakeMode::Fused, long_waits());
    rig.arrive((1, 0), Patience::Wait(900 * S));
    rig.empty(None);
    swept_as(&mut rig, Some(Duration::ZERO));
    rig.hint(hint(1));
    rig.settle();
    rig.at(61 * S);
    assert_eq!(rig.core.counters.missed_hints, 0);
}

#[test]
fn sweep_learns_timers_without_a_claim() {
    let mut rig = Rig::with(WakeMode::Fused, long_waits());
    rig.arrive((1, 0), Patience::Wait(900 * S));
    rig.empty(None);
    swept_as(&mut rig, Some(5 * S));
    assert!(rig.claims.is_empty());
    rig.at(65 * S);
    assert_eq!(rig.claims.len(), 1);
    assert_eq!(rig.core.counters.missed_hints, 0);
}

#[test]
fn hint_during_a_sweep_is_not_undone_by_its_answer() {
    let mut rig = Rig::with(WakeMode::Fused, long_waits());
    let id = rig.arrive((1, 0), Patience::Wait(900 * S));
    rig.empty(None);
    rig.at(60 * S);
    rig.hint(hint(1));
    rig.found(1);
    assert_eq!(rig.ended[&id], Ended::Claimed(1));
    rig.sweeps.pop_front();
    rig.core.swept(vec![None]);
    rig.arrive((1, 0), LONG);
    assert_eq!(rig.claims.len(), 1, "the line is not known to be empty");
}

#[test]
fn a_sweep_call_reads_at_most_a_thousand_lines() {
    let mut rig = Rig::with(WakeMode::Fused, long_waits());
    for topic in 0..2_500 {
        rig.arrive((topic, 0), Patience::Wait(900 * S));
        rig.settle();
    }
    rig.at(60 * S);
    let mut sizes = Vec::new();
    while let Some(lines) = rig.sweeps.pop_front() {
        sizes.push(lines.len());
        rig.core.swept(vec![None; lines.len()]);
        rig.pump();
    }
    assert_eq!(sizes, [1_000, 1_000, 500]);
    assert_eq!(rig.core.counters.sweeps, 1);
}

#[test]
fn failed_sweep_starts_polling() {
    let mut rig = Rig::with(WakeMode::Fused, long_waits());
    rig.arrive((1, 0), Patience::Wait(900 * S));
    rig.empty(None);
    rig.at(60 * S);
    rig.core.sweep_failed(Some(&"gone".into()));
    rig.at(60 * S + 100 * MS);
    assert_eq!(rig.claims.len(), 1);
}

fn widening() -> LongPollConfig {
    LongPollConfig {
        fallback_poll_interval_max: 900 * S,
        max_wait_time: 100_000 * S,
        ..LongPollConfig::default()
    }
}

/// Lets time pass until the next sweep, and returns when that is.
fn next_sweep(rig: &mut Rig) -> Duration {
    while rig.sweeps.is_empty() {
        let next = rig.core.next_wakeup().expect("a sweep is planned");
        rig.at(next);
    }
    rig.core.now
}

#[test]
fn the_time_between_sweeps_doubles_while_they_find_nothing() {
    let mut rig = Rig::with(WakeMode::Fused, widening());
    rig.arrive((1, 0), Patience::Wait(100_000 * S));
    rig.empty(None);
    let mut before = Duration::ZERO;
    for gap in [60, 60, 120, 240, 480, 900, 900] {
        let now = next_sweep(&mut rig);
        assert_eq!(now - before, gap * S);
        before = now;
        rig.settle();
    }
    rig.arrive((1, 0), LONG);
    assert!(rig.claims.is_empty(), "the line is known to be empty until the next sweep");
    rig.at(before + S);
    rig.hint(hint(1));
    rig.empty(None);
    let now = next_sweep(&mut rig);
    assert_eq!(now - before, 900 * S, "an ordinary hint changes nothing");
}

#[test]
fn a_missed_hint_resets_the_sweep_interval() {
    let mut rig = Rig::with(WakeMode::Fused, widening());
    rig.arrive((1, 0), Patience::Wait(100_000 * S));
    rig.empty(None);
    for _ in 0..5 {
        next_sweep(&mut rig);
        rig.settle();
    }
    let now = next_sweep(&mut rig);
    let lines = rig.sweeps.pop_front().expect("a sweep");
    rig.core.swept(vec![Some(Duration::ZERO); lines.len()]);
    rig.pump();
    rig.empty(None);
    rig.at(now + 100 * MS);
    assert_eq!(rig.core.counters.missed_hints, 1);
    assert_eq!(next_sweep(&mut rig) - now, 60 * S + 100 * MS);
}

#[test]
fn failures_reset_the_sweep_interval() {
    let mut rig = Rig::with(WakeMode::Fused, widening());
    rig.arrive((1, 0), Patience::Wait(100_000 * S));
    rig.empty(None);
    for _ in 0..5 {
        next_sweep(&mut rig);
        rig.settle();
    }
    let mut before = rig.core.now;
    rig.core.link(down());
    rig.pump();
    let mut sweep_while_polling = |rig: &mut Rig| {
        while rig.sweeps.is_empty() {
            let next = rig.core.next_wakeup().expect("polls");
            rig.at(next);
            while !rig.claims.is_empty() {
                rig.empty(None);
            }
        }
        rig.settle();
        let gap = rig.core.now - before;
        before = rig.core.now;
        gap
    };
    for _ in 0..4 {
        assert_eq!(sweep_while_polling(&mut rig), 60 * S, "sweeps prove nothing meanwhile");
    }
    rig.core.link(Link::Up);
    rig.pump();
    assert_eq!(sweep_while_polling(&mut rig), 60 * S);
    assert_eq!(rig.log, ["degraded", "recovered"]);
    assert_eq!(sweep_while_polling(&mut rig), 60 * S, "the first that proves something");
    assert_eq!(sweep_while_polling(&mut rig), 120 * S);
}

#[test]
fn a_line_that_is_still_swept_is_remembered_however_short_the_interval_is() {
    let config = LongPollConfig { fallback_poll_interval: 40 * MS, ..widening() };
    let mut rig = Rig::with(WakeMode::Fused, config);
    rig.arrive((1, 0), Patience::Wait(10 * S));
    rig.empty(None);
    rig.idle_until(10 * S + 900 * MS);
    rig.arrive((1, 0), LONG);
    assert!(rig.claims.is_empty(), "it is known to be empty");
}
