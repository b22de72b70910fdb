//! Puts claims into free slots: whole lines fused into one call, or one waiter by itself.

use crate::face::{Claim, Face};
use crate::mode::WakeMode;

use super::arrivals::Stage;
use super::claims::{Call, CallLine};
use super::ready::Job;
use super::timers::Key;
use super::{ASKS_PER_CALL_MAX, Action, CallId, Core, IntentionId, LineId, Reason};

impl<F: Face> Core<F> {
    /// Asks for one claim that serves all parked waiters of the line; coalesced.
    pub(super) fn mark_dirty(&mut self, line_id: LineId, reason: Option<Reason>) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if !line.dirty {
            line.dirty = true;
            if let Some(reason) = reason {
                *reason.count(&mut self.counters.wakes) += 1;
            }
        }
        self.enlist(line_id);
    }

    /// Gives a dirty line its place in the queue, unless a claim of it is under way: then it
    /// gets the place when that one ends.
    pub(super) fn enlist(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        let urgent = !line.nows.is_empty();
        let placed = line.place.is_some_and(|placed_urgent| placed_urgent || !urgent);
        if line.dirty && line.calls.is_empty() && !placed {
            line.place = Some(urgent);
            self.ready.push(Job::Line(line_id), urgent);
        }
    }

    /// Starts as many claims as may be under way.
    pub(super) fn dispatch(&mut self) {
        if self.ready.len() > 64 + 2 * self.intentions.len() {
            self.drop_void_jobs();
        }
        while self.calls.len() < self.config.claims_in_flight_max {
            let call = CallId(self.next_id());
            let lines = self.gather(call);
            if lines.is_empty() {
                return;
            }
            let claims = lines.iter().map(|seats| self.claim_of(seats)).collect();
            self.calls.insert(call, Call { started: self.now, lines });
            self.actions.push(Action::Claim { call, claims });
        }
    }

    /// Takes the next call's lines and waiters out of the queue.
    fn gather(&mut self, call: CallId) -> Vec<CallLine> {
        let held = self.now < self.trouble.hold;
        let mut taken: Vec<CallLine> = Vec::new();
        let mut asks = 0;
        let mut lines_max = usize::MAX;
        while asks < ASKS_PER_CALL_MAX {
            match self.ready.pop(held) {
                None => break,
                Some(job @ Job::Waiter(id)) => {
                    let Some(waiter) = self.intentions.get(&id) else { continue };
                    if waiter.stage != Stage::Queued {
                        continue;
                    }
                    if taken.is_empty() {
                        taken.extend(self.take_waiter(id, call));
                    } else {
                        self.ready.push_front(job, waiter.deadline.is_none());
                    }
                    break;
                }
                Some(job @ Job::Line(id)) => {
                    let Some(line) = self.lines.get_mut(id) else { continue };
                    let urgent = line.place.take().unwrap_or(false);
                    if !line.dirty || !line.calls.is_empty() {
                        continue;
                    }
                    lines_max = lines_max.min(line.lines_per_call_max);
                    if !taken.is_empty() && taken.len() >= lines_max {
                        line.place = Some(urgent);
                        self.ready.push_front(job, urgent);
                        break;
                    }
                    let seats = self.take_line(id, call, ASKS_PER_CALL_MAX - asks);
                    asks += seats.as_ref().map_or(0, |seats| seats.waiters.len());
                    taken.extend(seats);
                }
            }
        }
        taken
    }

    fn take_waiter(&mut self, id: IntentionId, call: CallId) -> Option<CallLine> {
        let line_id = self.intentions.get(&id)?.line;
        self.lines.get_mut(line_id)?.queued -= 1;
        self.seat_in_call(line_id, vec![id], call)
    }

    fn take_line(&mut self, line_id: LineId, call: CallId, asks_max: usize) -> Option<CallLine> {
        self.timers.clear(Key::LinePoll(line_id));
        let line = self.lines.get_mut(line_id)?;
        line.dirty = false;
        let waiters: Vec<_> = line.idle.iter().take(asks_max).copied().collect();
        if waiters.is_empty() {
            return None;
        }
        for id in &waiters {
            line.idle.remove(id);
            line.nows.remove(id);
        }
        self.seat_in_call(line_id, waiters, call)
    }

    fn seat_in_call(
        &mut self,
        line_id: LineId,
        waiters: Vec<IntentionId>,
        call: CallId,
    ) -> Option<CallLine> {
        let line = self.lines.get_mut(line_id)?;
        line.busy += waiters.len();
        line.activity += 1;
        line.calls.push((call, line.hinted.take()));
        for id in &waiters {
            if let Some(intention) = self.intentions.get_mut(id) {
                intention.stage = Stage::InCall;
            }
        }
        Some(CallLine { line: line_id, generation: line.generation, waiters })
    }

    fn claim_of(&self, seats: &CallLine) -> Claim<F::Line, F::Ask> {
        let line = self.lines.get(seats.line).expect("a line with waiters is not forgotten");
        let asks = seats.waiters.iter().map(|id| self.intentions[id].ask.clone()).collect();
        let further = matches!(self.mode, WakeMode::Compete);
        Claim { line: line.key.clone(), asks, further }
    }

    fn drop_void_jobs(&mut self) {
        let (lines, intentions) = (&self.lines, &self.intentions);
        self.ready.retain(|job| match job {
            Job::Line(id) => lines.get(id).is_some_and(|line| line.place.is_some()),
            Job::Waiter(id) => intentions.get(&id).is_some_and(|i| i.stage == Stage::Queued),
        });
    }
}
