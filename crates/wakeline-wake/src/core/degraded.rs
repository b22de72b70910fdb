//! Degraded polling: what starts it, what it does, what ends it.

use std::time::Duration;

use crate::api::Api;
use crate::poll::Link;
use crate::snapshot::Degradation;

use super::timers::TimerPurpose;
use super::{Action, HubTime, Reason, WakeCore};

/// Failing claims are retried at growing intervals up to this one. It bounds how long waiters go
/// without work after an outage.
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The same limit for a line whose claims fail while those of other lines do not.
const LINE_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The health of hints and claims.
pub(super) struct Health {
    pub(super) link: Link,
    pub(super) episode: Option<DegradedEpisode>,
    /// The number of failed claims in a row, over all lines.
    failures: u32,
    /// Until this time no claim starts for waiters that can wait.
    pub(super) held_until: HubTime,
}

/// One period of degraded polling.
pub(super) struct DegradedEpisode {
    reason: Reason,
    description: String,
    since: HubTime,
    /// The number of claims in a row that found nothing and did not fail.
    clean: u32,
}

impl Health {
    pub(super) fn new() -> Self {
        Self { link: Link::Up, episode: None, failures: 0, held_until: HubTime::ZERO }
    }

    /// Returns whether hints can be relied on to arrive.
    pub(super) fn is_healthy(&self) -> bool {
        self.link == Link::Up && self.episode.is_none()
    }

    pub(super) fn degradation(&self, now: HubTime) -> Option<Degradation> {
        let episode = self.episode.as_ref()?;
        Some(Degradation {
            reason: episode.description.clone(),
            since: now.saturating_sub(episode.since),
        })
    }
}

impl<F: Api> WakeCore<F> {
    /// Returns how long to wait after this many failures in a row.
    fn backoff(&self, failures: u32, most: Duration) -> Duration {
        let factor = 1 << failures.saturating_sub(1).min(10);
        (self.degraded_poll_interval * factor).min(most.max(self.degraded_poll_interval))
    }

    /// Processes a report on whether hints of other processes arrive.
    pub(crate) fn link(&mut self, state: Link) {
        let trouble = match &state {
            Link::Up => None,
            Link::Down { reason } => {
                Some(format!("the connection that receives notifications is lost: {reason}"))
            }
            Link::Off { reason } => {
                Some(format!("no notifications are received from other processes: {reason}"))
            }
        };
        let changed = self.health.link != state;
        self.health.link = state;
        if !self.mode.uses_hints() || !changed {
            return;
        }
        for (_, line) in self.lines.iter_mut() {
            line.empty_at = None;
        }
        match trouble {
            Some(description) => self.enter_degraded(Reason::ListenerLost, description),
            None => {
                if let Some(episode) = &mut self.health.episode {
                    episode.clean = 0;
                }
                self.store_answered();
                self.arm_degraded_poll();
            }
        }
        self.dispatch();
    }

    pub(crate) fn set_degraded_poll_interval(&mut self, interval: Duration) {
        self.degraded_poll_interval = interval.max(Duration::from_millis(1));
        self.arm_degraded_poll();
    }

    /// Starts degraded polling. If it is active already, the count of clean claims starts again at
    /// zero, but the minimum duration does not start again.
    pub(super) fn enter_degraded(&mut self, reason: Reason, description: String) {
        if !self.mode.uses_hints() {
            return;
        }
        if let Some(episode) = &mut self.health.episode {
            episode.clean = 0;
        } else {
            self.actions.push(Action::Degraded { reason: description.clone() });
            self.health.episode =
                Some(DegradedEpisode { reason, description, since: self.now, clean: 0 });
        }
        self.narrow_sweep();
        self.arm_degraded_poll();
    }

    /// Sets the timer of the next poll; if there are no waiters, the time at which to check whether
    /// degraded polling may end.
    pub(super) fn arm_degraded_poll(&mut self) {
        let Some(episode) = &self.health.episode else { return };
        let failed = self.waiting > 0 && self.health.failures > 0;
        if self.consumers_wait() || failed || self.lines.any_failed() {
            let at = self.now + self.degraded_poll_interval;
            self.timers.set_min(TimerPurpose::DegradedPoll, at);
        } else if self.health.link == Link::Up && self.health.failures == 0 {
            let end = episode.since + self.config.aggressive_poll_duration;
            self.timers
                .set(TimerPurpose::DegradedPoll, end.max(self.now + Duration::from_millis(1)));
        }
    }

