//! The clock of the oracle.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::Timestamp;

/// The time at which a test clock starts: 2026-01-01 00:00:00 UTC.
pub const TEST_EPOCH: Timestamp = Timestamp(1_767_225_600_000_000);

/// A clock that only a test moves, or that follows the system's clock or tokio's.
#[derive(Debug)]
pub(super) enum OracleClock {
    /// Stands still until it is advanced.
    Test(Mutex<Timestamp>),
    /// Follows the system's clock, but never goes back; advancing it adds an offset.
    Real { offset: Mutex<Duration>, last: Mutex<Timestamp> },
    /// Follows tokio's clock; advancing it adds an offset.
    Tokio { start: Instant, offset: Mutex<Duration> },
}

impl OracleClock {
    pub(super) fn test() -> Self {
        Self::Test(Mutex::new(TEST_EPOCH))
    }

    pub(super) fn real() -> Self {
        Self::Real { offset: Mutex::new(Duration::ZERO), last: Mutex::new(Timestamp(0)) }
    }

    pub(super) fn tokio() -> Self {
        Self::Tokio { start: Instant::now(), offset: Mutex::new(Duration::ZERO) }
    }

    pub(super) fn now(&self) -> Timestamp {
        match self {
            Self::Test(now) => *now.lock(),
            Self::Real { offset, last } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let mut last = last.lock();
                *last = (*last).max(Timestamp(0).plus(since).plus(*offset.lock()));
                *last
            }
            Self::Tokio { start, offset } => TEST_EPOCH.plus(start.elapsed()).plus(*offset.lock()),
        }
    }

    pub(super) fn advance(&self, by: Duration) {
        match self {
            Self::Test(now) => {
                let mut now = now.lock();
                *now = now.plus(by);
            }
            Self::Real { offset, .. } | Self::Tokio { offset, .. } => *offset.lock() += by,
        }
    }
}
