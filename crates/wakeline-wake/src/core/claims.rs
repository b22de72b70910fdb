//! What a claim's outcome means for its waiters and its lines.

use std::collections::HashMap;
use std::time::Duration;

use crate::calls::words;
use crate::face::{Claimed, Face};
use crate::mode::WakeMode;

use super::arrivals::Stage;
use super::timers::Key;
use super::{Action, CallId, Core, End, IntentionId, LineId, Moment, Reason, Sample};

/// Above this a next-due time is taken at its word.
const NEARLY_NOW: Duration = Duration::from_millis(50);

/// A claim under way.
pub(super) struct Call {
    pub(super) started: Moment,
    pub(super) lines: Vec<CallLine>,
}

/// The waiters of one line in a claim under way.
pub(super) struct CallLine {
    pub(super) line: LineId,
    /// The line's generation when the claim began.
    pub(super) generation: u64,
    pub(super) waiters: Vec<IntentionId>,
}

impl<F: Face> Core<F> {
    /// A claim came back: one outcome per line of the call, in order.
    pub(crate) fn claimed(&mut self, call_id: CallId, outcomes: Vec<Claimed<F::Grant, F::Error>>) {
        let Some(call) = self.calls.remove(&call_id) else { return };
        debug_assert_eq!(call.lines.len(), outcomes.len(), "one outcome per claim");
        let served = outcomes.iter().flat_map(|o| &o.grants).filter(|g| g.is_some()).count();
        let refused: usize = outcomes.iter().map(|outcome| outcome.refused.len()).sum();
        let asks: usize = call.lines.iter().map(|seats| seats.waiters.len()).sum();
        if refused < asks {
            let items = outcomes.iter().flat_map(|o| &o.grants).flatten().map(F::items).sum();
            self.actions.push(Action::Observe(Sample::Items(items)));
        }
        if served > 0 {
            self.counters.claims.found += 1;
            self.actions.push(Action::Observe(Sample::Served(served)));
        } else if refused == asks {
            self.counters.claims.refused += 1;
        } else {
            self.counters.claims.empty += 1;
        }
        let mut outcomes = outcomes.into_iter();
        for seats in call.lines {
            let outcome = outcomes.next().unwrap_or_else(|| Claimed::new(Vec::new(), None));
            self.line_claimed((call_id, call.started), seats, outcome);
        }
        // A call that only refused says nothing of the store.
        if refused < asks {
            self.claim_succeeded(served > 0);
        }
        self.dispatch();
    }

    fn line_claimed(
        &mut self,
        (call, started): (CallId, Moment),
        seats: CallLine,
        outcome: Claimed<F::Grant, F::Error>,
    ) {
        let Some((fresh, hinted)) = self.line_answered(call, &seats) else {
            let grants = outcome.grants.into_iter().flatten();
            let line = seats.line;
            self.actions.extend(grants.map(|grant| Action::Release { line, grant }));
            return;
        };
        let since = hinted.or_else(|| self.last_empty_claim(seats.line, started));
        let mut grants = outcome.grants.into_iter();
        let mut refused: HashMap<usize, F::Error> = outcome.refused.into_iter().collect();
        let any_refused = !refused.is_empty();
        let mut found = false;
        let mut full = false;
        let mut left = Vec::new();
        for (index, id) in seats.waiters.into_iter().enumerate() {
            match (grants.next().flatten(), refused.remove(&index)) {
                (Some(grant), _) => {
                    found = true;
                    full |= self.grant(id, seats.line, grant, since);
                }
                (None, Some(error)) => drop(self.finish(id, End::Failed(error))),
                (None, None) => left.push(id),
            }
        }
        // For a whole line, a full batch means more only if nobody went without.
        full &= left.is_empty() || !self.mode.claims_by_line();
        // Whether the claim says what is there beside what it found.
        let looked = !left.is_empty() || outcome.further && !any_refused;
        let more = looked && outcome.next_due == Some(Duration::ZERO);
        if looked && !(more && left.is_empty()) {
            self.found_empty(seats.line, started, fresh);
            if let Some(span) = outcome.next_due
                && self.mode.uses_hints()
            {
                self.due_after_empty_claim(seats.line, span);
            }
            if fresh {
                self.answer_impatient(seats.line, call, None);
            }
        } else if found
            && let Some(line) = self.lines.get_mut(seats.line)
            && (line.idle.is_empty() || !self.mode.uses_hints())
        {
            // There may be more, and nobody is there to wake: the next arrival has to claim. In
            // Poll mode what is there now is not new to the next claim.
            line.empty_at = None;
        }
        let left: Vec<_> = left.into_iter().filter(|id| self.back_to_line(*id)).collect();
        match self.mode {
            WakeMode::Fused => self.claim_on_if_unknown(seats.line),
            // A wake that was spent on a wrong request goes to the next waiter.
            WakeMode::Compete => {
                let may_be_more = found && (more || !looked);
                self.compete_on(seats.line, may_be_more || any_refused);
            }
            WakeMode::Broadcast if !fresh => left.iter().for_each(|id| self.queue_waiter(*id)),
            WakeMode::Broadcast => {}
            WakeMode::Poll(_) => self.pace_on(seats.line, &left, found.then_some(full)),
        }
        self.enlist(seats.line);
    }

