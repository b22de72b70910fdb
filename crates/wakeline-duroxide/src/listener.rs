//! What becomes of hints that other processes send.
//!
//! # Where it sits
//! A store's feed calls it; it passes hints on to the hub of a provider.

use std::sync::Arc;

use wakeline_core::{Change, FlowChange, FlowWhat};
use wakeline_flow::provider::StoreProvider;
use wakeline_store::{HintOrigin, HintSink, LinkState};

use crate::versions::Versions;

/// Passes hints on to those who wait.
pub(crate) struct Hearing {
    pub(crate) inner: StoreProvider,
    pub(crate) versions: Arc<Versions>,
}

impl HintSink for Hearing {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        self.inner.changed(changes, origin);
    }

    /// Learns first, so that fetches which wait are there for what they did not know of.
    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        for change in changes {
            if let FlowWhat::Turn(capability) = &change.what {
                self.versions.meet(capability);
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
