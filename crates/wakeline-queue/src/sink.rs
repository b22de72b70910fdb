//! Receives the hints of a store.

use std::sync::Arc;

use wakeline_core::Change;
use wakeline_store::{HintOrigin, HintSink, LinkState};
use wakeline_wake::{HintSource, Hub, Link};

use crate::api::QueueApi;
use crate::capacity::CapacityCache;

/// Passes a store's hints on to the hub and the capacity cache.
pub(crate) struct QueueHintSink {
    pub(crate) hub: Hub<QueueApi>,
    pub(crate) capacity_cache: Arc<CapacityCache>,
}

impl HintSink for QueueHintSink {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        let source = match origin {
            HintOrigin::InProcess => HintSource::InProcess,
            HintOrigin::Notify => HintSource::Notify,
        };
        self.capacity_cache.changed(changes);
        self.hub.hint(changes, source);
    }

    fn everything(&self) {
        self.capacity_cache.forget_all();
        self.hub.everything();
    }

    fn link(&self, state: LinkState) {
        self.hub.link(match state {
            LinkState::Up => Link::Up,
            LinkState::Down { reason } => Link::Down { reason },
            LinkState::Off { reason } => Link::Off { reason },
        });
    }
}
