//! Puts claims into free slots: whole lines fused into one call, or one waiter by itself.

use crate::api::{Api, Claim};
use crate::mode::WakeMode;

use super::arrivals::WaiterStage;
use super::claim_queue::ClaimJob;
use super::claims::{ClaimCall, ClaimCallLine};
use super::timers::TimerPurpose;
use super::{Action, CallId, LineId, REQUESTS_PER_CALL_MAX, Reason, WaiterId, WakeCore};

impl<F: Api> WakeCore<F> {
    /// Requests one claim that serves all parked waiters of the line. Several requests are merged.
    pub(super) fn mark_dirty(&mut self, line_id: LineId, reason: Option<Reason>) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if !line.dirty {
            line.dirty = true;
            if let Some(reason) = reason {
                *reason.count(&mut self.counters.wakes) += 1;
            }
        }
        self.enqueue_line(line_id);
    }

    /// Adds a dirty line to the queue, unless one of its claims is in flight: then it is added when
    /// that claim ends.
    pub(super) fn enqueue_line(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        let urgent = !line.impatient.is_empty();
        let placed = line.place.is_some_and(|placed_urgent| placed_urgent || !urgent);
        if line.dirty && line.calls.is_empty() && !placed {
            line.place = Some(urgent);
            self.claim_queue.push(ClaimJob::Line(line_id), urgent);
        }
    }

    /// Starts as many claims as the limit allows.
    pub(super) fn dispatch(&mut self) {
        if self.claim_queue.len() > 64 + 2 * self.waiters.len() {
            self.drop_void_jobs();
        }
        while self.calls.len() < self.config.claims_in_flight_max {
            let call = CallId(self.next_id());
            let lines = self.collect_call(call);
            if lines.is_empty() {
                return;
            }
            let claims = lines.iter().map(|call_line| self.claim_of(call_line)).collect();
            self.calls.insert(call, ClaimCall { started: self.now, lines });
            self.actions.push(Action::Claim { call, claims });
        }
    }

    /// Takes the lines and waiters of the next call out of the queue.
    fn collect_call(&mut self, call: CallId) -> Vec<ClaimCallLine> {
        let held = self.now < self.health.held_until;
        let mut taken: Vec<ClaimCallLine> = Vec::new();
        let mut requests = 0;
        let mut lines_max = usize::MAX;
        while requests < REQUESTS_PER_CALL_MAX {
            match self.claim_queue.pop(held) {
                None => break,
                Some(job @ ClaimJob::Waiter(id)) => {
                    let Some(waiter) = self.waiters.get(&id) else { continue };
                    if waiter.stage != WaiterStage::Queued {
                        continue;
                    }
                    if taken.is_empty() {
                        taken.extend(self.take_waiter(id, call));
                    } else {
                        self.claim_queue.push_front(job, waiter.deadline.is_none());
                    }
                    break;
                }
                Some(job @ ClaimJob::Line(id)) => {
                    let Some(line) = self.lines.get_mut(id) else { continue };
                    let urgent = line.place.take().unwrap_or(false);
                    if !line.dirty || !line.calls.is_empty() {
                        continue;
                    }
                    lines_max = lines_max.min(line.lines_per_call_max);
                    if !taken.is_empty() && taken.len() >= lines_max {
                        line.place = Some(urgent);
                        self.claim_queue.push_front(job, urgent);
                        break;
                    }
                    let call_line = self.take_line(id, call, REQUESTS_PER_CALL_MAX - requests);
                    requests += call_line.as_ref().map_or(0, |call_line| call_line.waiters.len());
                    taken.extend(call_line);
                }
            }
        }
        taken
    }

    fn take_waiter(&mut self, id: WaiterId, call: CallId) -> Option<ClaimCallLine> {
        let line_id = self.waiters.get(&id)?.line;
        self.lines.get_mut(line_id)?.queued -= 1;
        self.add_to_call(line_id, vec![id], call)
    }

    fn take_line(
        &mut self,
        line_id: LineId,
        call: CallId,
        requests_max: usize,
    ) -> Option<ClaimCallLine> {
        self.timers.clear(TimerPurpose::LinePoll(line_id));
        let line = self.lines.get_mut(line_id)?;
        line.dirty = false;
        let waiters: Vec<_> = line.idle.iter().take(requests_max).copied().collect();
        if waiters.is_empty() {
            return None;
        }
        for id in &waiters {
            line.idle.remove(id);
            line.impatient.remove(id);
        }
        self.add_to_call(line_id, waiters, call)
    }

    fn add_to_call(
        &mut self,
        line_id: LineId,
        waiters: Vec<WaiterId>,
        call: CallId,
    ) -> Option<ClaimCallLine> {
        let line = self.lines.get_mut(line_id)?;
        line.busy += waiters.len();
        line.activity += 1;
        line.calls.push((call, line.hinted.take()));
        for id in &waiters {
            if let Some(waiter) = self.waiters.get_mut(id) {
                waiter.stage = WaiterStage::InCall;
            }
        }
        Some(ClaimCallLine { line: line_id, generation: line.generation, waiters })
    }

    fn claim_of(&self, call_line: &ClaimCallLine) -> Claim<F::Line, F::Request> {
        let line = self.lines.get(call_line.line).expect("a line with waiters is not forgotten");
        let requests =
            call_line.waiters.iter().map(|id| self.waiters[id].request.clone()).collect();
        let further = matches!(self.mode, WakeMode::Compete);
        Claim { line: line.key.clone(), requests, further }
    }

    fn drop_void_jobs(&mut self) {
        let (lines, waiters) = (&self.lines, &self.waiters);
        self.claim_queue.retain(|job| match job {
            ClaimJob::Line(id) => lines.get(id).is_some_and(|line| line.place.is_some()),
            ClaimJob::Waiter(id) => {
                waiters.get(&id).is_some_and(|i| i.stage == WaiterStage::Queued)
            }
        });
    }
}
