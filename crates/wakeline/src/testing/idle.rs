//! Time that skips when nothing goes on.

use std::time::Duration;

use wakeline_core::Timestamp;
use wakeline_store::HintSink;
use wakeline_store::flow::{FlowReader, FlowStore};

use super::env::{TestEnv, TestError};

/// How long to wait for a call before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// An activity that does nothing for so long does not hold up a clock that a test moves.
const ACTIVITY_PATIENCE: Duration = Duration::from_millis(100);
/// So many skips in a row that brought nothing on are all there will be.
const VAIN_SKIPS_MAX: u32 = 8;
/// So many skips in one wait are a loop that never ends.
const SKIPS_MAX: u32 = 100_000;

/// How an environment stands.
enum Look {
    /// Something goes on.
    Busy,
    /// Only activities go on.
    Running,
    /// Nothing does; the next thing is due after so long.
    Idle(Option<Duration>),
}

impl TestEnv {
    /// Waits until nothing goes on that does not need time to pass.
    pub async fn settle(&self) -> Result<(), TestError> {
        self.next_due().await.map(drop)
    }

    /// Lets time pass: all that becomes due meanwhile happens in its order, at its own time. Does
    /// not wait for activities that run longer than a moment.
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

    /// Skips to what is due next, again and again, until nothing is.
    pub(super) async fn skip_all(&self) -> Result<(), TestError> {
        let mut vain = 0;
        for _ in 0..SKIPS_MAX {
            let Some(next) = self.next_due().await? else { return Ok(()) };
            if vain == VAIN_SKIPS_MAX {
                return Ok(());
            }
            let before = self.pulse.progressed();
            self.skip(next);
            self.settle().await?;
            vain = if self.pulse.progressed() == before { vain + 1 } else { 0 };
        }
        Ok(())
    }

    fn skip(&self, span: Duration) {
        self.house.clock.advance(span);
        self.provider.everything();
    }

    /// Activities that run are renewed by real time: their leases must not end by skipping.
    async fn keep_leases(&self, span: Duration) -> Result<(), TestError> {
        let held = self.pulse.held();
        if !held.is_empty() {
            self.store.renew(held, span.saturating_add(self.lease)).await?;
        }
        Ok(())
    }

    async fn next_due(&self) -> Result<Option<Duration>, TestError> {
        loop {
            if let Look::Idle(next) = self.look().await? {
                return Ok(next);
            }
            self.pulse.stirred(LOOK_AGAIN).await;
        }
    }

    async fn next_due_beside_activities(&self) -> Result<Option<Duration>, TestError> {
        let mut waited = Duration::ZERO;
        loop {
            let before = self.pulse.at_rest();
            match self.look().await? {
                Look::Idle(next) => return Ok(next),
                Look::Running if waited >= ACTIVITY_PATIENCE => return self.timers_due().await,
                Look::Running | Look::Busy => {}
            }
            self.pulse.stirred(LOOK_AGAIN).await;
            let still = before.is_some() && self.pulse.at_rest() == before;
            waited = if still { waited + LOOK_AGAIN } else { Duration::ZERO };
        }
    }

    /// When something is due, other than what waits for a free worker.
    async fn timers_due(&self) -> Result<Option<Duration>, TestError> {
        let due = self.store.sweep_flow(self.lines.clone()).await?;
        Ok(due.into_iter().flatten().filter(|span| !span.is_zero()).min())
    }

    async fn look(&self) -> Result<Look, TestError> {
        let Some(calls) = self.pulse.at_rest() else { return Ok(Look::Busy) };
        let hub = self.provider.snapshot();
        if hub.claims_in_flight + hub.claims_queued > 0 {
            return Ok(Look::Busy);
        }
        let depths = self.store.depths().await?;
        let due = self.store.sweep_flow(self.lines.clone()).await?;
        if self.pulse.at_rest() != Some(calls) || depths.leased_turns > 0 {
            return Ok(Look::Busy);
        }
        let next = due.into_iter().flatten().min();
        Ok(match next {
            _ if depths.leased_work > 0 => Look::Running,
            Some(span) if span.is_zero() => Look::Busy,
            next => Look::Idle(next),
        })
    }

    /// Lets time pass up to a moment; see [`Self::advance`].
    pub async fn advance_to(&self, moment: Timestamp) -> Result<(), TestError> {
        self.advance(self.now().until(moment)).await
    }
}
