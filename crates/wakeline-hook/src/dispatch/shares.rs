//! How applications share the slots of a node.
//!
//! # Invariants
//! * An application may have so many calls under way as are a multiple of the slots that are free
//!   then. One alone gets nearly all of them, several get equal parts, and whoever has few calls
//!   always finds a slot: nobody's endpoints that hang can hold them all.
//! * What is over an application's share holds no slot. It waits for the application's own calls,
//!   for a moment, and is then given back uncounted: it goes behind what waited meanwhile.
//! * Only so many wait like that, so that they do not take the store's backlog into memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use wakeline_core::ApplicationId;

/// How many calls an application may have under way for each slot that is free.
const CALLS_PER_FREE_SLOT: u32 = 7;

/// The calls under way, by application.
pub(super) struct Shares {
    slots: u32,
    state: Mutex<State>,
    /// A call has ended, or one that waited has gone.
    changed: Notify,
}

#[derive(Default)]
struct State {
    calls: HashMap<ApplicationId, u32>,
    all: u32,
    /// Those that wait for a share.
    waiting: u32,
}

/// One call of an application.
pub(super) struct Share {
    shares: Arc<Shares>,
    application: ApplicationId,
}

/// One that waits for a share.
pub(super) struct Waiting(Arc<Shares>);

impl Shares {
    pub(super) fn new(slots: u32) -> Self {
        Self { slots: slots.max(1), state: Mutex::default(), changed: Notify::new() }
    }

    /// A call of an application, if its share allows one.
    pub(super) fn begin(shares: &Arc<Self>, application: ApplicationId) -> Option<Share> {
        let mut state = shares.state.lock();
        let free = shares.slots.saturating_sub(state.all);
        let calls = state.calls.get(&application).copied().unwrap_or(0);
        // The slot of this call is one of those that are free.
        if calls >= CALLS_PER_FREE_SLOT.saturating_mul(free) {
            return None;
        }
        state.calls.insert(application, calls + 1);
        state.all += 1;
        Some(Share { shares: Arc::clone(shares), application })
    }

    /// Waits as one that is over its share.
    pub(super) fn wait(shares: &Arc<Self>) -> Waiting {
        shares.state.lock().waiting += 1;
        Waiting(Arc::clone(shares))
    }

    /// A call of an application, as soon as its share allows one.
    pub(super) async fn begun(shares: &Arc<Self>, application: ApplicationId) -> Share {
        loop {
            // Registered before looking, so that what ends in between is not missed.
            let mut changed = std::pin::pin!(shares.changed.notified());
            changed.as_mut().enable();
            if let Some(share) = Self::begin(shares, application) {
                return share;
            }
            changed.await;
        }
    }

    /// Waits until few enough wait for a share.
    pub(super) async fn settled(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.state.lock().waiting < (self.slots / (CALLS_PER_FREE_SLOT + 1)).max(1) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.shares.state.lock();
        state.all -= 1;
        if let Some(calls) = state.calls.get_mut(&self.application) {
            *calls -= 1;
            if *calls == 0 {
                state.calls.remove(&self.application);
            }
        }
        drop(state);
        self.shares.changed.notify_waiters();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn fill(shares: &Arc<Shares>, application: ApplicationId) -> Vec<Share> {
        std::iter::from_fn(|| Shares::begin(shares, application)).collect()
    }

    #[test]
    fn one_alone_gets_nearly_all_and_another_still_finds_some() {
        let shares = Arc::new(Shares::new(1_000));
        let [one, other, third] = [(); 3].map(|()| ApplicationId::generate());
        let first = fill(&shares, one);
        assert_eq!(first.len(), 875);
        let second = fill(&shares, other);
        assert!(second.len() > 100 && second.len() < 125, "{}", second.len());
        assert!(!fill(&shares, third).is_empty(), "there is always one more");
        drop(first);
        assert!(fill(&shares, other).len() > 300, "what is free goes to whoever wants it");
    }

    #[test]
    fn few_slots_are_used_to_the_last() {
        for slots in 1..=7 {
            let shares = Arc::new(Shares::new(slots));
            assert_eq!(fill(&shares, ApplicationId::generate()).len(), slots as usize);
        }
    }

    #[test]
    fn who_waits_for_a_share_gets_the_one_that_is_freed() {
        let shares = Arc::new(Shares::new(8));
        let application = ApplicationId::generate();
        let mut held = fill(&shares, application);
        assert_eq!(held.len(), 7);
        let waiting = Shares::wait(&shares);
        assert!(shares.settled().now_or_never().is_none(), "one may wait");
        let mut begun = std::pin::pin!(Shares::begun(&shares, application));
        assert!(begun.as_mut().now_or_never().is_none());
        held.pop();
        drop(begun.now_or_never().expect("freed"));
        drop(waiting);
        shares.settled().now_or_never().expect("nobody waits");
    }
}
