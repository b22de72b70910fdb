//! The wake mode and the settings of poll mode.

use wakeline_wake::{PollGrouping, PollMode, WakeMode};

use super::{ServeArgs, millis, words};

pub(super) fn wake_mode(flags: &ServeArgs, file: &ServeArgs) -> WakeMode {
    match pick!(flags, file, wake_mode).unwrap_or_default() {
        WakeMode::Poll(_) => WakeMode::Poll(poll_mode(flags, file)),
        other => other,
    }
}

pub(super) fn poll_mode(flags: &ServeArgs, file: &ServeArgs) -> PollMode {
    let preset = PollMode::default();
    PollMode {
        interval: millis(pick!(flags, file, poll_interval_ms), preset.interval),
        batch: pick!(flags, file, poll_batch).unwrap_or(preset.batch),
        adaptive: pick!(flags, file, poll_adaptive).unwrap_or(preset.adaptive),
        grouping: pick!(flags, file, poll_grouping).unwrap_or(preset.grouping),
    }
}

pub(super) fn poll_grouping(text: &str) -> Result<PollGrouping, String> {
    words::choose(text, &[("line", PollGrouping::Line), ("waiter", PollGrouping::Waiter)])
}
