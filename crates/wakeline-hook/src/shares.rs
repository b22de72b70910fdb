//! Fair sharing of a limited resource among applications: slots for calls, and name lookups.
//!
//! # Where it sits
//! [`crate::api`] limits the calls of an application to its share of the slots, and the lookups in
//! [`crate::send`] are limited to its share of the lookups.
//!
//! # Invariants
//! * An application may hold a fixed multiple of the number of free units. A single application
//!   gets most of the units, several get equal parts, and some units always remain for applications
//!   that hold few: no application can hold all of them, whatever its endpoints do.
//! * A caller that was limited can find out that a unit is free again, with
//!   [`Shares::was_limited`] or [`Shares::freed`].

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use wakeline_core::ApplicationId;
use wakeline_store::hook::ApplicationLimit;

/// The shares of all applications.
pub(crate) struct Shares {
    all: u32,
    /// How many units an application may hold for each free one.
    per_free: u32,
    state: Mutex<ShareState>,
    freed: Notify,
}

#[derive(Default)]
struct ShareState {
    held: HashMap<ApplicationId, u32>,
    held_by_all: u32,
    /// Whether an application was limited since the last [`Shares::was_limited`].
    limited: bool,
}

/// One unit that an application holds until this is dropped.
pub(crate) struct Share {
    shares: Arc<Shares>,
    application: ApplicationId,
}

impl Shares {
    pub(crate) fn new(all: u32, per_free: u32) -> Self {
        let state = Mutex::default();
        Self { all: all.max(1), per_free: per_free.max(1), state, freed: Notify::new() }
    }

    /// Takes one unit for an application, if its share allows one more.
    pub(crate) fn take(shares: &Arc<Self>, application: ApplicationId) -> Option<Share> {
        let mut state = shares.state.lock();
        let held = state.held.get(&application).copied().unwrap_or(0);
        if shares.left(&state, held) == 0 {
            state.limited = true;
            return None;
        }
        state.held.insert(application, held + 1);
        state.held_by_all += 1;
        Some(Share { shares: Arc::clone(shares), application })
    }

    /// Completes when a unit is freed.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// The applications that hold units and may take fewer than `most` more.
    pub(crate) fn limits(&self, most: usize) -> Vec<ApplicationLimit> {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        let mut limits = Vec::new();
        for (application, held) in &state.held {
            let groups = self.left(&state, *held);
            if groups < most {
                limits.push(ApplicationLimit { application: *application, groups });
            }
        }
        state.limited |= !limits.is_empty();
        limits
    }

    /// Whether an application was limited since the last call. Whoever frees a unit calls this, and
    /// then looks for the work that the limit held back.
    pub(crate) fn was_limited(&self) -> bool {
        std::mem::take(&mut self.state.lock().limited)
    }

    /// How many more units an application that holds `held` units may take, one after the other.
    fn left(&self, state: &ShareState, held: u32) -> u32 {
        let free = self.all - state.held_by_all;
        let (free, held, per_free) = (u64::from(free), u64::from(held), u64::from(self.per_free));
        let left = (per_free * free).saturating_sub(held).div_ceil(per_free + 1);
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.shares.state.lock();
        state.held_by_all -= 1;
        if let Some(held) = state.held.get_mut(&self.application) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&self.application);
            }
        }
        drop(state);
        self.shares.freed.notify_waiters();
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("application", &self.application).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn fill(shares: &Arc<Shares>, application: ApplicationId) -> Vec<Share> {
        std::iter::from_fn(|| Shares::take(shares, application)).collect()
    }

    fn limit(shares: &Shares, application: ApplicationId) -> Option<u32> {
        let limits = shares.limits(usize::MAX);
        limits.iter().find(|limit| limit.application == application).map(|limit| limit.groups)
    }

    #[test]
    fn a_single_application_gets_most_units_and_another_always_finds_some() {
        let shares = Arc::new(Shares::new(800, 3));
        let [one, other, third] = [(); 3].map(|()| ApplicationId::generate());
        let first = fill(&shares, one);
        assert_eq!(first.len(), 600);
        let second = fill(&shares, other);
        assert_eq!(second.len(), 150);
        assert!(!fill(&shares, third).is_empty(), "there is always one more");
        drop(first);
        assert!(fill(&shares, other).len() > 300, "what is free goes to whoever wants it");
    }

    #[test]
    fn many_greedy_applications_leave_one_unit_to_another() {
        let shares = Arc::new(Shares::new(750, 3));
        let greedy: Vec<_> = (0..100).map(|_| ApplicationId::generate()).collect();
        let mut held = Vec::new();
        loop {
            let more: Vec<_> =
                greedy.iter().filter_map(|one| Shares::take(&shares, *one)).collect();
            if more.is_empty() {
                break;
            }
            held.extend(more);
        }
        assert!(held.len() > 700, "{}", held.len());
        assert!(Shares::take(&shares, ApplicationId::generate()).is_some());
    }

    #[test]
    fn a_small_number_of_units_can_be_used_completely() {
        for all in 1..=3 {
            let shares = Arc::new(Shares::new(all, 3));
            assert_eq!(fill(&shares, ApplicationId::generate()).len(), all as usize);
        }
    }

    #[test]
    fn a_limit_is_the_number_of_units_that_can_be_taken() {
        let shares = Arc::new(Shares::new(100, 7));
        let [one, other] = [(); 2].map(|()| ApplicationId::generate());
        let _one = Shares::take(&shares, one);
        let _others: Vec<_> = (0..30).filter_map(|_| Shares::take(&shares, other)).collect();
        let limit = limit(&shares, one).expect("it holds one");
        assert_eq!(fill(&shares, one).len(), limit as usize);
        assert!(shares.limits(0).is_empty(), "no more units are requested");
    }

    #[test]
    fn a_limitation_is_reported_once_to_whoever_frees_a_unit() {
        let shares = Arc::new(Shares::new(8, 7));
        let application = ApplicationId::generate();
        assert!(!shares.was_limited());
        let held = fill(&shares, application);
        assert!(shares.was_limited() && !shares.was_limited());
        assert_eq!(limit(&shares, application), Some(0));
        assert!(shares.was_limited());
        drop(held);
        assert!(shares.limits(8).is_empty() && !shares.was_limited());
    }

    #[test]
    fn a_waiter_is_notified_of_a_freed_unit_and_does_not_block_others() {
        let shares = Arc::new(Shares::new(2, 1));
        let application = ApplicationId::generate();
        let held = fill(&shares, application);
        assert_eq!(held.len(), 1);
        let mut freed = std::pin::pin!(shares.freed());
        assert!(freed.as_mut().now_or_never().is_none());
        assert!(Shares::take(&shares, application).is_none());
        let other = Shares::take(&shares, ApplicationId::generate()).expect("for another");
        assert!(freed.as_mut().now_or_never().is_none());
        drop((held, other));
        freed.now_or_never().expect("freed");
        assert!(Shares::take(&shares, application).is_some());
    }
}
