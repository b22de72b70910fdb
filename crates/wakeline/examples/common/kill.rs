//! Kills the program in the middle of its work, if a test asks for that.

use std::sync::Arc;

use rustix::process::{Signal, getpid, kill_process};
use wakeline::provider::Provider;
use wakeline::testing::{Fate, Moment, Transition, Transitions};
use wakeline::{Backed, LongPollConfig, StoreBackend};
use wakeline_store::flow::FlowStore;

use super::BoxError;

/// A provider, and the store that it is over.
pub(crate) type Opened = (Arc<dyn Provider>, Arc<dyn FlowStore>);

/// Ends the process with SIGKILL right before or after its n-th transition, if the environment says
/// `WAKELINE_EXAMPLE_KILL=before:3` or `after:3`.
pub(crate) fn if_asked<S: StoreBackend + Clone + 'static>(
    provider: Backed<S>,
) -> Result<Opened, BoxError> {
    let Ok(plan) = std::env::var("WAKELINE_EXAMPLE_KILL") else {
        let store = Arc::clone(provider.store());
        return Ok((Arc::new(provider), store));
    };
    let (moment, nth) = plan.split_once(':').ok_or("before:3 or after:3")?;
    let moment = if moment == "before" { Moment::Before } else { Moment::After };
    let nth: u64 = nth.parse()?;
    let witness = move |at: Transition| {
        if (at.moment, at.nth) == (moment, nth) {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        }
        Fate::GoOn
    };
    let store = Transitions::new(S::clone(provider.store()), Arc::new(witness));
    let provider = Backed::over(store, LongPollConfig::default())?;
    let store = Arc::clone(provider.store());
    Ok((Arc::new(provider), store))
}
