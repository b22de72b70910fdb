use super::*;
use crate::config::AggressiveOn;

fn any_wake() -> LongPollConfig {
    LongPollConfig {
        aggressive_on: AggressiveOn::AnyWake,
        fallback_poll_interval: 300 * S,
        max_wait_time: 600 * S,
        ..LongPollConfig::default()
    }
}

/// Creates a waiter with a long patience, parked after an empty claim with this next-due time.
fn parked_with_any_wake(mode: WakeMode, next_due: Option<Duration>) -> Rig {
    let mut rig = Rig::with(mode, any_wake());
    rig.arrive((1, 0), Patience::Wait(600 * S));
    rig.empty(next_due);
    rig
}

/// Corresponds to `test_enters_aggressive_mode_on_notify` of the original design.
#[test]
fn any_wake_starts_polling_if_configured() {
    let mut rig = parked_with_any_wake(WakeMode::Compete, None);
    let before = rig.claims_total();
    rig.hint(hint(1));
    rig.empty(None);
    rig.idle_until(10 * S);
    assert_eq!(rig.claims_total() - before, 1 + 100, "polls ten times a second");
}

#[test]
fn with_any_wake_a_timer_starts_polling() {
    let mut rig = parked_with_any_wake(WakeMode::Compete, Some(2 * S));
    rig.at(1_999 * MS);
    assert_eq!(rig.log, [""; 0]);
    rig.at(2 * S);
    assert_eq!(rig.log, ["degraded"]);
    rig.settle();
    rig.idle_until(12 * S);
    assert_eq!(rig.claims_total(), 1 + 1 + 100);
}

#[test]
fn with_any_wake_a_sweep_starts_polling_even_if_it_finds_nothing() {
    let mut rig = parked_with_any_wake(WakeMode::Compete, None);
    rig.at(299_999 * MS);
    assert_eq!(rig.log, [""; 0]);
    rig.at(300 * S);
    assert_eq!(rig.log, ["degraded"]);
    rig.settle();
    rig.idle_until(310 * S);
    assert_eq!(rig.claims_total(), 1 + 100);
}

#[test]
fn with_any_wake_an_error_and_a_lost_link_start_polling_as_they_do_without() {
    let troubles: [fn(&mut Rig); 2] = [
        |rig| {
            rig.arrive((2, 0), LONG);
            rig.fail();
        },
        |rig| rig.core.link(down()),
    ];
    for trouble in troubles {
        let mut rig = parked_with_any_wake(WakeMode::Compete, None);
        trouble(&mut rig);
        rig.pump();
        assert_eq!(rig.log, ["degraded"]);
    }
}

#[test]
fn a_wake_while_polling_neither_counts_nor_prolongs() {
    let mut rig = parked_with_any_wake(WakeMode::Fused, None);
    rig.hint(hint(1));
    rig.empty(None);
    rig.idle_until(59 * S);
    rig.hint(hint(1));
    rig.empty(None);
    rig.idle_until(61 * S);
    assert_eq!(rig.log, ["degraded", "recovered"]);
}
