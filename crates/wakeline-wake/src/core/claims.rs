//! The effects of a claim's outcome on its waiters and its lines.

use std::collections::HashMap;
use std::time::Duration;

use crate::api::{Api, ClaimOutcome};
use crate::calls::error_text;
use crate::mode::WakeMode;

use super::arrivals::WaiterStage;
use super::timers::TimerPurpose;
use super::{Action, CallId, HubTime, LineId, Reason, Sample, WaiterEnd, WaiterId, WakeCore};

/// A next-due time above this is trusted.
const ALMOST_NOW: Duration = Duration::from_millis(50);

/// A claim in flight.
pub(super) struct ClaimCall {
    pub(super) started: HubTime,
    pub(super) lines: Vec<ClaimCallLine>,
}

/// The waiters of one line in a claim in flight.
pub(super) struct ClaimCallLine {
    pub(super) line: LineId,
    /// The line's generation when the claim began.
    pub(super) generation: u64,
    pub(super) waiters: Vec<WaiterId>,
}

impl<F: Api> WakeCore<F> {
    /// Processes the result of a claim: one outcome per line of the call, in order.
    pub(crate) fn claimed(
        &mut self,
        call_id: CallId,
        outcomes: Vec<ClaimOutcome<F::ClaimResult, F::Error>>,
    ) {
        let Some(call) = self.calls.remove(&call_id) else { return };
        debug_assert_eq!(call.lines.len(), outcomes.len(), "one outcome per claim");
        let served = outcomes.iter().flat_map(|o| &o.results).filter(|g| g.is_some()).count();
        let refused: usize = outcomes.iter().map(|outcome| outcome.refused.len()).sum();
        let requests: usize = call.lines.iter().map(|call_line| call_line.waiters.len()).sum();
        if refused < requests {
            let items = outcomes.iter().flat_map(|o| &o.results).flatten().map(F::items).sum();
            self.actions.push(Action::Observe(Sample::Items(items)));
        }
        if served > 0 {
            self.counters.claims.found += 1;
            self.actions.push(Action::Observe(Sample::Served(served)));
        } else if refused == requests {
            self.counters.claims.refused += 1;
        } else {
            self.counters.claims.empty += 1;
        }
        let mut outcomes = outcomes.into_iter();
        for call_line in call.lines {
            let outcome = outcomes.next().unwrap_or_else(|| ClaimOutcome::new(Vec::new(), None));
            self.line_claimed(call_id, call.started, call_line, outcome);
        }
        // A call that only refused requests says nothing about the health of the store.
        if refused < requests {
            self.claim_succeeded(served > 0);
        }
        self.dispatch();
    }

    fn line_claimed(
        &mut self,
        call: CallId,
        started: HubTime,
        call_line: ClaimCallLine,
        outcome: ClaimOutcome<F::ClaimResult, F::Error>,
    ) {
        let Some((fresh, hinted)) = self.line_answered(call, &call_line) else {
            let results = outcome.results.into_iter().flatten();
            let line = call_line.line;
            self.actions.extend(results.map(|result| Action::Release { line, result }));
            return;
        };
        let since = hinted.or_else(|| self.last_empty_claim(call_line.line, started));
        let mut results = outcome.results.into_iter();
        let mut refused: HashMap<usize, F::Error> = outcome.refused.into_iter().collect();
        let any_refused = !refused.is_empty();
        let mut found = false;
        let mut full = false;
        let mut left = Vec::new();
        for (index, id) in call_line.waiters.into_iter().enumerate() {
            match (results.next().flatten(), refused.remove(&index)) {
                (Some(result), _) => {
                    found = true;
                    full |= self.hand_over(id, call_line.line, result, since);
                }
                (None, Some(error)) => drop(self.finish(id, WaiterEnd::Failed(error))),
                (None, None) => left.push(id),
            }
        }
        // For a whole line, a full batch means that there is more only if every waiter was served.
        full &= left.is_empty() || !self.mode.claims_by_line();
        // Whether the claim reports what is available beyond what it found.
        let looked = !left.is_empty() || outcome.further && !any_refused;
        let more = looked && outcome.next_due == Some(Duration::ZERO);
        if looked && !(more && left.is_empty()) {
            self.found_empty(call_line.line, started, fresh);
            if let Some(span) = outcome.next_due
                && self.mode.uses_hints()
            {
                self.due_after_empty_claim(call_line.line, span);
            }
            if fresh {
                self.answer_impatient(call_line.line, call, None);
            }
        } else if found
            && let Some(line) = self.lines.get_mut(call_line.line)
            && (line.idle.is_empty() || !self.mode.uses_hints())
        {
            // There may be more, and there is no waiter to wake: the next arrival has to claim. In
            // Poll mode, what is available now is not new to the next claim.
            line.empty_at = None;
        }
        let left: Vec<_> = left.into_iter().filter(|id| self.back_to_line(*id)).collect();
        match self.mode {
            WakeMode::Fused => self.claim_again_unless_empty(call_line.line),
            // A wake that was spent on an invalid request goes to the next waiter.
            WakeMode::Compete => {
                let may_be_more = found && (more || !looked);
                self.wake_next_competitor(call_line.line, may_be_more || any_refused);
            }
            WakeMode::Broadcast if !fresh => left.iter().for_each(|id| self.queue_waiter(*id)),
            WakeMode::Broadcast => {}
            WakeMode::Poll(_) => self.adjust_pace(call_line.line, &left, found.then_some(full)),
        }
        self.enqueue_line(call_line.line);
    }

