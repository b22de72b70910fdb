//! The hub.
use std::sync::Arc;

use crate::config::LongPollConfig;
use crate::face::Face;
use crate::mode::WakeMode;
use crate::poll::{HintSource, Link, Patience, TakeError, Taken};
use crate::snapshot::Snapshot;

/// How a hub is set up.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// The face's name in metrics and logs.
    pub label: &'static str,
    /// How waiters are woken.
    pub mode: WakeMode,
    /// How they wait.
    pub long_poll: LongPollConfig,
}

/// Parks polls that found nothing, and claims for them when something may have come.
pub struct Hub<F: Face> {
    face: Arc<F>,
}

impl<F: Face> Clone for Hub<F> {
    fn clone(&self) -> Self {
        Self { face: Arc::clone(&self.face) }
    }
}

impl<F: Face> Hub<F> {
    /// Starts.
    pub fn start(face: Arc<F>, _options: HubOptions) -> Self {
        Self { face }
    }

    /// One poll. Dropping the future cancels it.
    pub async fn take(
        &self,
        _line: F::Line,
        _ask: F::Ask,
        _patience: Patience,
    ) -> Result<Taken<F::Grant>, TakeError<F::Error>> {
        unimplemented!("written next")
    }

    /// These may have become available. Never blocks.
    pub fn hint(&self, _hints: &[F::Hint], _source: HintSource) {}

    /// Anything may have.
    pub fn everything(&self) {}

    /// The link went up or down.
    pub fn link(&self, _state: Link) {}

    /// Answers all parked polls.
    pub fn drain(&self) {}

    /// How waiters are woken.
    pub fn mode(&self) -> WakeMode {
        unimplemented!("written next")
    }

    /// A look at the hub.
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!("written next")
    }
}
