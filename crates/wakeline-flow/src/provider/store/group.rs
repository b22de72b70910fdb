//! The providers of one process over one store. Each has its own waiters; all receive the same
//! hints.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wakeline_wake::{HintSource, Link};

use super::StoreProviderInner;
use crate::provider::api::FlowHint;

/// Providers that share a store and its hints.
#[derive(Default)]
pub(super) struct ProviderGroup {
    members: Mutex<Vec<Weak<StoreProviderInner>>>,
    /// The last state that the listener reported, for providers that are created later.
    link: Mutex<Option<Link>>,
}

impl ProviderGroup {
    pub(super) fn add(&self, member: &Arc<StoreProviderInner>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(member));
        drop(members);
        if let Some(link) = self.link.lock().clone() {
            member.hub.link(link);
        }
    }

    pub(super) fn hint(&self, hints: &[FlowHint], source: HintSource) {
        self.each(|member| {
            member.hub.hint(hints, source);
        });
    }

    pub(super) fn everything(&self) {
        self.each(|member| member.hub.everything());
    }

    pub(super) fn link(&self, link: Link) {
        *self.link.lock() = Some(link.clone());
        self.each(|member| member.hub.link(link.clone()));
    }

    fn each(&self, notify: impl Fn(&Arc<StoreProviderInner>)) {
        let members: Vec<_> = self.members.lock().iter().filter_map(Weak::upgrade).collect();
        members.iter().for_each(notify);
    }
}