    /// Records the end of a claim on its line. Returns whether nothing has come since its start,
    /// and the hint that it answered.
    fn line_answered(
        &mut self,
        call: CallId,
        call_line: &ClaimCallLine,
    ) -> Option<(bool, Option<HubTime>)> {
        let line = self.lines.get_mut(call_line.line)?;
        let place = line.calls.iter().position(|(id, _)| *id == call)?;
        let (_, hinted) = line.calls.swap_remove(place);
        line.activity += 1;
        line.failures = 0;
        line.error = None;
        line.lines_per_call_max = usize::MAX;
        line.overdue = false;
        let fresh = line.generation == call_line.generation;
        self.lines.set_failed(call_line.line, false);
        self.arm_delivery(call_line.line);
        Some((fresh, hinted))
    }

    /// Hands a result to its waiter. Returns whether it was a full batch.
    pub(super) fn hand_over(
        &mut self,
        id: WaiterId,
        line: LineId,
        result: F::ClaimResult,
        since: Option<HubTime>,
    ) -> bool {
        let items = F::items(&result);
        let Some(waiter) = self.waiters.get(&id) else {
            self.actions.push(Action::Release { line, result });
            return false;
        };
        let full = self.is_full(&waiter.request, items);
        if let Some(at) = since {
            self.actions.push(Action::Observe(Sample::Pickup(self.now.saturating_sub(at))));
        }
        if let Some(line) = self.lines.get_mut(line) {
            line.almost_due_in_a_row = 0;
        }
        self.finish(id, WaiterEnd::Claimed(result));
        full
    }

    /// In Poll mode, returns when the last claim of the line that found nothing began, if that was
    /// before `began`. What a claim that started at `began` finds has become available since then;
    /// without a hint there is no better estimate.
    fn last_empty_claim(&self, line: LineId, began: HubTime) -> Option<HubTime> {
        let line = self.lines.get(line).filter(|_| !self.mode.uses_hints())?;
        line.empty_at.filter(|at| *at < began)
    }

    fn found_empty(&mut self, line_id: LineId, started: HubTime, fresh: bool) {
        if let Some(line) = self.lines.get_mut(line_id)
            && fresh
        {
            line.empty_at = line.empty_at.max(Some(started));
        }
    }

