//! Closing the children of an instance that has ended, by the policies that they were started with.
//!
//! # Where it sits
//! The commit that ends an instance leaves it a [`WorkItem::CloseChildren`]; the turn that this
//! makes calls [`close_children`]. A terminated child gets such a message itself, so a tree is
//! closed generation by generation, each instance in a transaction of its own, and a crash in
//! between repeats one step. A client that terminates an instance does the same at once for a small
//! tree, so that it is closed also where no runtime has its code.

use std::collections::{HashSet, VecDeque};

use futures_util::{StreamExt, TryStreamExt, stream};
use wakeline_core::InstanceId;
use wakeline_store::flow::Watched;

use crate::engine::state::identity;
use crate::error::{FailureKind, FlowError};
use crate::event::{ClosePolicy, Event, EventKind, Parent};
use crate::message::WorkItem;
use crate::provider::{Provider, ProviderError};

/// So many children are closed at once.
const CONCURRENCY: usize = 16;

/// Most instances that a call of a client closes; runtimes close the rest of a larger tree.
const TREE_MAX: usize = 100;

/// A child whose end its parent has not recorded.
struct OpenChild {
    instance: InstanceId,
    /// Which event of the parent started it.
    parent: Parent,
    policy: ClosePolicy,
}

/// Closes the direct children of an instance, whose current execution is this one, at most so many;
/// returns those that were terminated.
pub(crate) async fn close_children(
    provider: &dyn Provider,
    (instance, execution): (&InstanceId, u64),
    most: usize,
) -> Result<Vec<InstanceId>, ProviderError> {
    let events = provider.read(instance, None).await?;
    let children = open_children((instance, execution), events);
    let closed = stream::iter(children.into_iter().take(most))
        .map(|child| close(provider, child))
        .buffer_unordered(CONCURRENCY);
    let closed: Vec<_> = closed.try_collect().await?;
    Ok(closed.into_iter().flatten().collect())
}

/// Closes what is below an instance that a client has terminated, as long as that is not much.
pub(crate) async fn close_tree(
    provider: &dyn Provider,
    instance: &InstanceId,
) -> Result<(), ProviderError> {
    let Some(admin) = provider.admin() else { return Ok(()) };
    let (mut parents, mut left) = (VecDeque::from([instance.clone()]), TREE_MAX);
    while let Some(parent) = parents.pop_front() {
        let Watched::There(detail) = admin.instance(&parent).await? else { continue };
        let closed = close_children(provider, (&parent, detail.execution), left).await?;
        left -= closed.len();
        parents.extend(closed);
    }
    Ok(())
}

/// Closes a child; returns it if it was terminated. Another instance may have the id, or none if
/// the child was given up in the turn that began it: then nothing is done.
async fn close(
    provider: &dyn Provider,
    child: OpenChild,
) -> Result<Option<InstanceId>, ProviderError> {
    let OpenChild { instance, parent, policy } = child;
    let reason = format!("its parent {} has ended", parent.instance);
    match (policy, provider.admin()) {
        (ClosePolicy::Abandon, _) => Ok(None),
        (ClosePolicy::Terminate, Some(admin)) => {
            let error = FlowError::new(FailureKind::Terminated, reason);
            let ended = admin.terminate(&instance, error, Some(&parent)).await?;
            Ok(ended.then_some(instance))
        }
        (ClosePolicy::RequestCancel, Some(admin)) => {
            // No message is left under an id that is not the child's.
            if admin.is_child_of(&instance, &parent).await? {
                request_cancel(provider, instance, (reason, parent)).await?;
            }
            Ok(None)
        }
        // A provider without interventions cannot say whose child it is.
        (_, None) => {
            request_cancel(provider, instance, (reason, parent)).await?;
            Ok(None)
        }
    }
}

/// Names the parent: an instance that takes the id in between drops the request.
async fn request_cancel(
    provider: &dyn Provider,
    instance: InstanceId,
    (reason, parent): (String, Parent),
) -> Result<(), ProviderError> {
    let cancel = WorkItem::CancelInstance { instance, reason, parent: Some(parent) };
    provider.enqueue_for_orchestrator(cancel, None).await?;
    Ok(())
}

/// Children of an execution whose end is not in its history.
fn open_children((instance, execution): (&InstanceId, u64), events: Vec<Event>) -> Vec<OpenChild> {
    let (mut open, mut ended) = (Vec::new(), HashSet::new());
    let (parent, mut own) = (instance.clone(), None);
    for Event { id, kind, .. } in events {
        match kind {
            EventKind::Started { seed, .. } => own = Some(identity(seed)),
            EventKind::ChildStarted { instance, attached: true, close_policy, .. } => {
                let (parent, identity) = (parent.clone(), own.clone());
                let parent = Parent { instance: parent, execution, event: id, identity };
                open.push(OpenChild { instance, parent, policy: close_policy });
            }
            EventKind::ChildCompleted { of, .. } | EventKind::ChildFailed { of, .. } => {
                ended.insert(of);
            }
            _ => {}
        }
    }
    open.retain(|child| !ended.contains(&child.parent.event));
    open
}
