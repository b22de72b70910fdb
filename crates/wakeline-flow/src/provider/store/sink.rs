//! Receives the hints of the store and of other processes.

use wakeline_core::{Change, FlowChange};
use wakeline_store::{HintOrigin, HintSink, LinkState};
use wakeline_wake::{HintSource, Link};

use super::StoreProvider;
use crate::provider::api::FlowHint;

impl HintSink for StoreProvider {
    fn changed(&self, _: &[Change], _: HintOrigin) {}

    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        let hints: Vec<_> = changes.iter().cloned().map(FlowHint::Change).collect();
        let source = match origin {
            HintOrigin::InProcess => HintSource::InProcess,
            HintOrigin::Notify => HintSource::Notify,
        };
        self.inner.group.hint(&hints, source);
    }

    fn everything(&self) {
        self.inner.group.everything();
    }

    fn link(&self, state: LinkState) {
        self.inner.group.link(match state {
            LinkState::Up => Link::Up,
            LinkState::Down { reason } => Link::Down { reason },
            LinkState::Off { reason } => Link::Off { reason },
        });
    }
}
