//! Waiters come, wait and go: parking, deadlines, cancellation, draining.

use std::time::Duration;

use crate::face::Face;
use crate::mode::WakeMode;
use crate::poll::Patience;

use super::ready::Job;
use super::timers::Key;
use super::{Action, Core, End, IntentionId, LineId, Moment, Reason};

/// How much later than its deadline a waiter is answered if a claim for it is under way: what
/// that claim finds would otherwise have to be released, and could not be if it acks at once.
pub(super) const OVERRUN_MAX: Duration = Duration::from_secs(1);

/// One waiter.
pub(super) struct Intention<F: Face> {
    pub(super) line: LineId,
    pub(super) ask: F::Ask,
    /// `None`: it is answered by its first claim.
    pub(super) deadline: Option<Moment>,
    pub(super) stage: Stage,
    /// Whether it is the face's own.
    pub(super) own: bool,
}

/// Where a waiter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Parked.
    Idle,
    /// Has a place of its own in the queue of claims.
    Queued,
    /// In a claim under way.
    InCall,
}

/// What became of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parked {
    /// It will be answered by a finish.
    Yes(IntentionId, LineId),
    /// It would have to wait, and the hub is draining.
    Drained,
    /// It would have to wait, and as many do as may.
    TooMany,
}

impl<F: Face> Core<F> {
    /// A poll arrives.
    pub(crate) fn park(&mut self, line: F::Line, ask: F::Ask, patience: Patience) -> Parked {
        let wait = match patience {
            Patience::Wait(span) if self.config.enabled && !span.is_zero() => {
                Some(span.min(self.config.max_wait_time))
            }
            _ => None,
        };
        if wait.is_some() && self.draining {
            return Parked::Drained;
        }
        let own = F::is_own(&line);
        let consumers = self.waiting - self.own;
        if wait.is_some() && !own && consumers >= self.config.intentions_max {
            return Parked::TooMany;
        }
        let id = IntentionId(self.next_id());
        let line = self.lines.enter(line);
        let deadline = wait.map(|span| self.now + span);
        self.intentions.insert(id, Intention { line, ask, deadline, stage: Stage::Idle, own });
        if let Some(at) = deadline {
            self.waiting += 1;
            self.own += usize::from(own);
            self.timers.set(Key::Deadline(id), at);
            self.arm_sweep();
            self.arm_degraded_poll();
        }
        self.seat(id, line, deadline.is_none());
        self.dispatch();
        Parked::Yes(id, line)
    }

    /// Gives an arrival its place: in the queue of claims, or among the parked.
    fn seat(&mut self, id: IntentionId, line_id: LineId, now_or_never: bool) {
        let checked = self.intentions.get(&id).is_none_or(|one| !F::needs_check(&one.ask));
        let trusted = !now_or_never && checked && self.is_known_empty(line_id);
        let Some(line) = self.lines.get_mut(line_id) else { return };
        line.idle.insert(id);
        if now_or_never {
            line.nows.insert(id);
        }
        if trusted {
            return;
        }
        if !self.mode.claims_by_line() {
            self.queue_waiter(id);
        } else if now_or_never || !checked || line.calls.is_empty() || !self.mode.uses_hints() {
            // A waiting one that arrives during a claim is judged by that claim's outcome: what
            // is committed after its start is hinted, and makes the line claim again.
            self.mark_dirty(line_id, None);
        }
    }

    /// Whether a waiting poll may park in the line without any claim.
    fn is_known_empty(&self, line_id: LineId) -> bool {
        let Some(line) = self.lines.get(line_id) else { return false };
        let Some(empty_at) = line.empty_at else { return false };
        let young = self.now.saturating_sub(empty_at) < self.sweep_interval();
        let being_swept =
            line.sweeping.is_some_and(|(generation, _)| generation == line.generation);
        self.mode.uses_hints() && self.trouble.is_healthy() && (young || being_swept)
    }

    /// The caller has gone. A claim under way for it goes on; its grant will be released.
    pub(crate) fn cancel(&mut self, id: IntentionId) {
        if let Some(intention) = self.detach(id) {
            self.pass_wake_on(&intention);
            self.dispatch();
        }
    }

