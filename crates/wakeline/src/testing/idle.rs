//! Advances the clock of a test environment while nothing runs.

use std::time::Duration;

use wakeline_core::Timestamp;
use wakeline_store::HintSink;
use wakeline_store::flow::{FlowReader, FlowStore};

use super::env::{TestEnv, TestError};

/// The longest wait for the end of a call before looking again.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long an activity without store calls delays a clock that a test advances.
const ACTIVITY_WAIT_MAX: Duration = Duration::from_millis(100);
/// After this many skips in a row without progress, no progress is expected any more.
const EMPTY_SKIPS_MAX: u32 = 8;
/// After this many skips in one wait, the code is considered to be in an endless loop.
const SKIPS_MAX: u32 = 100_000;

/// What an environment is doing.
enum EnvActivity {
    /// Turns or store calls are running.
    Busy,
    /// Only activities are running.
    Running,
    /// Nothing is running; the next item is due after this time.
    Idle(Option<Duration>),
}

impl TestEnv {
    /// Waits until nothing more happens without time passing.
    pub async fn settle(&self) -> Result<(), TestError> {
        self.next_due().await.map(drop)
    }

    /// Advances the clock. Everything that becomes due meanwhile happens in order and at its own
    /// time. Does not wait for activities that run for more than 100 ms.
    pub async fn advance(&self, by: Duration) -> Result<(), TestError> {
        let target = self.now().plus(by);
        loop {
            let next = self.next_due_beside_activities().await?;
            let left = self.now().until(target);
            if left.is_zero() {
                return Ok(());
            }
            self.keep_leases(left).await?;
            self.skip(next.map_or(left, |next| next.min(left)));
        }
    }

    /// Skips to the next due time repeatedly, until nothing is due any more.
    pub(super) async fn skip_all(&self) -> Result<(), TestError> {
        let mut empty_skips = 0;
        for _ in 0..SKIPS_MAX {
            let Some(next) = self.next_due().await? else { return Ok(()) };
            if empty_skips == EMPTY_SKIPS_MAX {
                return Ok(());
            }
            let before = self.tracker.progress_count();
            self.skip(next);
            self.settle().await?;
            empty_skips = if self.tracker.progress_count() == before { empty_skips + 1 } else { 0 };
        }
        Ok(())
    }

    fn skip(&self, span: Duration) {
        self.storage.clock.advance(span);
        self.provider.everything();
    }

    /// Extends the leases of running activities, which are renewed by real time and must not end
    /// when the clock skips.
    async fn keep_leases(&self, span: Duration) -> Result<(), TestError> {
        let held = self.tracker.held();
        if !held.is_empty() {
            self.store.renew(held, span.saturating_add(self.lease)).await?;
        }
        Ok(())
    }

    async fn next_due(&self) -> Result<Option<Duration>, TestError> {
        loop {
            if let EnvActivity::Idle(next) = self.look().await? {
                return Ok(next);
            }
            self.tracker.call_ended(LOOK_INTERVAL).await;
        }
    }

    async fn next_due_beside_activities(&self) -> Result<Option<Duration>, TestError> {
        let mut waited = Duration::ZERO;
        loop {
            let before = self.tracker.idle_calls();
            match self.look().await? {
                EnvActivity::Idle(next) => return Ok(next),
                EnvActivity::Running if waited >= ACTIVITY_WAIT_MAX => {
                    return self.timers_due().await;
                }
                EnvActivity::Running | EnvActivity::Busy => {}
            }
            self.tracker.call_ended(LOOK_INTERVAL).await;
            let still = before.is_some() && self.tracker.idle_calls() == before;
            waited = if still { waited + LOOK_INTERVAL } else { Duration::ZERO };
        }
    }

    /// Returns when something is due, except for items that wait for a free worker.
    async fn timers_due(&self) -> Result<Option<Duration>, TestError> {
        let due = self.store.sweep_flow(self.lines.clone()).await?;
        Ok(due.into_iter().flatten().filter(|span| !span.is_zero()).min())
    }

    async fn look(&self) -> Result<EnvActivity, TestError> {
        let Some(calls) = self.tracker.idle_calls() else { return Ok(EnvActivity::Busy) };
        let hub = self.provider.snapshot();
        if hub.claims_in_flight + hub.claims_queued > 0 {
            return Ok(EnvActivity::Busy);
        }
        let depths = self.store.depths().await?;
        let due = self.store.sweep_flow(self.lines.clone()).await?;
        if self.tracker.idle_calls() != Some(calls) || depths.leased_turns > 0 {
            return Ok(EnvActivity::Busy);
        }
        let next = due.into_iter().flatten().min();
        Ok(match next {
            _ if depths.leased_work > 0 => EnvActivity::Running,
            Some(span) if span.is_zero() => EnvActivity::Busy,
            next => EnvActivity::Idle(next),
        })
    }

    /// Advances the clock to a time; see [`Self::advance`].
    pub async fn advance_to(&self, time: Timestamp) -> Result<(), TestError> {
        self.advance(self.now().until(time)).await
    }
}
