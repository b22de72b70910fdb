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

/// Most claims for parked waiters in a row while others wait for a slot.
const CALM_IN_A_ROW_MAX: u32 = 3;

/// Claims in order. Urgent ones belong to polls that do not wait: while failing claims are held
/// back, those go ahead, because their callers want the error now.
#[derive(Debug)]
pub(super) struct Ready {
    urgent: VecDeque<(u64, Job)>,
    calm: VecDeque<(u64, Job)>,
    /// Counts arrivals, for those who are served in their order.
    arrivals: u64,
    /// Whether calm claims go first; if not, the first come goes first.
    calm_first: bool,
    /// Calm claims in a row that went while urgent ones waited.
    calm_in_a_row: u32,
}

impl Ready {
    pub(super) fn new(calm_first: bool) -> Self {
        let (urgent, calm) = (VecDeque::new(), VecDeque::new());
        Self { urgent, calm, arrivals: 0, calm_first, calm_in_a_row: 0 }
    }

    fn kind(&mut self, urgent: bool) -> &mut VecDeque<(u64, Job)> {
        if urgent { &mut self.urgent } else { &mut self.calm }
    }

    pub(super) fn push(&mut self, job: Job, urgent: bool) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.kind(urgent).push_back((arrival, job));
    }

    /// The next claim; `held` leaves the calm ones where they are.
    pub(super) fn pop(&mut self, held: bool) -> Option<Job> {
        let urgent = match (self.urgent.front(), self.calm.front()) {
            (None, _) => held,
            (Some(_), None) => true,
            (Some(urgent), Some(calm)) => {
                let due = if self.calm_first {
                    self.calm_in_a_row >= CALM_IN_A_ROW_MAX
                } else {
                    urgent.0 < calm.0
                };
                held || due
            }
        };
        let passed = !urgent && !self.urgent.is_empty();
        self.calm_in_a_row = if passed { self.calm_in_a_row + 1 } else { 0 };
        self.kind(urgent).pop_front().map(|(_, job)| job)
    }

    /// Puts a claim back that did not fit.
    pub(super) fn push_front(&mut self, job: Job, urgent: bool) {
        // It was the next one, and stays it.
        if urgent {
            self.calm_in_a_row = CALM_IN_A_ROW_MAX;
        }
        self.kind(urgent).push_front((0, job));
    }

    pub(super) fn has_calm(&self) -> bool {
        !self.calm.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.urgent.len() + self.calm.len()
    }

    /// Drops void claims, so that a long hang does not pile them up.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(Job) -> bool) {
        self.urgent.retain(|(_, job)| keep(*job));
        self.calm.retain(|(_, job)| keep(*job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of claims of both kinds: 0, 1, .. are urgent, 10, 11, .. calm.
    fn order(calm_first: bool) -> Vec<Job> {
        let mut ready = Ready::new(calm_first);
        for n in 0..5 {
            ready.push(Job::Line(LineId(n)), true);
            ready.push(Job::Line(LineId(10 + n)), false);
        }
        std::iter::from_fn(|| ready.pop(false)).collect()
    }

    #[test]
    fn parked_waiters_go_first_and_at_least_every_fourth_claim_is_for_others() {
        let expected = [10, 11, 12, 0, 13, 14, 1, 2, 3, 4];
        assert_eq!(order(true), expected.map(|n| Job::Line(LineId(n))));
    }

    #[test]
    fn without_priority_the_first_come_is_the_first_served() {
        let expected = [0, 10, 1, 11, 2, 12, 3, 13, 4, 14];
        assert_eq!(order(false), expected.map(|n| Job::Line(LineId(n))));
    }

    #[test]
    fn a_claim_that_did_not_fit_is_the_next_one() {
        for calm_first in [true, false] {
            let mut ready = Ready::new(calm_first);
            for n in 10..20 {
                ready.push(Job::Line(LineId(n)), false);
            }
            ready.push(Job::Line(LineId(1)), true);
            for job in [Job::Line(LineId(1)), Job::Line(LineId(10))] {
                while ready.pop(false) != Some(job) {}
                ready.push_front(job, job == Job::Line(LineId(1)));
                assert_eq!(ready.pop(false), Some(job));
                ready.push(Job::Line(LineId(10)), false);
            }
        }
    }

    #[test]
    fn while_held_only_urgent_claims_go() {
        let mut ready = Ready::new(true);
        ready.push(Job::Line(LineId(1)), false);
        ready.push(Job::Waiter(IntentionId(2)), true);
        assert_eq!(ready.pop(true), Some(Job::Waiter(IntentionId(2))));
        assert_eq!(ready.pop(true), None);
        assert!(ready.has_calm());
    }
}
