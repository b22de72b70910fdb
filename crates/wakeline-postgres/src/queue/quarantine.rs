//! Quarantines corrupt messages that a claim has leased, so that they do not block the messages of
//! other partitions and are not claimed again at once.

use std::time::Duration;

use wakeline_core::error_chain;
use wakeline_store::StoreError;

use super::QueueCore;
use super::claim_results::CorruptSlice;

const OPERATION: &str = "quarantine corrupt rows";

/// How long claims skip a partition with corrupt messages.
pub(super) const QUARANTINE: Duration = Duration::from_secs(300);

impl QueueCore {
    /// Releases the leases of corrupt slices and makes claims skip their partitions for a while.
    /// Returns the first error.
    pub(super) async fn quarantine(&self, corrupt: Vec<CorruptSlice>) -> Option<StoreError> {
        let (mut partitions, mut groups, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for CorruptSlice { lease, error, .. } in &corrupt {
            tracing::error!(error = error_chain(error), "skipped a corrupt row");
            let Some(lease) = lease else { continue };
            partitions.extend(lease.cursors.iter().map(|cursor| cursor.partition.0));
            groups.extend(lease.cursors.iter().map(|cursor| cursor.group.0));
            tokens.extend(lease.cursors.iter().map(|_| lease.token.0));
        }
        if !partitions.is_empty() {
            let sql = &self.sql.lease_quarantine;
            let secs = QUARANTINE.as_secs_f64();
            let done = self.general(OPERATION, sql, &[&partitions, &groups, &tokens, &secs]).await;
            if let Err(error) = done {
                tracing::warn!(
                    error = error_chain(&error),
                    "corrupt rows could not be quarantined: they stay leased until their leases end"
                );
            }
        }
        corrupt.into_iter().next().map(|slice| slice.error)
    }
}
