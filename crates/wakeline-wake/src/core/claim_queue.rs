//! The queue of claims that wait for a free slot.

use std::collections::VecDeque;

use super::{LineId, WaiterId};

/// A claim to be made. It may be void by the time it is taken out of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimJob {
    /// A claim for all parked waiters of a line.
    Line(LineId),
    /// A claim for one waiter.
    Waiter(WaiterId),
}

/// The maximum number of claims for parked waiters in a row while others wait for a slot.
const CALM_IN_A_ROW_MAX: u32 = 3;

/// Claims in order. Urgent claims are those for polls that do not wait. While failing claims are
/// held back, the urgent ones go ahead, because their callers want the error now. All others are
/// calm.
#[derive(Debug)]
pub(super) struct ClaimQueue {
    urgent: VecDeque<(u64, ClaimJob)>,
    calm: VecDeque<(u64, ClaimJob)>,
    /// Counts arrivals, so that claims can be served in their order.
    arrivals: u64,
    /// Whether calm claims go first; if not, claims are served in order of arrival.
    calm_first: bool,
    /// The number of calm claims in a row that went first while urgent ones waited.
    calm_in_a_row: u32,
}

impl ClaimQueue {
    pub(super) fn new(calm_first: bool) -> Self {
        let (urgent, calm) = (VecDeque::new(), VecDeque::new());
        Self { urgent, calm, arrivals: 0, calm_first, calm_in_a_row: 0 }
    }

    fn kind(&mut self, urgent: bool) -> &mut VecDeque<(u64, ClaimJob)> {
        if urgent { &mut self.urgent } else { &mut self.calm }
    }

    pub(super) fn push(&mut self, job: ClaimJob, urgent: bool) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.kind(urgent).push_back((arrival, job));
    }

    /// Takes the next claim; with `held`, calm claims stay in the queue.
    pub(super) fn pop(&mut self, held: bool) -> Option<ClaimJob> {
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

    /// Puts a claim back that did not fit into the call.
    pub(super) fn push_front(&mut self, job: ClaimJob, urgent: bool) {
        // It was the next claim, and stays the next one.
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

    /// Removes void claims, so that they do not pile up while calls hang.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(ClaimJob) -> bool) {
        self.urgent.retain(|(_, job)| keep(*job));
        self.calm.retain(|(_, job)| keep(*job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order of claims of both kinds: 0, 1, .. are urgent, 10, 11, .. are calm.
    fn order(calm_first: bool) -> Vec<ClaimJob> {
        let mut queue = ClaimQueue::new(calm_first);
        for n in 0..5 {
            queue.push(ClaimJob::Line(LineId(n)), true);
            queue.push(ClaimJob::Line(LineId(10 + n)), false);
        }
        std::iter::from_fn(|| queue.pop(false)).collect()
    }

    #[test]
    fn parked_waiters_go_first_and_at_least_every_fourth_claim_is_for_others() {
        let expected = [10, 11, 12, 0, 13, 14, 1, 2, 3, 4];
        assert_eq!(order(true), expected.map(|n| ClaimJob::Line(LineId(n))));
    }

    #[test]
    fn without_priority_the_first_come_is_the_first_served() {
        let expected = [0, 10, 1, 11, 2, 12, 3, 13, 4, 14];
        assert_eq!(order(false), expected.map(|n| ClaimJob::Line(LineId(n))));
    }

    #[test]
    fn a_claim_that_did_not_fit_is_the_next_one() {
        for calm_first in [true, false] {
            let mut queue = ClaimQueue::new(calm_first);
            for n in 10..20 {
                queue.push(ClaimJob::Line(LineId(n)), false);
            }
            queue.push(ClaimJob::Line(LineId(1)), true);
            for job in [ClaimJob::Line(LineId(1)), ClaimJob::Line(LineId(10))] {
                while queue.pop(false) != Some(job) {}
                queue.push_front(job, job == ClaimJob::Line(LineId(1)));
                assert_eq!(queue.pop(false), Some(job));
                queue.push(ClaimJob::Line(LineId(10)), false);
            }
        }
    }

    #[test]
    fn while_held_only_urgent_claims_go() {
        let mut queue = ClaimQueue::new(true);
        queue.push(ClaimJob::Line(LineId(1)), false);
        queue.push(ClaimJob::Waiter(WaiterId(2)), true);
        assert_eq!(queue.pop(true), Some(ClaimJob::Waiter(WaiterId(2))));
        assert_eq!(queue.pop(true), None);
        assert!(queue.has_calm());
    }
}
