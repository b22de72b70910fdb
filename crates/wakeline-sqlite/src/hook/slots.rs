//! What asks can still take: ids for attempts, some of them for first attempts only.

use std::collections::VecDeque;
use std::time::Duration;

use wakeline_core::AttemptId;
use wakeline_store::hook::{DeliveryAsk, DeliveryGroup};

/// The asks of a line, in order of arrival.
#[derive(Debug)]
pub(super) struct Slots(Vec<Slot>);

/// What one of them can still take, and what it got.
#[derive(Debug)]
pub(super) struct Slot {
    ids: VecDeque<AttemptId>,
    /// How many of the ids are for first attempts only.
    fresh_only: usize,
    pub(super) lease: Option<Duration>,
    pub(super) groups: Vec<DeliveryGroup>,
}

impl Slots {
    pub(super) fn new(asks: &[DeliveryAsk]) -> Self {
        let slot = |ask: &DeliveryAsk| Slot {
            ids: ask.attempts.iter().copied().collect(),
            fresh_only: (ask.fresh_only as usize).min(ask.attempts.len()),
            lease: ask.lease,
            groups: Vec::new(),
        };
        Self(asks.iter().map(slot).collect())
    }

    /// Attempts that can still be made.
    pub(super) fn left(&self) -> usize {
        self.0.iter().map(|slot| slot.ids.len()).sum()
    }

    /// Whether all that is left is for first attempts.
    pub(super) fn fresh_only(&self) -> bool {
        self.0.iter().all(|slot| slot.ids.len() == slot.fresh_only)
    }

    /// The first ask that has an attempt for a delivery.
    pub(super) fn first(&mut self, fresh: bool) -> Option<&mut Slot> {
        self.0.iter_mut().find(|slot| slot.fits(fresh))
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.0.iter_mut()
    }

    /// What each of them got.
    pub(super) fn groups(self) -> Vec<Vec<DeliveryGroup>> {
        self.0.into_iter().map(|slot| slot.groups).collect()
    }
}

impl Slot {
    pub(super) fn ids(&self) -> Vec<AttemptId> {
        self.ids.iter().copied().collect()
    }

    /// The id that it uses next.
    pub(super) fn next(&self) -> Option<AttemptId> {
        self.ids.front().copied()
    }

    fn fits(&self, fresh: bool) -> bool {
        self.ids.len() > self.fresh_only || (fresh && self.fresh_only > 0)
    }

    /// The id that it has for a delivery, if it has one.
    pub(super) fn offer(&self, fresh: bool) -> Option<AttemptId> {
        self.next().filter(|_| self.fits(fresh))
    }

    /// Uses up the id that was offered. First attempts use those that are for them alone last.
    pub(super) fn take(&mut self, fresh: bool) {
        debug_assert!(self.fits(fresh), "it was offered");
        if self.ids.len() == self.fresh_only {
            self.fresh_only -= 1;
        }
        self.ids.pop_front();
    }

    /// An id holds a delivery already, or did.
    pub(super) fn remove(&mut self, id: AttemptId) {
        self.ids.retain(|other| *other != id);
        self.fresh_only = self.fresh_only.min(self.ids.len());
    }
}
