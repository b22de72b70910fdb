//! Which versions of duroxide lanes are pinned to, as capabilities of the store.
//!
//! A store compares capabilities as a whole and duroxide asks for ranges of versions, so a filter
//! is written out: all versions in its range that may occur.
//!
//! # Invariants
//! * A lane that is pinned to no version is open to every filter but the empty one.
//! * A version is known here before a lane of this process is pinned to it.

use std::collections::BTreeSet;

use duroxide::providers::{DispatcherCapabilityFilter, SemverRange, current_build_version};
use parking_lot::Mutex;
use semver::Version;
use tokio::sync::watch;
use wakeline_core::{Capabilities, Capability};

const UNPINNED: &str = "duroxide";
const PINNED: &str = "duroxide/";

/// What a lane needs that is pinned to no version.
pub(crate) fn unpinned() -> Capability {
    Capability::new(UNPINNED).expect("a valid name")
}

/// What a lane needs that is pinned to a version.
pub(crate) fn pinned(version: &Version) -> Capability {
    Capability::new(format!("{PINNED}{version}")).unwrap_or_else(|_| {
        // Only a build or pre-release part of hundreds of bytes is too long.
        let plain = Version::new(version.major, version.minor, version.patch);
        Capability::new(format!("{PINNED}{plain}")).expect("a valid name")
    })
}

fn version_of(capability: &Capability) -> Option<Version> {
    Version::parse(capability.as_str().strip_prefix(PINNED)?).ok()
}

/// The versions that lanes may be pinned to: all that were published up to the one that this crate
/// is built with, and those that were met.
pub(crate) struct Versions {
    known: Mutex<BTreeSet<Version>>,
    /// Counts up when one is met for the first time.
    met: watch::Sender<u64>,
}

impl Default for Versions {
    fn default() -> Self {
        let newest = current_build_version();
        let patches = 0..=newest.patch;
        let known = patches.map(|patch| Version::new(newest.major, newest.minor, patch)).collect();
        Self { known: Mutex::new(known), met: watch::Sender::new(0) }
    }
}

impl Versions {
    /// Notes what a lane needs. Fetches that wait with a filter look again if it is news.
    pub(crate) fn meet(&self, capability: &Capability) {
        if let Some(version) = version_of(capability)
            && self.known.lock().insert(version)
        {
            self.met.send_modify(|count| *count += 1);
        }
    }

    /// Tells when a version was met for the first time.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.met.subscribe()
    }

    /// What a filter lets through; `None` if that is nothing. Only its first range counts, as in
    /// duroxide's own providers.
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

/// Whether a filter reaches beyond what is known from the start.
pub(crate) fn is_far_reaching(filter: Option<&DispatcherCapabilityFilter>) -> bool {
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
    fn a_version_that_was_met_is_news_once() {
        let versions = Versions::default();
        let mut news = versions.news();
        let filter = filter("0.0.0", "9.0.0");
        let met = pinned(&Version::new(7, 1, 0));
        assert!(!allows(&versions, &filter, "7.1.0"));
        versions.meet(&met);
        assert!(news.has_changed().expect("it is there"));
        news.mark_unchanged();
        versions.meet(&met);
        assert!(!news.has_changed().expect("it is there"));
        assert!(allows(&versions, &filter, "7.1.0"));
    }

    #[test]
    fn lanes_without_a_version_are_open_to_every_range() {
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