    /// Notes the end of a claim on its line: whether nothing has come since its start, and the
    /// hint that it answered.
    fn line_answered(&mut self, call: CallId, seats: &CallLine) -> Option<(bool, Option<Moment>)> {
        let line = self.lines.get_mut(seats.line)?;
        let place = line.calls.iter().position(|(id, _)| *id == call)?;
        let (_, hinted) = line.calls.swap_remove(place);
        line.activity += 1;
        line.failures = 0;
        line.error = None;
        line.lines_per_call_max = usize::MAX;
        line.overdue = false;
        let fresh = line.generation == seats.generation;
        self.lines.set_failed(seats.line, false);
        self.arm_delivery(seats.line);
        Some((fresh, hinted))
    }

    /// Hands a grant over; says whether it was a full batch.
    pub(super) fn grant(
        &mut self,
        id: IntentionId,
        line: LineId,
        grant: F::Grant,
        since: Option<Moment>,
    ) -> bool {
        let items = F::items(&grant);
        let Some(intention) = self.intentions.get(&id) else {
            self.actions.push(Action::Release { line, grant });
            return false;
        };
        let full = self.is_full(&intention.ask, items);
        if let Some(at) = since {
            self.actions.push(Action::Observe(Sample::Pickup(self.now.saturating_sub(at))));
        }
        if let Some(line) = self.lines.get_mut(line) {
            line.vain = 0;
        }
        self.finish(id, End::Granted(grant));
        full
    }

    /// Poll mode: when the last claim of the line that found nothing began, before a claim that
    /// began then. What the latter finds has become available since: without a hint nobody knows
    /// it better.
    fn last_empty_claim(&self, line: LineId, began: Moment) -> Option<Moment> {
        let line = self.lines.get(line).filter(|_| !self.mode.uses_hints())?;
        line.empty_at.filter(|at| *at < began)
    }

    fn found_empty(&mut self, line_id: LineId, started: Moment, fresh: bool) {
        if let Some(line) = self.lines.get_mut(line_id)
            && fresh
        {
            line.empty_at = line.empty_at.max(Some(started));
        }
    }