    /// Claims for all waiters, in as few calls as possible. Background tasks rely on hints, timers
    /// and the sweep instead, unless a claim for them failed: no client waits for them, and each
    /// poll would cost a statement.
    pub(super) fn poll_degraded(&mut self) {
        self.leave_degraded_if_clean(!self.consumers_wait());
        let Some(episode) = &self.health.episode else { return };
        let reason = match &self.health.link {
            Link::Up if self.health.failures > 0 => Reason::ClaimError,
            Link::Up => episode.reason,
            _ => Reason::ListenerLost,
        };
        let now = self.now;
        let due = self.lines.iter_mut().filter(|(_, l)| !l.idle.is_empty() && l.retry_at <= now);
        let due = due.filter(|(_, l)| l.failures > 0 || !F::is_own(&l.key));
        let due: Vec<_> = due.map(|(id, _)| id).collect();
        for line in due {
            self.mark_dirty(line, Some(reason));
        }
        self.arm_degraded_poll();
    }

    /// Returns whether there are waiters other than the API's own background tasks.
    fn consumers_wait(&self) -> bool {
        self.waiting > self.own
    }

    /// Returns how long a line waits after this many failures of its claims in a row. If all claims
    /// have failed since the first of them, the store has a problem; otherwise only the line has
    /// one.
    pub(super) fn line_backoff(&self, failures: u32) -> Duration {
        // The claim that failed just now is not counted in `health.failures` yet.
        let own = failures > self.health.failures + 1;
        self.backoff(failures, if own { LINE_BACKOFF_MAX } else { BACKOFF_MAX })
    }

    /// Notes that the store has answered a call: claims that failed need not wait for it any
    /// longer. If they fail again, their intervals keep growing.
    pub(crate) fn store_answered(&mut self) {
        let failures = self.health.failures;
        if failures == 0 {
            return;
        }
        self.health.held_until = self.now;
        for (_, line) in self.lines.iter_mut() {
            if line.failures <= failures {
                line.retry_at = line.retry_at.min(self.now);
            }
        }
    }

    pub(super) fn claim_succeeded(&mut self, found: bool) {
        // A single failure may concern only one line.
        if self.health.failures > 1 {
            self.store_answered();
        }
        self.health.failures = 0;
        self.health.held_until = self.now;
        let Some(episode) = &mut self.health.episode else { return };
        episode.clean = if found { 0 } else { episode.clean.saturating_add(1) };
        self.leave_degraded_if_clean(false);
        self.arm_degraded_poll();
    }

    /// The first failure may concern only one line; from the second one in a row, all lines wait.
    pub(super) fn note_claim_failure(&mut self, description: String) {
        self.health.failures = self.health.failures.saturating_add(1);
        if self.health.failures > 1 {
            self.health.held_until = self.now + self.backoff(self.health.failures, BACKOFF_MAX);
        }
        self.enter_degraded(Reason::ClaimError, description);
    }

    /// Ends degraded polling if it has lasted long enough, hints arrive, and claims are clean.
    /// `no_waiters` stands in for clean claims, because none are made then. A line with waiters
    /// whose last claim failed prevents the end: what failed there will not be hinted again.
    fn leave_degraded_if_clean(&mut self, no_waiters: bool) {
        let Some(episode) = &self.health.episode else { return };
        let after = self.now.saturating_sub(episode.since);
        let long_enough = after >= self.config.aggressive_poll_duration;
        let clean = no_waiters || episode.clean >= self.config.aggressive_exit_threshold;
        let answered = self.health.failures == 0 && !self.lines.any_failed();
        let healthy = self.health.link == Link::Up && answered;
        if clean && healthy && long_enough {
            self.health.episode = None;
            self.timers.clear(TimerPurpose::DegradedPoll);
            self.actions.push(Action::Recovered { after });
        }
    }
}
