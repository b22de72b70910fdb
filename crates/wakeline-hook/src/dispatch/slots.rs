//! The slots that limit the number of concurrent calls on a node.
//!
//! # Invariants
//! * First attempts may use every slot; retries may use only the general slots, not those reserved
//!   for first attempts.
//! * A held slot is given back when its holder is dropped, whatever happened.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The slots of a node.
pub(super) struct Slots {
    free: Mutex<FreeSlots>,
    freed: Notify,
    /// Notified when a general slot is freed, for loops that hold only reserved slots.
    general_freed: Notify,
}

/// The free slots.
struct FreeSlots {
    /// The number of free slots for any attempt.
    general: u32,
    /// The number of free slots reserved for first attempts.
    fresh: u32,
}

/// Slots that are held until this is dropped.
pub(super) struct HeldSlots {
    slots: Arc<Slots>,
    general: u32,
    fresh: u32,
}

impl Slots {
    pub(super) fn new(all: u32, reserved: u32) -> Self {
        let all = all.max(1);
        // At least one slot is general, because otherwise retries would wait forever.
        let fresh = reserved.min(all - 1);
        let free = Mutex::new(FreeSlots { general: all - fresh, fresh });
        Self { free, freed: Notify::new(), general_freed: Notify::new() }
    }

    /// The number of free general slots.
    pub(super) fn general_len(&self) -> u32 {
        self.free.lock().general
    }

    /// Takes up to `most` slots, at least one. Waits until one is free.
    pub(super) async fn take(slots: &Arc<Self>, most: u32) -> HeldSlots {
        loop {
            // Registered before the check, so that a slot freed in between is not missed.
            let freed = slots.freed.notified();
            let (general, fresh) = slots.free.lock().take(most);
            if general + fresh > 0 {
                // Only one waiter is woken when many slots are freed at once: it wakes the next.
                slots.freed.notify_one();
                slots.general_freed.notify_one();
                return HeldSlots { slots: Arc::clone(slots), general, fresh };
            }
            freed.await;
        }
    }

    /// Waits until a general slot is free.
    async fn general(&self) {
        loop {
            let freed = self.general_freed.notified();
            if self.free.lock().general > 0 {
                return;
            }
            freed.await;
        }
    }

    fn give_back(&self, general: u32, fresh: u32) {
        let mut free = self.free.lock();
        free.general += general;
        free.fresh += fresh;
        drop(free);
        self.freed.notify_one();
        if general > 0 {
            self.general_freed.notify_one();
        }
    }
}

impl FreeSlots {
    fn take(&mut self, most: u32) -> (u32, u32) {
        let general = self.general.min(most);
        let fresh = self.fresh.min(most - general);
        self.general -= general;
        self.fresh -= fresh;
        (general, fresh)
    }
}

impl HeldSlots {
    pub(super) fn len(&self) -> u32 {
        self.general + self.fresh
    }

    /// The number of held slots that are reserved for first attempts.
    pub(super) fn fresh_only(&self) -> u32 {
        self.fresh
    }

    /// Whether all held slots are reserved for first attempts.
    pub(super) fn is_fresh_only(&self) -> bool {
        self.general == 0
    }

    /// Waits until a general slot is free, if all held slots are reserved ones. Otherwise never
    /// returns.
    pub(super) async fn better(&self) {
        if self.is_fresh_only() {
            self.slots.general().await;
        } else {
            std::future::pending().await
        }
    }

    /// Whether [`HeldSlots::better`] would return at once.
    pub(super) fn has_better(&self) -> bool {
        self.is_fresh_only() && self.slots.free.lock().general > 0
    }

    /// Splits one slot off. General slots come first, even for first attempts, because stores count
    /// them in this order.
    pub(super) fn one(&mut self) -> HeldSlots {
        let (general, fresh) = if self.general > 0 { (1, 0) } else { (0, self.fresh.min(1)) };
        self.general -= general;
        self.fresh -= fresh;
        HeldSlots { slots: Arc::clone(&self.slots), general, fresh }
    }
}

impl Drop for HeldSlots {
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

    fn take(slots: &Arc<Slots>, most: u32) -> Option<HeldSlots> {
        Slots::take(slots, most).now_or_never()
    }

    #[test]
    fn reserved_slots_serve_only_first_attempts() {
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
    fn a_waiter_gets_the_slot_that_is_freed() {
        let slots = Arc::new(Slots::new(1, 1));
        let held = take(&slots, 1).expect("free");
        assert_eq!(held.fresh_only(), 0);
        let mut waiting = std::pin::pin!(Slots::take(&slots, 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(held);
        assert_eq!(waiting.now_or_never().expect("freed").len(), 1);
    }

    #[test]
    fn slots_freed_at_once_wake_all_waiters_that_can_use_them() {
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
    fn a_holder_of_reserved_slots_is_notified_of_a_free_general_slot() {
        let slots = Arc::new(Slots::new(3, 2));
        let mut held = take(&slots, 3).expect("free");
        let retry = held.one();
        let other = held.one();
        assert!(held.better().now_or_never().is_none() && !held.has_better());
        drop(other);
        assert!(held.better().now_or_never().is_none(), "the freed slot is a reserved one");
        drop(retry);
        held.better().now_or_never().expect("one is free");
        assert!(held.has_better());
        let general = take(&slots, 1).expect("free");
        assert!(general.better().now_or_never().is_none(), "it is a general slot");
        assert!(held.better().now_or_never().is_none(), "another loop took the general slot");
    }

    #[test]
    fn unused_slots_are_freed_at_once() {
        let slots = Arc::new(Slots::new(8, 2));
        let mut held = take(&slots, 8).expect("free");
        let used = held.one();
        drop(held);
        assert_eq!(take(&slots, 8).expect("free").len(), 7);
        drop(used);
    }
}
