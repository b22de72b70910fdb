//! Providers of one process over one store: each has waiters of its own, all hear the same hints.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wakeline_wake::{HintSource, Link};

use super::Inner;
use crate::provider::face::Hint;

/// Providers that share a store and its hints.
#[derive(Default)]
pub(super) struct Family {
    members: Mutex<Vec<Weak<Inner>>>,
    /// What the listener said last, for those who come later.
    link: Mutex<Option<Link>>,
}

impl Family {
    pub(super) fn welcome(&self, member: &Arc<Inner>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(member));
        drop(members);
        if let Some(link) = self.link.lock().clone() {
            member.hub.link(link);
        }
    }

    pub(super) fn hint(&self, hints: &[Hint], source: HintSource) {
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

    fn each(&self, tell: impl Fn(&Arc<Inner>)) {
        let members: Vec<_> = self.members.lock().iter().filter_map(Weak::upgrade).collect();
        members.iter().for_each(tell);
    }
}
