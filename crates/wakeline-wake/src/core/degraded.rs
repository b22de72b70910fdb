//! Degraded polling: what starts it, what it does, what ends it.

use std::time::Duration;

use crate::face::Face;
use crate::poll::Link;
use crate::snapshot::Degradation;

use super::timers::Key;
use super::{Action, Core, Moment, Reason};

/// Failing claims are tried again at growing distances, up to this. It bounds how long waiters go
/// without work after an outage.
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The same for a line whose claims fail while those of others do not.
const OWN_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The health of hints and claims.
pub(super) struct Trouble {
    pub(super) link: Link,
    pub(super) episode: Option<Episode>,
    /// Failed claims in a row, over all lines.
    failures: u32,
    /// Until then no claim starts for those who can wait.
    pub(super) hold: Moment,
}

/// One stretch of degraded polling.
pub(super) struct Episode {
    reason: Reason,
    words: String,
    since: Moment,
    /// Claims in a row that found nothing and did not fail.
    clean: u32,
}

impl Trouble {
    pub(super) fn new() -> Self {
        Self { link: Link::Up, episode: None, failures: 0, hold: Moment::ZERO }
    }

    /// Whether a hint can be relied on to come.
    pub(super) fn is_healthy(&self) -> bool {
        self.link == Link::Up && self.episode.is_none()
    }

    pub(super) fn degradation(&self, now: Moment) -> Option<Degradation> {
        let episode = self.episode.as_ref()?;
        Some(Degradation {
            reason: episode.words.clone(),
            since: now.saturating_sub(episode.since),
        })
    }
}

impl<F: Face> Core<F> {
    /// How long to wait after that many failures in a row.
    fn backoff(&self, failures: u32, most: Duration) -> Duration {
        let factor = 1 << failures.saturating_sub(1).min(10);
        (self.degraded_poll_interval * factor).min(most.max(self.degraded_poll_interval))
    }

    /// Hints of other processes arrive, or do not.
    pub(crate) fn link(&mut self, state: Link) {
        let trouble = match &state {
            Link::Up => None,
            Link::Down { reason } => Some(format!("the listener is down: {reason}")),
            Link::Off { reason } => Some(format!("the listener is off: {reason}")),
        };
        let changed = self.trouble.link != state;
        self.trouble.link = state;
        if !self.mode.uses_hints() || !changed {
            return;
        }
        for (_, line) in self.lines.iter_mut() {
            line.empty_at = None;
        }
        match trouble {
            Some(words) => self.enter_degraded(Reason::ListenerLost, words),
            None => {
                if let Some(episode) = &mut self.trouble.episode {
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

    /// Starts degraded polling. If it is under way, the count of clean claims begins again; the
    /// time that it lasts at least does not.
    pub(super) fn enter_degraded(&mut self, reason: Reason, words: String) {
        if !self.mode.uses_hints() {
            return;
        }
        if let Some(episode) = &mut self.trouble.episode {
            episode.clean = 0;
        } else {
            self.actions.push(Action::Degraded { reason: words.clone() });
            self.trouble.episode = Some(Episode { reason, words, since: self.now, clean: 0 });
        }
        self.narrow_sweep();
        self.arm_degraded_poll();
    }

    /// Sets the next poll; with nobody waiting, the time to see whether it may end.
    pub(super) fn arm_degraded_poll(&mut self) {
        let Some(episode) = &self.trouble.episode else { return };
        let failed = self.waiting > 0 && self.trouble.failures > 0;
        if self.consumers_wait() || failed || self.lines.any_failed() {
            let at = self.now + self.degraded_poll_interval;
            self.timers.set_min(Key::DegradedPoll, at);
        } else if self.trouble.link == Link::Up && self.trouble.failures == 0 {
            let end = episode.since + self.config.aggressive_poll_duration;
            self.timers.set(Key::DegradedPoll, end.max(self.now + Duration::from_millis(1)));
        }
    }

    /// Claims for everybody who waits, in as few calls as they fit in. Background work is left to
    /// its hints, timers and the sweep, unless a claim for it failed: nobody waits for it, and it
    /// would cost a statement each time.
    pub(super) fn degraded_poll_came(&mut self) {
        self.leave_degraded_if_clean(!self.consumers_wait());
        let Some(episode) = &self.trouble.episode else { return };
        let reason = match &self.trouble.link {
            Link::Up if self.trouble.failures > 0 => Reason::ClaimError,
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

    /// Whether somebody waits beside the face itself.
    fn consumers_wait(&self) -> bool {
        self.waiting > self.own
    }

    /// How long a line waits after that many failures of its claims in a row. If all claims
    /// failed since the first of them it is the store's trouble, otherwise the line's own.
    pub(super) fn line_backoff(&self, failures: u32) -> Duration {
        // The claim that failed just now is not among the store's yet.
        let own = failures > self.trouble.failures + 1;
        self.backoff(failures, if own { OWN_BACKOFF_MAX } else { BACKOFF_MAX })
    }

    /// The store has answered somebody: claims that failed need not wait any longer for it. If
    /// they fail again their distances go on growing.
    pub(crate) fn store_answered(&mut self) {
        let failures = self.trouble.failures;
        if failures == 0 {
            return;
        }
        self.trouble.hold = self.now;
        for (_, line) in self.lines.iter_mut() {
            if line.failures <= failures {
                line.retry_at = line.retry_at.min(self.now);
            }
        }
    }

    pub(super) fn claim_succeeded(&mut self, found: bool) {
        // A single failure may be one line's own.
        if self.trouble.failures > 1 {
            self.store_answered();
        }
        self.trouble.failures = 0;
        self.trouble.hold = self.now;
        let Some(episode) = &mut self.trouble.episode else { return };
        episode.clean = if found { 0 } else { episode.clean.saturating_add(1) };
        self.leave_degraded_if_clean(false);
        self.arm_degraded_poll();
    }

    /// The first failure may be one line's own; from the second in a row on everybody waits.
    pub(super) fn claim_troubled(&mut self, words: String) {
        self.trouble.failures = self.trouble.failures.saturating_add(1);
        if self.trouble.failures > 1 {
            self.trouble.hold = self.now + self.backoff(self.trouble.failures, BACKOFF_MAX);
        }
        self.enter_degraded(Reason::ClaimError, words);
    }

    /// Ends degraded polling if it has lasted long enough, hints arrive, and claims are clean;
    /// `nobody_waits` stands for clean claims, because none are made. A line with waiters whose
    /// last claim failed keeps it going: what failed there has no hint to come again.
    fn leave_degraded_if_clean(&mut self, nobody_waits: bool) {
        let Some(episode) = &self.trouble.episode else { return };
        let after = self.now.saturating_sub(episode.since);
        let long_enough = after >= self.config.aggressive_poll_duration;
        let clean = nobody_waits || episode.clean >= self.config.aggressive_exit_threshold;
        let answered = self.trouble.failures == 0 && !self.lines.any_failed();
        let healthy = self.trouble.link == Link::Up && answered;
        if clean && healthy && long_enough {
            self.trouble.episode = None;
            self.timers.clear(Key::DegradedPoll);
            self.actions.push(Action::Recovered { after });
        }
    }
}
