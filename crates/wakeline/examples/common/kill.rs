//! Kills the program in the middle of its work if a test requests it.

use std::sync::Arc;

use rustix::process::{Signal, getpid, kill_process};
use wakeline::provider::Provider;
use wakeline::testing::{CrashDecision, Transition, TransitionPhase, Transitions};
use wakeline::{Backed, LongPollConfig, StoreBackend};
use wakeline_store::flow::FlowStore;

use super::BoxError;

/// A provider and its store.
pub(crate) type OpenedStore = (Arc<dyn Provider>, Arc<dyn FlowStore>);

/// Ends the process with SIGKILL right before or after its n-th transition, if the environment
/// variable `WAKELINE_EXAMPLE_KILL` is set, for example to `before:3` or `after:3`.
pub(crate) fn if_requested<S: StoreBackend + Clone + 'static>(
    provider: Backed<S>,
) -> Result<OpenedStore, BoxError> {
    let Ok(plan) = std::env::var("WAKELINE_EXAMPLE_KILL") else {
        let store = Arc::clone(provider.store());
        return Ok((Arc::new(provider), store));
    };
    let (phase, nth) = plan.split_once(':').ok_or("before:3 or after:3")?;
    let phase = if phase == "before" { TransitionPhase::Before } else { TransitionPhase::After };
    let nth: u64 = nth.parse()?;
    let observer = move |at: Transition| {
        if (at.phase, at.nth) == (phase, nth) {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        }
        CrashDecision::Continue
    };
    let store = Transitions::new(S::clone(provider.store()), Arc::new(observer));
    let provider = Backed::over(store, LongPollConfig::default())?;
    let store = Arc::clone(provider.store());
    Ok((Arc::new(provider), store))
}
