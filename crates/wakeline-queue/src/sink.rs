//! Takes a store's hints in.

use std::sync::Arc;

use wakeline_core::Change;
use wakeline_store::{HintOrigin, HintSink, LinkState};
use wakeline_wake::{HintSource, Hub, Link};

use crate::face::QueueFace;
use crate::room::Rooms;

/// Passes a store's hints on to the hub.
pub(crate) struct HubSink {
    pub(crate) hub: Hub<QueueFace>,
    pub(crate) rooms: Arc<Rooms>,
}

impl HintSink for HubSink {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        let source = match origin {
            HintOrigin::InProcess => HintSource::InProcess,
            HintOrigin::Notify => HintSource::Notify,
        };
        self.rooms.changed(changes);
        self.hub.hint(changes, source);
    }

    fn everything(&self) {
        self.rooms.forget_all();
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
