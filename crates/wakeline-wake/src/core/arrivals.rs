//! The life of a waiter: parking, deadlines, cancellation, draining.

use std::time::Duration;

use crate::api::Api;
use crate::mode::WakeMode;
use crate::poll::Patience;

use super::claim_queue::ClaimJob;
use super::timers::TimerPurpose;
use super::{Action, HubTime, LineId, Reason, WaiterEnd, WaiterId, WakeCore};

/// How much later than its deadline a waiter may be answered if a claim for it is in flight.
/// Otherwise, what that claim finds would have to be released, and could not be if the claim acks
/// at once.
pub(super) const OVERRUN_MAX: Duration = Duration::from_secs(1);

/// A poll that has not been answered yet.
pub(super) struct Waiter<F: Api> {
    pub(super) line: LineId,
    pub(super) request: F::Request,
    /// `None` if the waiter is answered by its first claim.
    pub(super) deadline: Option<HubTime>,
    pub(super) stage: WaiterStage,
    /// Whether it is one of the API's own background tasks.
    pub(super) own: bool,
}

/// The stages of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaiterStage {
    /// The waiter is parked.
    Idle,
    /// The waiter has an entry of its own in the queue of claims.
    Queued,
    /// The waiter is part of a claim in flight.
    InCall,
}

/// The outcome of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParkOutcome {
    /// The waiter was accepted. It will be answered by an [`Action::Finish`].
    Parked(WaiterId, LineId),
    /// The poll would have to wait, and the hub is draining.
    Drained,
    /// The poll would have to wait, and the maximum number of waiters is reached.
    TooMany,
}

impl<F: Api> WakeCore<F> {
    /// Accepts a poll: parks it, or queues a claim for it.
    pub(crate) fn park(
        &mut self,
        line: F::Line,
        request: F::Request,
        patience: Patience,
    ) -> ParkOutcome {
        let wait = match patience {
            Patience::Wait(span) if self.config.enabled && !span.is_zero() => {
                Some(span.min(self.config.max_wait_time))
            }
            _ => None,
        };
        if wait.is_some() && self.draining {
            return ParkOutcome::Drained;
        }
        let own = F::is_own(&line);
        let consumers = self.waiting - self.own;
        if wait.is_some() && !own && consumers >= self.config.waiters_max {
            return ParkOutcome::TooMany;
        }
        let id = WaiterId(self.next_id());
        let line = self.lines.enter(line);
        let deadline = wait.map(|span| self.now + span);
        self.waiters.insert(id, Waiter { line, request, deadline, stage: WaiterStage::Idle, own });
        if let Some(at) = deadline {
            self.waiting += 1;
            self.own += usize::from(own);
            self.timers.set(TimerPurpose::Deadline(id), at);
            self.arm_sweep();
            self.arm_degraded_poll();
        }
        self.place_arrival(id, line, deadline.is_none());
        self.dispatch();
        ParkOutcome::Parked(id, line)
    }

    /// Puts a new waiter into the queue of claims, or among the parked.
    fn place_arrival(&mut self, id: WaiterId, line_id: LineId, now_or_never: bool) {
        let checked = self.waiters.get(&id).is_none_or(|one| !F::needs_check(&one.request));
        let trusted = !now_or_never && checked && self.is_known_empty(line_id);
        let Some(line) = self.lines.get_mut(line_id) else { return };
        line.idle.insert(id);
        if now_or_never {
            line.impatient.insert(id);
        }
        if trusted {
            return;
        }
        if !self.mode.claims_by_line() {
            self.queue_waiter(id);
        } else if now_or_never || !checked || line.calls.is_empty() || !self.mode.uses_hints() {
            // A patient waiter that arrives during a claim is served according to that claim's
            // outcome: what is committed after the claim's start is hinted, and makes the line
            // claim again.
            self.mark_dirty(line_id, None);
        }
    }

    /// Returns whether a patient poll may park in the line without any claim.
    fn is_known_empty(&self, line_id: LineId) -> bool {
        let Some(line) = self.lines.get(line_id) else { return false };
        let Some(empty_at) = line.empty_at else { return false };
        let young = self.now.saturating_sub(empty_at) < self.sweep_interval();
        let being_swept =
            line.sweeping.is_some_and(|(generation, _)| generation == line.generation);
        self.mode.uses_hints() && self.health.is_healthy() && (young || being_swept)
    }

    /// Removes a waiter whose caller has gone. A claim in flight for it goes on; its result will be
    /// released.
    pub(crate) fn cancel(&mut self, id: WaiterId) {
        if let Some(waiter) = self.detach(id) {
            self.pass_wake_to_next(&waiter);
            self.dispatch();
        }
    }

