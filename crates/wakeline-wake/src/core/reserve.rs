//! Waiters that a write serves in its own commit, instead of waking them to claim.
//!
//! # Invariants
//! * A reserved waiter is in nobody's claim; it is served by the write, or goes back to its
//!   place, or has left meanwhile (then what the write leased to it is released).
//! * A hint that comes while it is reserved is not lost on it: it claims when it is back.

use crate::face::Face;
use crate::mode::WakeMode;

use super::arrivals::Stage;
use super::{Action, Core, IntentionId, LineId, Reason};

/// A waiter set aside for a write.
#[derive(Debug)]
pub(crate) struct Reserved<F: Face> {
    pub(crate) id: IntentionId,
    pub(crate) line_id: LineId,
    pub(crate) line: F::Line,
    pub(crate) ask: F::Ask,
    /// The line's generation when it was set aside.
    pub(crate) generation: u64,
}

impl<F: Face> Core<F> {
    /// Sets up to `max` parked waiters aside that may be able to take what the hint speaks of,
    /// longest waiting first within a line. Lines for which a claim is due anyway are left alone.
    pub(crate) fn reserve(&mut self, hint: &F::Hint, max: usize) -> Vec<Reserved<F>> {
        let mut reserved = Vec::new();
        if !self.mode.uses_hints() || self.draining {
            return reserved;
        }
        for line_id in self.lines.concerned(hint) {
            let Some(line) = self.lines.get_mut(line_id) else { continue };
            if line.dirty {
                continue;
            }
            let patient = line.idle.iter().filter(|id| !line.nows.contains(id));
            let ids: Vec<_> = patient.take(max - reserved.len()).copied().collect();
            for id in ids {
                line.idle.remove(&id);
                line.busy += 1;
                let Some(intention) = self.intentions.get_mut(&id) else { continue };
                intention.stage = Stage::InCall;
                let (line, generation) = (line.key.clone(), line.generation);
                let ask = intention.ask.clone();
                reserved.push(Reserved { id, line_id, line, ask, generation });
            }
            if reserved.len() == max {
                break;
            }
        }
        reserved
    }

    /// A waiter's write is done: it served the waiter, or not.
    pub(crate) fn unreserve(&mut self, reserved: Reserved<F>, grant: Option<F::Grant>) {
        let Reserved { id, line_id, generation, .. } = reserved;
        match grant {
            Some(grant) => {
                *Reason::InProcess.count(&mut self.counters.wakes) += 1;
                self.counters.born_leased += 1;
                self.serve_reserved(id, line_id, grant);
            }
            None => {
                self.back_to_line(id);
            }
        }
        let Some(line) = self.lines.get_mut(line_id) else { return };
        let owed = std::mem::take(&mut line.owed);
        if line.generation != generation || owed {
            match self.mode {
                WakeMode::Fused => self.mark_dirty(line_id, None),
                WakeMode::Broadcast => self.queue_waiter(id),
                WakeMode::Compete => self.wake_one(line_id, None),
                WakeMode::Poll(_) => {}
            }
        }
        self.dispatch();
    }

    fn serve_reserved(&mut self, id: IntentionId, line: LineId, grant: F::Grant) {
        if self.intentions.contains_key(&id) {
            self.grant(id, line, grant, None);
        } else {
            self.actions.push(Action::Release { line, grant });
        }
    }
}