    /// The caller has better things to do than to wait on: it is answered now if it is parked, by
    /// its claim's end if one is under way. Nothing that was claimed for it is wasted.
    pub(crate) fn hurry(&mut self, id: IntentionId) {
        let Some(intention) = self.intentions.get_mut(&id) else { return };
        if intention.deadline.is_some_and(|at| at > self.now) {
            intention.deadline = Some(self.now);
            self.deadline_came(id);
        }
    }

    /// Nobody waits any longer: parked waiters are answered now, those in a claim by its end.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        let mut waiting: Vec<_> =
            self.intentions.iter().filter(|(_, i)| i.deadline.is_some()).collect();
        waiting.sort_by_key(|(id, _)| **id);
        let waiting: Vec<_> = waiting.into_iter().map(|(id, i)| (*id, i.stage)).collect();
        for (id, stage) in waiting {
            *Reason::Shutdown.count(&mut self.counters.wakes) += 1;
            if stage == Stage::InCall {
                self.timers.set(Key::Deadline(id), self.now + OVERRUN_MAX);
            } else {
                self.finish(id, End::Drained);
            }
        }
        self.dispatch();
    }

    pub(super) fn deadline_came(&mut self, id: IntentionId) {
        // Whoever was woken in the same moment is claimed for before it gives up.
        self.dispatch();
        let Some(intention) = self.intentions.get(&id) else { return };
        let deadline = intention.deadline.unwrap_or(self.now);
        if intention.stage == Stage::InCall && self.now < deadline + OVERRUN_MAX && !self.draining {
            self.timers.set(Key::Deadline(id), deadline + OVERRUN_MAX);
            return;
        }
        let end = self.end_in_vain(intention.line);
        if let Some(intention) = self.finish(id, end) {
            self.pass_wake_on(&intention);
        }
    }

    /// What a waiter hears that has to leave with nothing.
    pub(super) fn end_in_vain(&self, line: LineId) -> End<F> {
        if self.draining {
            return End::Drained;
        }
        match self.lines.get(line).and_then(|line| line.error.clone()) {
            Some(error) => End::Failed(error),
            None => End::Empty,
        }
    }

    /// Takes the waiter out and answers it.
    pub(super) fn finish(&mut self, id: IntentionId, end: End<F>) -> Option<Intention<F>> {
        let intention = self.detach(id)?;
        self.actions.push(Action::Finish { intention: id, line: intention.line, end });
        Some(intention)
    }

    /// A waiter that was woken and leaves before its claim began wakes another in its place.
    fn pass_wake_on(&mut self, gone: &Intention<F>) {
        if gone.stage == Stage::Queued && matches!(self.mode, WakeMode::Compete) {
            self.wake_one(gone.line, None);
        }
    }

    fn detach(&mut self, id: IntentionId) -> Option<Intention<F>> {
        let intention = self.intentions.remove(&id)?;
        if intention.deadline.is_some() {
            self.waiting -= 1;
            self.own -= usize::from(intention.own);
            self.timers.clear(Key::Deadline(id));
        }
        self.timers.clear(Key::Poll(id));
        let Some(line) = self.lines.get_mut(intention.line) else { return Some(intention) };
        match intention.stage {
            Stage::Idle => {
                line.idle.remove(&id);
            }
            Stage::Queued => line.queued -= 1,
            Stage::InCall => line.busy -= 1,
        }
        line.nows.remove(&id);
        if line.waiters() == 0 {
            line.hinted = None;
            line.overdue = false;
            line.owed = false;
            line.dirty = false;
            if !self.mode.uses_hints() {
                // Nobody waits: what comes now is not picked up late.
                line.empty_at = None;
            }
            self.timers.clear(Key::Delivery(intention.line));
            self.lines.rest(intention.line, self.now);
        }
        Some(intention)
    }

    /// Gives a parked waiter a place of its own in the queue of claims.
    pub(super) fn queue_waiter(&mut self, id: IntentionId) {
        let Some(intention) = self.intentions.get_mut(&id) else { return };
        if intention.stage != Stage::Idle {
            return;
        }
        let Some(line) = self.lines.get_mut(intention.line) else { return };
        intention.stage = Stage::Queued;
        line.idle.remove(&id);
        line.nows.remove(&id);
        line.queued += 1;
        self.timers.clear(Key::Poll(id));
        self.ready.push(Job::Waiter(id), intention.deadline.is_none());
    }
}
