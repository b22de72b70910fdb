//! Fails work that no worker has claimed for too long, if the runtime is configured to do so.
//!
//! # Invariants
//! * Only pending instances and activities are failed, which wait for their first claim by a worker
//!   with their code. Instances that have begun are not.
//! * An activity is claimed before it is failed, so a worker that starts meanwhile either has it
//!   already or does not get it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    ActivityFilter, ActivityName, ActivityNames, InstanceId, OwnerId, TagFilter, error_chain,
};
use wakeline_store::flow::{
    FindUnclaimed, InstanceState, Unclaimed, UnclaimedWork, Watched, WorkKey,
};

use super::RuntimeShared;
use crate::client::UNCLAIMED_AFTER;
use crate::error::{FailureKind, FlowError};
use crate::message::FlowMessage;
use crate::provider::{ProviderAdmin, ProviderError, SessionLock, WorkFilter};

/// The maximum number of items that are read in one round.
const ROUND_MAX: u32 = 1_000;
/// The maximum of the metric, as in a server.
const COUNT_MAX: u32 = 10_000;
/// The longest time between two rounds.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The late activities of one name, each with the error that it fails with.
type Late = HashMap<(InstanceId, WorkKey), FlowError>;

/// Fails items that have waited longer than the timeout, in rounds, until the runtime closes.
pub(super) async fn fail_late(shared: Arc<RuntimeShared>, timeout: Duration) {
    let pause = (timeout / 4).clamp(Duration::from_millis(100), PAUSE_MAX);
    loop {
        tokio::select! {
            () = shared.closing.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if let Err(error) = round(&shared, timeout).await {
            tracing::warn!(error = error_chain(&error), "could not look for unclaimed work");
        }
    }
}

async fn round(shared: &RuntimeShared, timeout: Duration) -> Result<(), ProviderError> {
    let Some(admin) = shared.provider.admin() else { return Ok(()) };
    let find = FindUnclaimed { instances: None, waited_min: timeout, limit: ROUND_MAX };
    let late = admin.unclaimed(find).await?;
    count(admin).await?;
    let mut activities: HashMap<ActivityName, Late> = HashMap::new();
    for Unclaimed { instance, what, .. } in late {
        let error = too_late(&what, timeout);
        match what {
            UnclaimedWork::Turn(_) => fail_pending(admin, &instance, error).await?,
            UnclaimedWork::Work(key, route) => {
                if let Some(name) = route.name {
                    activities.entry(name).or_default().insert((instance, key), error);
                }
            }
        }
    }
    for (name, late) in activities {
        fail_activities(shared, name, late).await?;
    }
    Ok(())
}

/// Sets the metric of unclaimed items in the same way as a server does, independent of the timeout
/// of this runtime.
async fn count(admin: &dyn ProviderAdmin) -> Result<(), ProviderError> {
    let find = FindUnclaimed { instances: None, waited_min: UNCLAIMED_AFTER, limit: COUNT_MAX };
    let unclaimed = admin.unclaimed(find).await?;
    metrics::gauge!("wakeline_flow_unclaimed").set(unclaimed.len() as f64);
    Ok(())
}

async fn fail_pending(
    admin: &dyn ProviderAdmin,
    instance: &InstanceId,
    error: FlowError,
) -> Result<(), ProviderError> {
    let Watched::Found(detail) = admin.instance(instance).await? else { return Ok(()) };
    if detail.state == InstanceState::Pending
        && admin.terminate(instance, error.clone(), None).await?
    {
        tracing::warn!(
            %instance, error = error_chain(&error),
            "failed an instance that no worker has claimed"
        );
    }
    Ok(())
}

/// Fails the late activities of a name. Others that are claimed with them are given back at the
/// end, because the next claim would otherwise return the same ones. Their waiting time then begins
/// again, because a lease replaces the time since which they could be claimed.
async fn fail_activities(
    shared: &RuntimeShared,
    name: ActivityName,
    late: Late,
) -> Result<(), ProviderError> {
    let names = ActivityNames::Of(Arc::new([name].into()));
    let activities = ActivityFilter { tags: TagFilter::Any, names };
    // Sessions are claimed for an owner that runs nothing and releases them at the end. Otherwise
    // late activities of sessions could not be failed. Those of a session that a worker owns fail
    // once the session has ended.
    let owner = OwnerId::new(uuid::Uuid::new_v4().to_string()).ok();
    let session = shared.sessions.claim().zip(owner);
    let session = session.map(|(session, owner)| SessionLock { owner, ..session });
    let filter = WorkFilter { activities, session };
    let mut kept = Vec::new();
    let failed = fail_found(shared, &filter, late, &mut kept).await;
    let provider = &shared.provider;
    for token in kept {
        if let Err(error) = provider.abandon_work_item(&token, None, true).await {
            let error = error_chain(&error);
            tracing::debug!(error, "could not release the lease of an activity: it will expire");
        }
    }
    if let Some(session) = filter.session {
        provider.release_sessions(&[session.owner]).await?;
    }
    failed
}

/// Claims activities until all late ones are found or the round is over. The tokens of those that
/// are not late are added to `kept`.
async fn fail_found(
    shared: &RuntimeShared,
    filter: &WorkFilter,
    mut late: Late,
    kept: &mut Vec<String>,
) -> Result<(), ProviderError> {
    let (provider, lease) = (&shared.provider, shared.options.worker_lock_timeout);
    for _ in 0..ROUND_MAX {
        if late.is_empty() {
            break;
        }
        let Some(work) = provider.fetch_work_item_for(filter, lease, None).await? else { break };
        let FlowMessage::ActivityExecute(task) = work.item else {
            kept.push(work.lock_token);
            continue;
        };
        let key = WorkKey { execution: task.execution, activity: task.event };
        let Some(error) = late.remove(&(task.instance.clone(), key)) else {
            kept.push(work.lock_token);
            continue;
        };
        let (instance, text) = (&task.instance, error_chain(&error));
        tracing::warn!(%instance, error = text, "failed an activity that no worker has claimed");
        let done = FlowMessage::activity_done(&task, Err(error));
        provider.ack_work_item(&work.lock_token, Some(done)).await?;
    }
    Ok(())
}

fn too_late(what: &UnclaimedWork, timeout: Duration) -> FlowError {
    let message = format!("{what} within {} ms", timeout.as_millis());
    FlowError::new(FailureKind::Timeout, message)
}
