//! What to do with messages that a claim leased and cannot read (trap 46).

use std::time::Duration;

use wakeline_core::error_chain;
use wakeline_store::StoreError;

use super::Core;
use super::grants::Spoilt;

const OPERATION: &str = "quarantine corrupt rows";

/// How long claims keep away from what cannot be read.
pub(super) const SET_ASIDE: Duration = Duration::from_secs(300);

impl Core {
    /// Gives back what cannot be read and keeps claims away from it. Returns the first error.
    pub(super) async fn set_aside(&self, spoilt: Vec<Spoilt>) -> Option<StoreError> {
        let (mut partitions, mut groups, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for Spoilt { lease, error, .. } in &spoilt {
            tracing::error!(error = error_chain(error), "skipped a corrupt row");
            let Some(lease) = lease else { continue };
            partitions.extend(lease.cursors.iter().map(|cursor| cursor.partition.0));
            groups.extend(lease.cursors.iter().map(|cursor| cursor.group.0));
            tokens.extend(lease.cursors.iter().map(|_| lease.token.0));
        }
        if !partitions.is_empty() {
            let sql = &self.sql.lease_set_aside;
            let secs = SET_ASIDE.as_secs_f64();
            let done = self.general(OPERATION, sql, &[&partitions, &groups, &tokens, &secs]).await;
            if let Err(error) = done {
                tracing::warn!(
                    error = error_chain(&error),
                    "corrupt rows could not be quarantined: they stay leased until their leases end"
                );
            }
        }
        spoilt.into_iter().next().map(|spoilt| spoilt.error)
    }
}
