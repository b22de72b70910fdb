//! What requests can still take: attempt ids, some of them for first attempts only.

use std::collections::VecDeque;
use std::time::Duration;

use wakeline_core::AttemptId;
use wakeline_store::hook::{DeliveryGroup, DeliveryRequest};

/// The requests of a line, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct RequestSlots(Vec<RequestSlot>);

/// What one request can still take, and what it got.
#[derive(Debug)]
pub(super) struct RequestSlot {
    ids: VecDeque<AttemptId>,
    /// How many of the ids are reserved for first attempts.
    fresh_only: usize,
    pub(super) lease: Option<Duration>,
    pub(super) groups: Vec<DeliveryGroup>,
}

impl RequestSlots {
    pub(super) fn new(requests: &[DeliveryRequest]) -> Self {
        let slot = |request: &DeliveryRequest| RequestSlot {
            ids: request.attempts.iter().copied().collect(),
            fresh_only: (request.fresh_only as usize).min(request.attempts.len()),
            lease: request.lease,
            groups: Vec::new(),
        };
        Self(requests.iter().map(slot).collect())
    }

    /// The number of attempts that can still be leased.
    pub(super) fn left(&self) -> usize {
        self.0.iter().map(|slot| slot.ids.len()).sum()
    }

    /// Whether all attempts that are left are reserved for first attempts.
    pub(super) fn fresh_only(&self) -> bool {
        self.0.iter().all(|slot| slot.ids.len() == slot.fresh_only)
    }

    /// The first request that can take a delivery.
    pub(super) fn first(&mut self, fresh: bool) -> Option<&mut RequestSlot> {
        self.0.iter_mut().find(|slot| slot.fits(fresh))
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut RequestSlot> {
        self.0.iter_mut()
    }

    /// The groups that each request got.
    pub(super) fn groups(self) -> Vec<Vec<DeliveryGroup>> {
        self.0.into_iter().map(|slot| slot.groups).collect()
    }
}

impl RequestSlot {
    pub(super) fn ids(&self) -> Vec<AttemptId> {
        self.ids.iter().copied().collect()
    }

    /// The attempt id that is used next.
    pub(super) fn next(&self) -> Option<AttemptId> {
        self.ids.front().copied()
    }

    fn fits(&self, fresh: bool) -> bool {
        self.ids.len() > self.fresh_only || (fresh && self.fresh_only > 0)
    }

    /// The attempt id for a delivery, if the request can take it.
    pub(super) fn offer(&self, fresh: bool) -> Option<AttemptId> {
        self.next().filter(|_| self.fits(fresh))
    }

    /// Uses the offered id. First attempts use the ids that are reserved for them last.
    pub(super) fn take(&mut self, fresh: bool) {
        debug_assert!(self.fits(fresh), "it was offered");
        if self.ids.len() == self.fresh_only {
            self.fresh_only -= 1;
        }
        self.ids.pop_front();
    }

    /// Removes an id that holds a delivery, or has held one.
    pub(super) fn remove(&mut self, id: AttemptId) {
        self.ids.retain(|other| *other != id);
        self.fresh_only = self.fresh_only.min(self.ids.len());
    }
}
