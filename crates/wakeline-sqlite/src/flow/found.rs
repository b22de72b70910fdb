//! What came of a claim that may have met something that cannot be read.

use std::time::Duration;

use wakeline_store::StoreError;

use crate::error::Fault;

/// How long claims keep away from what cannot be read.
pub(super) const SET_ASIDE: Duration = Duration::from_secs(300);

/// What a claim found, line by line.
pub(super) struct Found<T> {
    outcomes: Vec<T>,
    /// What could not be read, if nothing else was found.
    spoilt: Option<Fault>,
}

impl<T> Found<T> {
    /// `any`: whether a request got something.
    pub(super) fn new(outcomes: Vec<T>, any: bool, spoilt: Option<Fault>) -> Self {
        Self { outcomes, spoilt: spoilt.filter(|_| !any) }
    }

    /// What was found; or the error, if nothing was and something could not be read.
    pub(super) fn answer(self, operation: &'static str) -> Result<Vec<T>, StoreError> {
        match self.spoilt {
            Some(fault) => Err(fault.named(operation)),
            None => Ok(self.outcomes),
        }
    }
}
