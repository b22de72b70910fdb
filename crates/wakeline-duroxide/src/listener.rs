//! Receives the hints of other processes.
//!
//! # Where it sits
//! The feed of a store calls it, and it passes the hints to the hub of a provider.

use std::sync::Arc;

use wakeline_core::{Change, FlowChange, FlowChangeKind};
use wakeline_flow::provider::StoreProvider;
use wakeline_store::{HintOrigin, HintSink, LinkState};

use crate::versions::Versions;

/// Passes hints to the waiting fetches.
pub(crate) struct ListenerSink {
    pub(crate) inner: StoreProvider,
    pub(crate) versions: Arc<Versions>,
}

impl HintSink for ListenerSink {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        self.inner.changed(changes, origin);
    }

    /// Records new versions first, so that waiting fetches can take turns that need them.
    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        for change in changes {
            if let FlowChangeKind::Turn(capability) = &change.what {
                self.versions.record(capability);
            }
        }
        self.inner.flow_changed(changes, origin);
    }

    fn everything(&self) {
        self.inner.everything();
    }

    fn link(&self, state: LinkState) {
        self.inner.link(state);
    }
}
