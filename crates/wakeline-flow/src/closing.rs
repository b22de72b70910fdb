//! Closes the children of an instance that has ended, according to the policies that they were
//! started with.
//!
//! # Where it sits
//! The commit that ends an instance puts a [`FlowMessage::CloseChildren`] into its own mailbox; the
//! turn of that message calls [`close_children`]. A terminated child gets such a message too, so a
//! tree is closed generation by generation, each instance in its own transaction, and a crash in
//! between repeats one step. A client that terminates an instance closes a small tree at once, so
//! that this works even if no runtime has the code.

use std::collections::{HashSet, VecDeque};

use futures_util::{StreamExt, TryStreamExt, stream};
use wakeline_core::InstanceId;
use wakeline_store::flow::Watched;

use crate::engine::state::identity;
use crate::error::{FailureKind, FlowError};
use crate::event::{ClosePolicy, Event, EventKind, Parent};
use crate::message::FlowMessage;
use crate::provider::{Provider, ProviderError};

/// The number of children that are closed concurrently.
const CONCURRENCY: usize = 16;

/// The number of instances that one call of a client closes at most; runtimes close the rest of a
/// larger tree.
const TREE_MAX: usize = 100;

/// A child whose end is not in the history of its parent.
struct OpenChild {
    instance: InstanceId,
    /// The event of the parent that started it.
    parent: Parent,
    policy: ClosePolicy,
}

/// Closes at most `most` direct children of an instance with this current execution, and returns
/// those that were terminated.
pub(crate) async fn close_children(
    provider: &dyn Provider,
    instance: &InstanceId,
    execution: u64,
    most: usize,
) -> Result<Vec<InstanceId>, ProviderError> {
    let events = provider.read(instance, None).await?;
    let children = open_children(instance, execution, events);
    let closed = stream::iter(children.into_iter().take(most))
        .map(|child| close(provider, child))
        .buffer_unordered(CONCURRENCY);
    let closed: Vec<_> = closed.try_collect().await?;
    Ok(closed.into_iter().flatten().collect())
}

/// Closes the descendants of an instance that a client has terminated, up to [`TREE_MAX`] of them.
pub(crate) async fn close_tree(
    provider: &dyn Provider,
    instance: &InstanceId,
) -> Result<(), ProviderError> {
    let Some(admin) = provider.admin() else { return Ok(()) };
    let (mut parents, mut left) = (VecDeque::from([instance.clone()]), TREE_MAX);
    while let Some(parent) = parents.pop_front() {
        let Watched::Found(detail) = admin.instance(&parent).await? else { continue };
        let closed = close_children(provider, &parent, detail.execution, left).await?;
        left -= closed.len();
        parents.extend(closed);
    }
    Ok(())
}

/// Closes a child, and returns it if it was terminated. Does nothing if another instance has the
/// id, or none because the child was abandoned in the turn that started it.
async fn close(
    provider: &dyn Provider,
    child: OpenChild,
) -> Result<Option<InstanceId>, ProviderError> {
    let OpenChild { instance, parent, policy } = child;
    let reason = format!("the parent instance {} has ended", parent.instance);
    match (policy, provider.admin()) {
        (ClosePolicy::Abandon, _) => Ok(None),
        (ClosePolicy::Terminate, Some(admin)) => {
            let error = FlowError::new(FailureKind::Terminated, reason);
            let ended = admin.terminate(&instance, error, Some(&parent)).await?;
            Ok(ended.then_some(instance))
        }
        (ClosePolicy::RequestCancel, Some(admin)) => {
            // A message must not be left under an id that belongs to another instance.
            if admin.is_child_of(&instance, &parent).await? {
                request_cancel(provider, instance, reason, parent).await?;
            }
            Ok(None)
        }
        // A provider without management functions cannot check whose child it is.
        (_, None) => {
            request_cancel(provider, instance, reason, parent).await?;
            Ok(None)
        }
    }
}

/// The request names the parent, so that an instance that takes the id in between ignores it.
async fn request_cancel(
    provider: &dyn Provider,
    instance: InstanceId,
    reason: String,
    parent: Parent,
) -> Result<(), ProviderError> {
    let cancel = FlowMessage::CancelInstance { instance, reason, parent: Some(parent) };
    provider.enqueue_for_orchestrator(cancel, None).await?;
    Ok(())
}

/// Returns the children of an execution whose end is not in its history.
fn open_children(instance: &InstanceId, execution: u64, events: Vec<Event>) -> Vec<OpenChild> {
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
