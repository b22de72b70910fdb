//! Waiters that a write serves in its own commit, instead of waking them to claim.
//!
//! # Invariants
//! * A reserved waiter is in no claim. It is served by the write, or returns to its place, or has
//!   left meanwhile; then what the write leased to it is released.
//! * A hint that arrives while a waiter is reserved is not lost: the waiter claims when it returns.

use crate::api::Api;
use crate::mode::WakeMode;

use super::arrivals::WaiterStage;
use super::{Action, LineId, Reason, WaiterId, WakeCore};

/// A waiter that is reserved for a write.
#[derive(Debug)]
pub(crate) struct ReservedWaiter<F: Api> {
    pub(crate) id: WaiterId,
    pub(crate) line_id: LineId,
    pub(crate) line: F::Line,
    pub(crate) request: F::Request,
    /// The line's generation when the waiter was reserved.
    pub(crate) generation: u64,
}

impl<F: Api> WakeCore<F> {
    /// Reserves up to `max` parked waiters that may be able to take what the hint refers to, the
    /// longest waiting first within a line. Lines for which a claim is due anyway are skipped.
    pub(crate) fn reserve(&mut self, hint: &F::Hint, max: usize) -> Vec<ReservedWaiter<F>> {
        let mut reserved = Vec::new();
        if !self.mode.uses_hints() || self.draining {
            return reserved;
        }
        for line_id in self.lines.concerned(hint) {
            let Some(line) = self.lines.get_mut(line_id) else { continue };
            if line.dirty {
                continue;
            }
            let patient = line.idle.iter().filter(|id| !line.impatient.contains(id));
            let ids: Vec<_> = patient.take(max - reserved.len()).copied().collect();
            for id in ids {
                line.idle.remove(&id);
                line.busy += 1;
                let Some(waiter) = self.waiters.get_mut(&id) else { continue };
                waiter.stage = WaiterStage::InCall;
                let (line, generation) = (line.key.clone(), line.generation);
                let request = waiter.request.clone();
                reserved.push(ReservedWaiter { id, line_id, line, request, generation });
            }
            if reserved.len() == max {
                break;
            }
        }
        reserved
    }

    /// Ends a reservation: the write has served the waiter, or has nothing for it.
    pub(crate) fn unreserve(
        &mut self,
        reserved: ReservedWaiter<F>,
        result: Option<F::ClaimResult>,
    ) {
        let ReservedWaiter { id, line_id, generation, .. } = reserved;
        match result {
            Some(result) => {
                *Reason::InProcess.count(&mut self.counters.wakes) += 1;
                self.counters.leased_on_insert += 1;
                self.serve_reserved(id, line_id, result);
            }
            None => {
                self.back_to_line(id);
            }
        }
        let Some(line) = self.lines.get_mut(line_id) else { return };
        let wake_owed = std::mem::take(&mut line.wake_owed);
        if line.generation != generation || wake_owed {
            match self.mode {
                WakeMode::Fused => self.mark_dirty(line_id, None),
                WakeMode::Broadcast => self.queue_waiter(id),
                WakeMode::Compete => self.wake_one(line_id, None),
                WakeMode::Poll(_) => {}
            }
        }
        self.dispatch();
    }

    fn serve_reserved(&mut self, id: WaiterId, line: LineId, result: F::ClaimResult) {
        if self.waiters.contains_key(&id) {
            self.hand_over(id, line, result, None);
        } else {
            self.actions.push(Action::Release { line, result });
        }
    }
}
