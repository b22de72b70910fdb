//! How many calls may be under way, and for whom.
//!
//! # Invariants
//! * First attempts may use every slot, retries all but those that are kept.
//! * A slot that is held is given back when its holder is dropped, whatever happened.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The slots of a node.
pub(super) struct Slots {
    state: Mutex<State>,
    freed: Notify,
    /// For those who hold slots for first attempts only.
    general_freed: Notify,
}

struct State {
    /// Slots for anything.
    general: u32,
    /// Slots for first attempts only.
    fresh: u32,
}

/// Slots that are held.
pub(super) struct Held {
    slots: Arc<Slots>,
    general: u32,
    fresh: u32,
}

impl Slots {
    pub(super) fn new(all: u32, kept: u32) -> Self {
        let all = all.max(1);
        // At least one slot is for anything: retries must not wait for ever.
        let fresh = kept.min(all - 1);
        let state = Mutex::new(State { general: all - fresh, fresh });
        Self { state, freed: Notify::new(), general_freed: Notify::new() }
    }

    /// How many slots for anything are free.
    pub(super) fn general_len(&self) -> u32 {
        self.state.lock().general
    }

    /// Takes up to `most` slots, at least one, as soon as there is one.
    pub(super) async fn take(slots: &Arc<Self>, most: u32) -> Held {
        loop {
            // Registered before looking, so that what is freed in between is not missed.
            let freed = slots.freed.notified();
            let (general, fresh) = slots.state.lock().take(most);
            if general + fresh > 0 {
                // One is woken for many that are freed at once: it wakes the next.
                slots.freed.notify_one();
                slots.general_freed.notify_one();
                return Held { slots: Arc::clone(slots), general, fresh };
            }
            freed.await;
        }
    }

    /// Waits until a slot for anything is free.
    async fn general(&self) {
        loop {
            let freed = self.general_freed.notified();
            if self.state.lock().general > 0 {
                return;
            }
            freed.await;
        }
    }

    fn give_back(&self, general: u32, fresh: u32) {
        let mut state = self.state.lock();
        state.general += general;
        state.fresh += fresh;
        drop(state);
        self.freed.notify_one();
        if general > 0 {
            self.general_freed.notify_one();
        }
    }
}

impl State {
    fn take(&mut self, most: u32) -> (u32, u32) {
        let general = self.general.min(most);
        let fresh = self.fresh.min(most - general);
        self.general -= general;
        self.fresh -= fresh;
        (general, fresh)
    }
}

impl Held {
    pub(super) fn len(&self) -> u32 {
        self.general + self.fresh
    }

    /// How many of them are for first attempts only.
    pub(super) fn fresh_only(&self) -> u32 {
        self.fresh
    }

    /// Whether all of them are.
    pub(super) fn is_fresh_only(&self) -> bool {
        self.general == 0
    }

    /// Waits until these could be changed for better ones: until a slot for anything is free,
    /// and none of these is for anything.
    pub(super) async fn better(&self) {
        match self.is_fresh_only() {
            true => self.slots.general().await,
            false => std::future::pending().await,
        }
    }

    /// Whether [`Held::better`] would return at once.
    pub(super) fn has_better(&self) -> bool {
        self.is_fresh_only() && self.slots.state.lock().general > 0
    }

    /// Takes one out of these. Those for anything go first, also for first attempts: that is how
    /// stores count them.
    pub(super) fn one(&mut self) -> Held {
        let (general, fresh) = if self.general > 0 { (1, 0) } else { (0, self.fresh.min(1)) };
        self.general -= general;
        self.fresh -= fresh;
        Held { slots: Arc::clone(&self.slots), general, fresh }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.len() > 0 {
            self.slots.give_back(self.general, self.fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn take(slots: &Arc<Slots>, most: u32) -> Option<Held> {
        Slots::take(slots, most).now_or_never()
    }

    #[test]
    fn slots_for_first_attempts_are_left_to_them() {
        let slots = Arc::new(Slots::new(4, 1));
        let mut held = take(&slots, 10).expect("free");
        assert_eq!((held.len(), held.fresh_only()), (4, 1));
        assert!(take(&slots, 1).is_none());
        let retries = [held.one(), held.one(), held.one()];
        let first = held.one();
        assert_eq!((first.len(), first.fresh_only()), (1, 1));
        drop(held);
        assert!(take(&slots, 1).is_none());
        drop(first);
        let again = take(&slots, 10).expect("free");
        assert_eq!((again.len(), again.fresh_only()), (1, 1));
        drop((retries, again));
        assert_eq!(take(&slots, 10).expect("free").len(), 4);
    }

    #[test]
    fn who_waits_for_a_slot_gets_the_one_that_is_freed() {
        let slots = Arc::new(Slots::new(1, 1));
        let held = take(&slots, 1).expect("free");
        assert_eq!(held.fresh_only(), 0);
        let mut waiting = std::pin::pin!(Slots::take(&slots, 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(held);
        assert_eq!(waiting.now_or_never().expect("freed").len(), 1);
    }

    #[test]
    fn many_that_are_freed_at_once_wake_all_who_can_use_them() {
        let slots = Arc::new(Slots::new(4, 0));
        let held = take(&slots, 4).expect("free");
        let mut one = std::pin::pin!(Slots::take(&slots, 1));
        let mut two = std::pin::pin!(Slots::take(&slots, 1));
        assert!(one.as_mut().now_or_never().is_none() && two.as_mut().now_or_never().is_none());
        drop(held);
        let one = one.now_or_never().expect("woken");
        assert_eq!(one.len() + two.now_or_never().expect("woken by the first").len(), 2);
    }

    #[test]
    fn who_holds_slots_for_first_attempts_hears_of_a_better_one() {
        let slots = Arc::new(Slots::new(3, 2));
        let mut held = take(&slots, 3).expect("free");
        let retry = held.one();
        let other = held.one();
        assert!(held.better().now_or_never().is_none() && !held.has_better());
        drop(other);
        assert!(held.better().now_or_never().is_none(), "that was for first attempts");
        drop(retry);
        held.better().now_or_never().expect("one is free");
        assert!(held.has_better());
        let general = take(&slots, 1).expect("free");
        assert!(general.better().now_or_never().is_none(), "it is for anything");
        assert!(held.better().now_or_never().is_none(), "somebody else was first");
    }

    #[test]
    fn what_is_left_over_is_free_at_once() {
        let slots = Arc::new(Slots::new(8, 2));
        let mut held = take(&slots, 8).expect("free");
        let used = held.one();
        drop(held);
        assert_eq!(take(&slots, 8).expect("free").len(), 7);
        drop(used);
    }
}
