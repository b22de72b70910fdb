//! Hints of other processes.

use wakeline_core::{Change, FlowChange};
use wakeline_store::{HintOrigin, HintSink, LinkState};
use wakeline_wake::{HintSource, Link};

use super::StoreProvider;
use crate::provider::face::Hint;

impl HintSink for StoreProvider {
    fn changed(&self, _: &[Change], _: HintOrigin) {}

    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        let hints: Vec<_> = changes.iter().cloned().map(Hint::Change).collect();
        let source = match origin {
            HintOrigin::InProcess => HintSource::InProcess,
            HintOrigin::Notify => HintSource::Notify,
        };
        self.inner.family.hint(&hints, source);
    }

    fn everything(&self) {
        self.inner.family.everything();
    }

    fn link(&self, state: LinkState) {
        self.inner.family.link(match state {
            LinkState::Up => Link::Up,
            LinkState::Down { reason } => Link::Down { reason },
            LinkState::Off { reason } => Link::Off { reason },
        });
    }
}