    /// Sets the line's timer. A store that says "nearly now" again and again, without giving
    /// anything, is asked at growing distances.
    fn due_after_empty_claim(&mut self, line_id: LineId, span: Duration) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        let mut span = span;
        if span < NEARLY_NOW {
            span = span.max(Duration::from_millis(1 << line.vain.min(5)));
            line.vain += 1;
        } else {
            line.vain = 0;
        }
        self.set_due(line_id, span);
    }

    /// Puts a waiter that got nothing back among the parked, or answers it; says whether it is
    /// parked.
    pub(super) fn back_to_line(&mut self, id: IntentionId) -> bool {
        let Some(intention) = self.intentions.get_mut(&id) else { return false };
        let line_id = intention.line;
        let patient = intention.deadline.is_some_and(|at| at > self.now) && !self.draining;
        if !patient {
            let end = match intention.deadline {
                Some(_) => self.end_in_vain(line_id),
                None => End::Empty,
            };
            self.finish(id, end);
            return false;
        }
        intention.stage = Stage::Idle;
        if let Some(line) = self.lines.get_mut(line_id) {
            line.busy -= 1;
            line.idle.insert(id);
        }
        true
    }

    /// Answers polls that do not wait and had no place in a claim that began after they came:
    /// what it left them is nothing, or its error.
    fn answer_impatient(&mut self, line: LineId, call: CallId, error: Option<&F::Error>) {
        let Some(state) = self.lines.get(line) else { return };
        let ids: Vec<_> = state.nows.iter().copied().filter(|id| id.0 < call.0).collect();
        for id in ids {
            let end = error.map_or(End::Empty, |error| End::Failed(error.clone()));
            self.finish(id, end);
        }
    }

    /// Fused: as long as waiters are left and the line is not known to be empty, claim again.
    fn claim_on_if_unknown(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get(line_id) else { return };
        if line.empty_at.is_none() && !line.idle.is_empty() {
            self.mark_dirty(line_id, None);
        }
    }

    /// Compete: found work wakes the next waiter, unless the claim says that there is no more; a
    /// wake that found all busy is made good.
    fn compete_on(&mut self, line_id: LineId, may_be_more: bool) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if std::mem::take(&mut line.owed) || may_be_more {
            self.wake_one(line_id, None);
        }
    }

    /// A claim failed. Its outcome is unknown; its waiters stay parked and polling takes over,
    /// except for those that no later claim can answer truthfully ([`Face::may_have_taken`]).
    /// No error: the claim never came to an end.
    pub(crate) fn claim_failed(&mut self, call_id: CallId, error: Option<F::Error>) {
        let Some(call) = self.calls.remove(&call_id) else { return };
        self.counters.claims.error += 1;
        let lines_per_call_max = (call.lines.len() / 2).max(1);
        for seats in call.lines {
            let failures = self.lines.get(seats.line).map_or(0, |line| line.failures) + 1;
            let retry_at = self.now + self.line_backoff(failures);
            if let Some(line) = self.lines.get_mut(seats.line) {
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
            self.timers.clear(Key::Delivery(seats.line));
            let next_poll = retry_at.max(self.now + self.pace_of(seats.line));
            for id in seats.waiters {
                self.failed_waiter(id, error.as_ref(), next_poll);
            }
            self.lines.set_failed(seats.line, true);
            let waits = self.lines.get(seats.line).is_some_and(|line| !line.idle.is_empty());
            if waits && !self.mode.uses_hints() && self.mode.claims_by_line() {
                self.timers.set(Key::LinePoll(seats.line), next_poll);
            }
            if let Some(error) = &error {
                self.answer_impatient(seats.line, call_id, Some(error));
            }
            self.enlist(seats.line);
        }
        let words = error.map_or("a claim never ended".into(), |error| {
            format!("a claim failed: {}", words(error))
        });
        self.claim_troubled(words);
        self.dispatch();
    }

    fn failed_waiter(&mut self, id: IntentionId, error: Option<&F::Error>, next_poll: Moment) {
        let Some(intention) = self.intentions.get(&id) else { return };
        let taken = error.is_some_and(|error| F::may_have_taken(&intention.ask, error));
        if taken || intention.deadline.is_none() {
            let end = error.map_or(End::Drained, |error| End::Failed(error.clone()));
            self.finish(id, end);
            return;
        }
        let parked = self.back_to_line(id);
        if parked && !self.mode.uses_hints() && !self.mode.claims_by_line() {
            self.timers.set(Key::Poll(id), next_poll);
        }
    }

    /// What was released for waiters that had gone is there for others.
    pub(crate) fn released(&mut self, lines: &[LineId]) {
        for line in lines {
            self.rouse(*line, Reason::InProcess);
        }
        self.dispatch();
    }
}
