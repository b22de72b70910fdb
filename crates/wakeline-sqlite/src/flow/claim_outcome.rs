//! The outcome of a claim that may have skipped corrupt rows.

use std::time::Duration;

use wakeline_store::StoreError;

use crate::error::StoreFault;

/// How long claims skip a lane or an activity with a corrupt row.
pub(super) const QUARANTINE: Duration = Duration::from_secs(300);

/// The outcomes of a claim, per line.
pub(super) struct FlowClaimOutcome<T> {
    outcomes: Vec<T>,
    /// The error of the first corrupt row, if no request got anything.
    corrupt_row: Option<StoreFault>,
}

impl<T> FlowClaimOutcome<T> {
    /// Creates the outcome. `any` says whether a request got something.
    pub(super) fn new(outcomes: Vec<T>, any: bool, corrupt_row: Option<StoreFault>) -> Self {
        Self { outcomes, corrupt_row: corrupt_row.filter(|_| !any) }
    }

    /// The outcomes, or the error if nothing was found and a row was corrupt.
    pub(super) fn answer(self, operation: &'static str) -> Result<Vec<T>, StoreError> {
        match self.corrupt_row {
            Some(fault) => Err(fault.named(operation)),
            None => Ok(self.outcomes),
        }
    }
}
