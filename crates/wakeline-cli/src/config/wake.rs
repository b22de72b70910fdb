//! The wake mode, and the pace of poll mode.

use wakeline_wake::{PollGrouping, PollMode, WakeMode};

use super::{ServeArgs, millis, words};

pub(super) fn wake_mode(over: &ServeArgs, under: &ServeArgs) -> WakeMode {
    match pick!(over, under, wake_mode).unwrap_or_default() {
        WakeMode::Poll(_) => WakeMode::Poll(poll_mode(over, under)),
        other => other,
    }
}

pub(super) fn poll_mode(over: &ServeArgs, under: &ServeArgs) -> PollMode {
    let preset = PollMode::default();
    PollMode {
        interval: millis(pick!(over, under, poll_interval_ms), preset.interval),
        batch: pick!(over, under, poll_batch).unwrap_or(preset.batch),
        adaptive: pick!(over, under, poll_adaptive).unwrap_or(preset.adaptive),
        grouping: pick!(over, under, poll_grouping).unwrap_or(preset.grouping),
    }
}

pub(super) fn poll_grouping(text: &str) -> Result<PollGrouping, String> {
    words::choose(text, &[("line", PollGrouping::Line), ("waiter", PollGrouping::Waiter)])
}
