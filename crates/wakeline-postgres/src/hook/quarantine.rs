//! Quarantines leased deliveries that are corrupt, so that they do not block other deliveries and
//! are not claimed again at once.
//!
//! # Invariants
//! * A corrupt row costs no attempt: its lease is released without counting one, and so are the
//!   leases of deliveries that must not overtake it.
//! * Claims skip it for a while and then try again, because it may have been repaired.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{AttemptId, DeliveryToken, error_chain};
use wakeline_store::StoreError;

use super::HookCore;
use super::wire::micros;
use crate::rows::corrupt;

const OPERATION: &str = "quarantine corrupt deliveries";

/// How long claims skip corrupt rows.
const QUARANTINE_SPAN: Duration = Duration::from_secs(300);

/// The leases of a call that have to be released because of corrupt rows.
#[derive(Default)]
pub(super) struct Quarantine {
    deliveries: Vec<i64>,
    keys: Vec<Uuid>,
    /// For each lease, whether the delivery itself is corrupt, and not one before it.
    own: Vec<bool>,
    endpoints: Vec<Uuid>,
    /// The first error.
    error: Option<StoreError>,
}

impl Quarantine {
    /// Adds an endpoint that is corrupt, so that none of its deliveries can be sent.
    pub(super) fn endpoint(&mut self, endpoint: Uuid, error: StoreError) {
        self.note(corrupt("endpoint", endpoint.to_string(), error));
        self.endpoints.push(endpoint);
    }

    /// Adds a delivery that is corrupt, or whose message is.
    pub(super) fn delivery(&mut self, token: DeliveryToken, error: StoreError) {
        self.note(corrupt("delivery", token.delivery.to_string(), error));
        self.add(token, true);
    }

    /// Adds a delivery that must wait because another one before it is corrupt.
    pub(super) fn behind(&mut self, token: DeliveryToken) {
        self.add(token, false);
    }

    /// Returns whether the lease of an attempt has to be released.
    pub(super) fn has(&self, attempt: AttemptId) -> bool {
        self.keys.contains(&attempt.0)
    }

    fn add(&mut self, token: DeliveryToken, own: bool) {
        self.deliveries.push(token.delivery);
        self.keys.push(token.attempt.0);
        self.own.push(own);
    }

    fn note(&mut self, error: StoreError) {
        tracing::error!(error = error_chain(&error), "skipped a corrupt row");
        self.error.get_or_insert(error);
    }
}

impl HookCore {
    /// Releases the leases and makes claims skip the corrupt rows for a while. Returns the first
    /// error.
    pub(super) async fn quarantine(&self, quarantine: Quarantine) -> Option<StoreError> {
        let Quarantine { deliveries, keys, own, endpoints, error } = quarantine;
        let error = error?;
        // If the release fails, a later claim with these attempt ids finds what they hold.
        self.remember(keys.iter().map(|key| AttemptId(*key)));
        let span = micros(QUARANTINE_SPAN);
        let params: crate::connect::Params<'_> = &[&deliveries, &keys, &own, &endpoints, &span];
        if let Err(error) = self.general(OPERATION, &self.sql.quarantine, params).await {
            tracing::warn!(
                error = error_chain(&error),
                "corrupt deliveries could not be quarantined: they stay leased until their leases \
                 end"
            );
        }
        Some(error)
    }
}
