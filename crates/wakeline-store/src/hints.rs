//! How a node learns about changes made by other processes.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Change, FlowChange, HookChange};

/// Where a change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HintOrigin {
    /// A commit of this process.
    InProcess,
    /// Another process, reported by NOTIFY or the sidecar file.
    Notify,
}

/// Whether hints from other processes can reach this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// Hints arrive.
    Up,
    /// Hints may be lost; the store is trying to reconnect.
    Down {
        /// The reason, for the log and the health report.
        reason: String,
    },
    /// Hints are disabled by configuration, or impossible in this setup.
    Off {
        /// The reason, for the log and the health report.
        reason: String,
    },
}

/// Receives hints. Implementations never block, because a slow waiter must not delay the listener.
pub trait HintSink: Send + Sync {
    /// These queue lines may have become available.
    fn changed(&self, changes: &[Change], origin: HintOrigin);
    /// These orchestration lines may have become available. Ignored where no orchestrations run.
    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        let _ = (changes, origin);
    }
    /// These webhook lines may have become available. Ignored where no webhooks are sent.
    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        let _ = (changes, origin);
    }
    /// Anything may have changed: after a reconnect, a lost payload, or at startup.
    fn everything(&self);
    /// The link to other processes went up or down.
    fn link(&self, state: LinkState);
}

/// Forwards hints to several sinks.
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

/// Feeds hints from other processes into a sink.
#[async_trait]
pub trait HintFeed: Send + Sync {
    /// Runs until `shutdown`. Reconnects with backoff. After each (re)connect it reports
    /// [`LinkState::Up`] first and then calls [`HintSink::everything`], so that commits made during
    /// the gap are noticed.
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken);

    /// Runs until `shutdown` instead of [`HintFeed::feed`] on a node that only polls: it does not
    /// listen, but does the store's other background work. Does nothing by default.
    async fn feed_poll_only(&self, _sink: Arc<dyn HintSink>, _shutdown: CancellationToken) {}
}
