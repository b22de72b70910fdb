//! The queue of claims that wait for a free slot.

use std::collections::VecDeque;

use super::{IntentionId, LineId};

/// A claim to be made. It may be void by the time its turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// For all parked waiters of a line.
    Line(LineId),
    /// For one waiter.
    Waiter(IntentionId),
}

/// Claims in order. Urgent ones belong to polls that do not wait: while failing claims are held
/// back, those go ahead, because their callers want the error now.
#[derive(Debug, Default)]
pub(super) struct Ready {
    urgent: VecDeque<Job>,
    calm: VecDeque<Job>,
    /// Which of the two goes next, so that neither starves the other.
    calm_turn: bool,
}

impl Ready {
    pub(super) fn push(&mut self, job: Job, urgent: bool) {
        if urgent { self.urgent.push_back(job) } else { self.calm.push_back(job) }
    }

    /// The next claim; `held` leaves the calm ones where they are.
    pub(super) fn pop(&mut self, held: bool) -> Option<Job> {
        if held {
            return self.urgent.pop_front();
        }
        self.calm_turn = !self.calm_turn;
        let (first, second) = if self.calm_turn {
            (&mut self.calm, &mut self.urgent)
        } else {
            (&mut self.urgent, &mut self.calm)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Puts a claim back that did not fit.
    pub(super) fn push_front(&mut self, job: Job, urgent: bool) {
        if urgent { self.urgent.push_front(job) } else { self.calm.push_front(job) }
    }

    pub(super) fn has_calm(&self) -> bool {
        !self.calm.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.urgent.len() + self.calm.len()
    }

    /// Drops void claims, so that a long hang does not pile them up.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(Job) -> bool) {
        self.urgent.retain(|job| keep(*job));
        self.calm.retain(|job| keep(*job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_kind_of_claim_starves_the_other() {
        let mut ready = Ready::default();
        for n in 0..3 {
            ready.push(Job::Line(LineId(n)), true);
            ready.push(Job::Line(LineId(10 + n)), false);
        }
        let order: Vec<_> = std::iter::from_fn(|| ready.pop(false)).collect();
        assert_eq!(order, [10, 0, 11, 1, 12, 2].map(|n| Job::Line(LineId(n))));
    }

    #[test]
    fn while_held_only_urgent_claims_go() {
        let mut ready = Ready::default();
        ready.push(Job::Line(LineId(1)), false);
        ready.push(Job::Waiter(IntentionId(2)), true);
        assert_eq!(ready.pop(true), Some(Job::Waiter(IntentionId(2))));
        assert_eq!(ready.pop(true), None);
        assert!(ready.has_calm());
    }
}