    /// Sets the line's timer. A store that repeatedly answers "nearly now" without returning
    /// anything is called at growing intervals.
    fn due_after_empty_claim(&mut self, line_id: LineId, span: Duration) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        let mut span = span;
        if span < ALMOST_NOW {
            span = span.max(Duration::from_millis(1 << line.almost_due_in_a_row.min(5)));
            line.almost_due_in_a_row += 1;
        } else {
            line.almost_due_in_a_row = 0;
        }
        self.set_due(line_id, span);
    }

    /// Puts a waiter that got nothing back among the parked, or answers it. Returns whether it is
    /// parked.
    pub(super) fn back_to_line(&mut self, id: WaiterId) -> bool {
        let Some(waiter) = self.waiters.get_mut(&id) else { return false };
        let line_id = waiter.line;
        let patient = waiter.deadline.is_some_and(|at| at > self.now) && !self.draining;
        if !patient {
            let end = match waiter.deadline {
                Some(_) => self.end_without_result(line_id),
                None => WaiterEnd::Empty,
            };
            self.finish(id, end);
            return false;
        }
        waiter.stage = WaiterStage::Idle;
        if let Some(line) = self.lines.get_mut(line_id) {
            line.busy -= 1;
            line.idle.insert(id);
        }
        true
    }

    /// Answers polls that do not wait and were not part of a claim that began after they arrived.
    /// They get nothing, or the error of that claim.
    fn answer_impatient(&mut self, line: LineId, call: CallId, error: Option<&F::Error>) {
        let Some(state) = self.lines.get(line) else { return };
        let ids: Vec<_> = state.impatient.iter().copied().filter(|id| id.0 < call.0).collect();
        for id in ids {
            let end = error.map_or(WaiterEnd::Empty, |error| WaiterEnd::Failed(error.clone()));
            self.finish(id, end);
        }
    }

    /// In Fused mode, claims again as long as waiters are left and the line is not known to be
    /// empty.
    fn claim_again_unless_empty(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get(line_id) else { return };
        if line.empty_at.is_none() && !line.idle.is_empty() {
            self.mark_dirty(line_id, None);
        }
    }

    /// In Compete mode, wakes the next waiter after work was found, unless the claim reports that
    /// there is no more. Also makes up for a wake that found all waiters busy.
    fn wake_next_competitor(&mut self, line_id: LineId, may_be_more: bool) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if std::mem::take(&mut line.wake_owed) || may_be_more {
            self.wake_one(line_id, None);
        }
    }

    /// Processes a failed claim, whose outcome is unknown. Its waiters stay parked and polling
    /// takes over, except for those that no later claim can answer correctly
    /// ([`Api::may_have_taken`]). Without an error the claim was never completed.
    pub(crate) fn claim_failed(&mut self, call_id: CallId, error: Option<F::Error>) {
        let Some(call) = self.calls.remove(&call_id) else { return };
        self.counters.claims.error += 1;
        let lines_per_call_max = (call.lines.len() / 2).max(1);
        for call_line in call.lines {
            let failures = self.lines.get(call_line.line).map_or(0, |line| line.failures) + 1;
            let retry_at = self.now + self.line_backoff(failures);
            if let Some(line) = self.lines.get_mut(call_line.line) {
                if let Some(place) = line.calls.iter().position(|(id, _)| *id == call_id) {
                    let (_, hinted) = line.calls.swap_remove(place);
                    line.hinted = [line.hinted, hinted].into_iter().flatten().min();
                }
                // Polling takes over: that the hint has no answer is known by now.
                line.overdue = true;
                line.activity += 1;
                (line.failures, line.retry_at) = (failures, retry_at);
                line.error.clone_from(&error);
                line.empty_at = None;
                line.lines_per_call_max = lines_per_call_max;
            }
            self.timers.clear(TimerPurpose::Delivery(call_line.line));
            let next_poll = retry_at.max(self.now + self.pace_of(call_line.line));
            for id in call_line.waiters {
                self.failed_waiter(id, error.as_ref(), next_poll);
            }
            self.lines.set_failed(call_line.line, true);
            let waits = self.lines.get(call_line.line).is_some_and(|line| !line.idle.is_empty());
            if waits && !self.mode.uses_hints() && self.mode.claims_by_line() {
                self.timers.set(TimerPurpose::LinePoll(call_line.line), next_poll);
            }
            if let Some(error) = &error {
                self.answer_impatient(call_line.line, call_id, Some(error));
            }
            self.enqueue_line(call_line.line);
        }
        let description = error.map_or("a claim ended without a result".into(), |error| {
            format!("a claim failed: {}", error_text(error))
        });
        self.note_claim_failure(description);
        self.dispatch();
    }

    fn failed_waiter(&mut self, id: WaiterId, error: Option<&F::Error>, next_poll: HubTime) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let taken = error.is_some_and(|error| F::may_have_taken(&waiter.request, error));
        if taken || waiter.deadline.is_none() {
            let end = error.map_or(WaiterEnd::Drained, |error| WaiterEnd::Failed(error.clone()));
            self.finish(id, end);
            return;
        }
        let parked = self.back_to_line(id);
        if parked && !self.mode.uses_hints() && !self.mode.claims_by_line() {
            self.timers.set(TimerPurpose::Poll(id), next_poll);
        }
    }

    /// What was released for cancelled waiters is available to others: wakes their lines.
    pub(crate) fn released(&mut self, lines: &[LineId]) {
        for line in lines {
            self.wake_line(*line, Reason::InProcess);
        }
        self.dispatch();
    }
}
