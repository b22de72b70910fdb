//! How many groups a claim may still lease for the applications that it limits.

use std::collections::HashMap;

use wakeline_core::ApplicationRef;
use wakeline_store::hook::ApplicationLimit;

use super::cache::{self, to_json};
use crate::error::Res;
use crate::session::DbSession;

/// The number of groups that each limited application may still get, by application number.
#[derive(Debug, Default)]
pub(super) struct ClaimLimits(HashMap<i64, u32>);

impl ClaimLimits {
    pub(super) fn new(s: &mut DbSession<'_>, limits: &[ApplicationLimit]) -> Res<Self> {
        let mut left = HashMap::new();
        for limit in limits {
            // An application that was deleted has no deliveries to lease.
            let application = ApplicationRef::Id(limit.application);
            if let Some((no, _)) = cache::application(s, &application)? {
                left.insert(no, limit.groups);
            }
        }
        Ok(Self(left))
    }

    pub(super) fn is_reached(&self, application: i64) -> bool {
        self.0.get(&application) == Some(&0)
    }

    /// Counts a group that was leased for an application.
    pub(super) fn count(&mut self, application: i64) {
        if let Some(left) = self.0.get_mut(&application) {
            *left = left.saturating_sub(1);
        }
    }

    /// The applications that have reached their limits, as JSON for a statement, or `None` if there
    /// are none.
    pub(super) fn reached(&self) -> Option<String> {
        let mut reached: Vec<i64> =
            self.0.iter().filter(|(_, left)| **left == 0).map(|(no, _)| *no).collect();
        reached.sort_unstable();
        (!reached.is_empty()).then(|| to_json(&reached))
    }
}
