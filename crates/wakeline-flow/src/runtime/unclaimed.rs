//! Fails what no worker has claimed for too long, if the runtime was told to.
//!
//! # Invariants
//! * Only what waits for its first claim by a worker with its code is failed: pending instances and
//!   activities. An instance that has begun is left alone.
//! * An activity is claimed before it is failed, so a worker that comes up meanwhile either has it
//!   or does not get it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{ActivityFilter, ActivityName, ActivityNames, InstanceId, TagFilter};
use wakeline_store::flow::{
    FindUnclaimed, InstanceState, Unclaimed, UnclaimedWhat, Watched, WorkKey,
};

use super::Shared;
use crate::error::{FailureKind, FlowError};
use crate::message::WorkItem;
use crate::provider::{ProviderAdmin, ProviderError, WorkFilter};

/// Most that is looked at in one round.
const ROUND_MAX: u32 = 1_000;
/// Longest time between two rounds.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Fails what waits longer than that, round by round, until the runtime closes.
pub(super) async fn fail_late(shared: Arc<Shared>, timeout: Duration) {
    let pause = (timeout / 4).clamp(Duration::from_millis(100), PAUSE_MAX);
    loop {
        tokio::select! {
            () = shared.closing.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if let Err(error) = round(&shared, timeout).await {
            tracing::warn!(%error, "could not look for unclaimed work");
        }
    }
}

async fn round(shared: &Shared, timeout: Duration) -> Result<(), ProviderError> {
    let Some(admin) = shared.provider.admin() else { return Ok(()) };
    let find = FindUnclaimed { instances: None, waited_min: timeout, limit: ROUND_MAX };
    let late = admin.unclaimed(find).await?;
    metrics::gauge!("wakeline_flow_unclaimed").set(late.len() as f64);
    let mut activities: HashSet<(InstanceId, WorkKey)> = HashSet::new();
    let mut names: HashSet<ActivityName> = HashSet::new();
    for Unclaimed { instance, what, .. } in late {
        let error = too_late(&what, timeout);
        match what {
            UnclaimedWhat::Turn(_) => fail_pending(admin, &instance, error).await?,
            UnclaimedWhat::Work(key, route) => {
                activities.insert((instance, key));
                names.extend(route.name);
            }
        }
    }
    for name in names {
        fail_activities(shared, &name, &activities, timeout).await?;
    }
    Ok(())
}

async fn fail_pending(
    admin: &dyn ProviderAdmin,
    instance: &InstanceId,
    error: FlowError,
) -> Result<(), ProviderError> {
    let Watched::There(detail) = admin.instance(instance).await? else { return Ok(()) };
    if detail.state == InstanceState::Pending
        && admin.terminate(instance, error.clone(), None).await?
    {
        tracing::warn!(%instance, %error, "a pending instance has failed");
    }
    Ok(())
}

/// Takes activities of a name, oldest first, as long as they are late.
async fn fail_activities(
    shared: &Shared,
    name: &ActivityName,
    late: &HashSet<(InstanceId, WorkKey)>,
    timeout: Duration,
) -> Result<(), ProviderError> {
    let names = ActivityNames::Of(Arc::new([name.clone()].into()));
    let filter = WorkFilter {
        activities: ActivityFilter { tags: TagFilter::Any, names },
        session: shared.sessions.claim(),
    };
    let (provider, lease) = (&shared.provider, shared.options.worker_lock_timeout);
    while let Some(work) = provider.fetch_work_item_for(&filter, lease, None).await? {
        let WorkItem::ActivityExecute(task) = work.item else { return Ok(()) };
        let key = WorkKey { execution: task.execution, activity: task.event };
        if !late.contains(&(task.instance.clone(), key)) {
            return provider.abandon_work_item(&work.lock_token, None, true).await;
        }
        let route = wakeline_core::ActivityRoute { tag: work.tag, name: Some(name.clone()) };
        let error = too_late(&UnclaimedWhat::Work(key, route), timeout);
        tracing::warn!(instance = %task.instance, %error, "an activity has failed");
        let done = WorkItem::ActivityDone {
            instance: task.instance,
            execution: task.execution,
            event: task.event,
            result: Err(error),
        };
        provider.ack_work_item(&work.lock_token, Some(done)).await?;
    }
    Ok(())
}

fn too_late(what: &UnclaimedWhat, timeout: Duration) -> FlowError {
    let words = format!("{what} within {} ms", timeout.as_millis());
    FlowError::new(FailureKind::Timeout, words)
}
