//! The versions of duroxide that mailboxes are pinned to, as capabilities of the store.
//!
//! A store compares only whole capabilities, and duroxide requests ranges of versions. A filter is
//! therefore expanded to all versions in its range that may occur.
//!
//! # Invariants
//! * A mailbox that is not pinned to a version matches every filter except the empty one.
//! * A version is recorded here before this process pins a mailbox to it.

use std::collections::BTreeSet;

use duroxide::providers::{DispatcherCapabilityFilter, SemverRange, current_build_version};
use parking_lot::Mutex;
use semver::Version;
use tokio::sync::watch;
use wakeline_core::{Capabilities, Capability};

const UNPINNED: &str = "duroxide";
const PINNED: &str = "duroxide/";

/// The capability of a mailbox that is not pinned to a version.
pub(crate) fn unpinned() -> Capability {
    Capability::new(UNPINNED).expect("a valid name")
}

/// The capability of a mailbox that is pinned to a version.
pub(crate) fn pinned(version: &Version) -> Capability {
    Capability::new(format!("{PINNED}{version}")).unwrap_or_else(|_| {
        // Only a version with a build or pre-release part of hundreds of bytes is too long.
        let plain = Version::new(version.major, version.minor, version.patch);
        Capability::new(format!("{PINNED}{plain}")).expect("a valid name")
    })
}

fn version_of(capability: &Capability) -> Option<Version> {
    Version::parse(capability.as_str().strip_prefix(PINNED)?).ok()
}

/// The versions that mailboxes may be pinned to: all published ones up to the one that this crate
/// is built with, and those that were recorded.
pub(crate) struct Versions {
    known: Mutex<BTreeSet<Version>>,
    /// Incremented when a version is recorded for the first time.
    new_versions: watch::Sender<u64>,
}

impl Default for Versions {
    fn default() -> Self {
        let newest = current_build_version();
        let patches = 0..=newest.patch;
        let known = patches.map(|patch| Version::new(newest.major, newest.minor, patch)).collect();
        Self { known: Mutex::new(known), new_versions: watch::Sender::new(0) }
    }
}

impl Versions {
    /// Records the capability of a mailbox. If its version is new, waiting fetches with a filter
    /// look again.
    pub(crate) fn record(&self, capability: &Capability) {
        if let Some(version) = version_of(capability)
            && self.known.lock().insert(version)
        {
            self.new_versions.send_modify(|count| *count += 1);
        }
    }

    /// Returns a receiver that changes when a version is recorded for the first time.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.new_versions.subscribe()
    }

    /// Returns the capabilities that a filter allows; `None` if it allows nothing. Only its first
    /// range is used, as in duroxide's own providers.
    pub(crate) fn allowed(
        &self,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Option<Capabilities> {
        let Some(filter) = filter else { return Some(Capabilities::Any) };
        let range = filter.supported_duroxide_versions.first()?;
        let known = self.known.lock();
        let within = known.iter().filter(|version| range.contains(version)).map(pinned);
        Some(Capabilities::Of(within.chain([unpinned()]).collect()))
    }
}

/// Whether a filter includes versions beyond those that are known from the start.
pub(crate) fn exceeds_known(filter: Option<&DispatcherCapabilityFilter>) -> bool {
    let range = filter.and_then(|filter| filter.supported_duroxide_versions.first());
    range.is_some_and(|SemverRange { max, .. }| *max > current_build_version())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(min: &str, max: &str) -> DispatcherCapabilityFilter {
        let parse = |text| Version::parse(text).expect("a version");
        let range = SemverRange::new(parse(min), parse(max));
        DispatcherCapabilityFilter { supported_duroxide_versions: vec![range] }
    }

    fn allows(versions: &Versions, filter: &DispatcherCapabilityFilter, version: &str) -> bool {
        let version = Version::parse(version).expect("a version");
        let allowed = versions.allowed(Some(filter)).expect("not the empty filter");
        allowed.allow(&pinned(&version))
    }

    #[test]
    fn published_versions_in_the_range_are_allowed() {
        let versions = Versions::default();
        let filter = filter("0.1.5", "0.1.20");
        assert!(allows(&versions, &filter, "0.1.5") && allows(&versions, &filter, "0.1.20"));
        assert!(!allows(&versions, &filter, "0.1.4") && !allows(&versions, &filter, "0.1.21"));
    }

    #[test]
    fn a_version_is_reported_as_new_once() {
        let versions = Versions::default();
        let mut news = versions.news();
        let filter = filter("0.0.0", "9.0.0");
        let met = pinned(&Version::new(7, 1, 0));
        assert!(!allows(&versions, &filter, "7.1.0"));
        versions.record(&met);
        assert!(news.has_changed().expect("the sender exists"));
        news.mark_unchanged();
        versions.record(&met);
        assert!(!news.has_changed().expect("the sender exists"));
        assert!(allows(&versions, &filter, "7.1.0"));
    }

    #[test]
    fn mailboxes_without_a_version_match_every_range() {
        let versions = Versions::default();
        let allowed = versions.allowed(Some(&filter("5.0.0", "5.0.0"))).expect("not empty");
        assert!(allowed.allow(&unpinned()));
    }

    #[test]
    fn the_empty_filter_allows_nothing() {
        let empty = DispatcherCapabilityFilter { supported_duroxide_versions: Vec::new() };
        assert_eq!(Versions::default().allowed(Some(&empty)), None);
        assert_eq!(Versions::default().allowed(None), Some(Capabilities::Any));
    }
}
