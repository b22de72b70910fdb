//! How many groups a claim may still give to the applications that it limits.

use std::collections::HashMap;

use wakeline_core::ApplicationRef;
use wakeline_store::hook::ApplicationLimit;

use super::known::{self, to_json};
use crate::error::Res;
use crate::session::Session;

/// What limited applications may still get, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Limits(HashMap<i64, u32>);

impl Limits {
    pub(super) fn new(s: &mut Session<'_>, limits: &[ApplicationLimit]) -> Res<Self> {
        let mut left = HashMap::new();
        for limit in limits {
            // One that is not there any more has nothing to give.
            let application = ApplicationRef::Id(limit.application);
            if let Some((no, _)) = known::application(s, &application)? {
                left.insert(no, limit.groups);
            }
        }
        Ok(Self(left))
    }

    pub(super) fn is_reached(&self, application: i64) -> bool {
        self.0.get(&application) == Some(&0)
    }

    /// A group of an application was given.
    pub(super) fn count(&mut self, application: i64) {
        if let Some(left) = self.0.get_mut(&application) {
            *left = left.saturating_sub(1);
        }
    }

    /// The applications that get nothing more, as JSON for a statement; `None` if there are none.
    pub(super) fn reached(&self) -> Option<String> {
        let mut reached: Vec<i64> =
            self.0.iter().filter(|(_, left)| **left == 0).map(|(no, _)| *no).collect();
        reached.sort_unstable();
        (!reached.is_empty()).then(|| to_json(&reached))
    }
}
