//! How a node learns that another process changed something.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Change, FlowChange, HookChange};

/// Who made a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HintOrigin {
    /// A commit of this process.
    InProcess,
    /// Another process, by NOTIFY or the sidecar file.
    Notify,
}

/// Whether hints from other processes can reach this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// They arrive.
    Up,
    /// They may be lost; the store is trying to reconnect.
    Down {
        /// Why, in words for the log and for health.
        reason: String,
    },
    /// They are switched off by configuration, or this set-up cannot have them.
    Off {
        /// Why, in words for the log and for health.
        reason: String,
    },
}

/// Takes hints in. Never blocks: a slow waiter must not hold up the listener.
pub trait HintSink: Send + Sync {
    /// These may have become available.
    fn changed(&self, changes: &[Change], origin: HintOrigin);
    /// These may have become available to orchestrations. Ignored where none run.
    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        let _ = (changes, origin);
    }
    /// These may have become available to webhooks. Ignored where none are sent.
    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        let _ = (changes, origin);
    }
    /// Anything may have changed: after a reconnect, a lost payload, or a join.
    fn everything(&self);
    /// The link went up or down.
    fn link(&self, state: LinkState);
}

/// Tells several sinks.
pub struct FanOut(pub Vec<Arc<dyn HintSink>>);

impl HintSink for FanOut {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        self.0.iter().for_each(|sink| sink.changed(changes, origin));
    }

    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        self.0.iter().for_each(|sink| sink.flow_changed(changes, origin));
    }

    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        self.0.iter().for_each(|sink| sink.hook_changed(changes, origin));
    }

    fn everything(&self) {
        self.0.iter().for_each(|sink| sink.everything());
    }

    fn link(&self, state: LinkState) {
        self.0.iter().for_each(|sink| sink.link(state.clone()));
    }
}

/// Feeds hints of other processes into a sink.
#[async_trait]
pub trait HintFeed: Send + Sync {
    /// Runs until `shutdown`. Reconnects with backoff; after each (re)connect it reports
    /// [`LinkState::Up`] first and then calls [`HintSink::everything`], so that nothing that was
    /// committed in the gap stays unseen.
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken);

    /// Runs until `shutdown` on a node that only polls, in place of [`HintFeed::feed`]: does not
    /// listen, but does what else a node owes the store. By default that is nothing.
    async fn tend(&self, _sink: Arc<dyn HintSink>, _shutdown: CancellationToken) {}
}