    /// Ends the patience of a waiter: it is answered now if it is parked, or by the end of its
    /// claim if one is in flight. Nothing that was claimed for it is wasted.
    pub(crate) fn end_patience(&mut self, id: WaiterId) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        if waiter.deadline.is_some_and(|at| at > self.now) {
            waiter.deadline = Some(self.now);
            self.deadline_expired(id);
        }
    }

    /// Stops all waiting: parked waiters are answered now, those in a claim by its end.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        let mut waiting: Vec<_> =
            self.waiters.iter().filter(|(_, i)| i.deadline.is_some()).collect();
        waiting.sort_by_key(|(id, _)| **id);
        let waiting: Vec<_> = waiting.into_iter().map(|(id, i)| (*id, i.stage)).collect();
        for (id, stage) in waiting {
            *Reason::Shutdown.count(&mut self.counters.wakes) += 1;
            if stage == WaiterStage::InCall {
                self.timers.set(TimerPurpose::Deadline(id), self.now + OVERRUN_MAX);
            } else {
                self.finish(id, WaiterEnd::Drained);
            }
        }
        self.dispatch();
    }

    pub(super) fn deadline_expired(&mut self, id: WaiterId) {
        // Waiters that were woken at the same moment are claimed for before they give up.
        self.dispatch();
        let Some(waiter) = self.waiters.get(&id) else { return };
        let deadline = waiter.deadline.unwrap_or(self.now);
        if waiter.stage == WaiterStage::InCall
            && self.now < deadline + OVERRUN_MAX
            && !self.draining
        {
            self.timers.set(TimerPurpose::Deadline(id), deadline + OVERRUN_MAX);
            return;
        }
        let end = self.end_without_result(waiter.line);
        if let Some(waiter) = self.finish(id, end) {
            self.pass_wake_to_next(&waiter);
        }
    }

    /// Returns the end of a waiter that has to leave without a result.
    pub(super) fn end_without_result(&self, line: LineId) -> WaiterEnd<F> {
        if self.draining {
            return WaiterEnd::Drained;
        }
        match self.lines.get(line).and_then(|line| line.error.clone()) {
            Some(error) => WaiterEnd::Failed(error),
            None => WaiterEnd::Empty,
        }
    }

    /// Removes the waiter and answers it.
    pub(super) fn finish(&mut self, id: WaiterId, end: WaiterEnd<F>) -> Option<Waiter<F>> {
        let waiter = self.detach(id)?;
        self.actions.push(Action::Finish { waiter: id, line: waiter.line, end });
        Some(waiter)
    }

    /// Wakes another waiter in place of one that was woken and leaves before its claim began.
    fn pass_wake_to_next(&mut self, gone: &Waiter<F>) {
        if gone.stage == WaiterStage::Queued && matches!(self.mode, WakeMode::Compete) {
            self.wake_one(gone.line, None);
        }
    }

    fn detach(&mut self, id: WaiterId) -> Option<Waiter<F>> {
        let waiter = self.waiters.remove(&id)?;
        if waiter.deadline.is_some() {
            self.waiting -= 1;
            self.own -= usize::from(waiter.own);
            self.timers.clear(TimerPurpose::Deadline(id));
        }
        self.timers.clear(TimerPurpose::Poll(id));
        let Some(line) = self.lines.get_mut(waiter.line) else { return Some(waiter) };
        match waiter.stage {
            WaiterStage::Idle => {
                line.idle.remove(&id);
            }
            WaiterStage::Queued => line.queued -= 1,
            WaiterStage::InCall => line.busy -= 1,
        }
        line.impatient.remove(&id);
        if line.waiters() == 0 {
            line.hinted = None;
            line.overdue = false;
            line.wake_owed = false;
            line.dirty = false;
            if !self.mode.uses_hints() {
                // The line has no waiters: what becomes available now is not picked up late.
                line.empty_at = None;
            }
            self.timers.clear(TimerPurpose::Delivery(waiter.line));
            self.lines.rest(waiter.line, self.now);
        }
        Some(waiter)
    }

    /// Gives a parked waiter an entry of its own in the queue of claims.
    pub(super) fn queue_waiter(&mut self, id: WaiterId) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        if waiter.stage != WaiterStage::Idle {
            return;
        }
        let Some(line) = self.lines.get_mut(waiter.line) else { return };
        waiter.stage = WaiterStage::Queued;
        line.idle.remove(&id);
        line.impatient.remove(&id);
        line.queued += 1;
        self.timers.clear(TimerPurpose::Poll(id));
        self.claim_queue.push(ClaimJob::Waiter(id), waiter.deadline.is_none());
    }
}
