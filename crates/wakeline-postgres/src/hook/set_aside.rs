//! What to do with leases of which something cannot be read (trap 46).
//!
//! # Invariants
//! * What cannot be read costs nobody an attempt: its lease is given back, uncounted, and so are
//!   the leases of those that must not overtake it.
//! * Claims keep away from it for a while, and then try again: it may have been mended.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{AttemptId, DeliveryToken, error_chain};
use wakeline_store::StoreError;

use super::Core;
use super::wire::micros;
use crate::rows::corrupt;

const OPERATION: &str = "quarantine corrupt deliveries";

/// How long claims keep away from what cannot be read.
const SET_ASIDE: Duration = Duration::from_secs(300);

/// Leases of a call of which something cannot be read.
#[derive(Default)]
pub(super) struct Spoilt {
    deliveries: Vec<i64>,
    keys: Vec<Uuid>,
    /// By lease: it is the delivery itself that cannot be read.
    own: Vec<bool>,
    endpoints: Vec<Uuid>,
    /// The first reason.
    error: Option<StoreError>,
}

impl Spoilt {
    /// Nothing of an endpoint can be sent: it cannot be read.
    pub(super) fn endpoint(&mut self, endpoint: Uuid, error: StoreError) {
        self.note(corrupt("endpoint", endpoint.to_string(), error));
        self.endpoints.push(endpoint);
    }

    /// A delivery, or its message, cannot be read.
    pub(super) fn delivery(&mut self, token: DeliveryToken, error: StoreError) {
        self.note(corrupt("delivery", token.delivery.to_string(), error));
        self.add(token, true);
    }

    /// Another one is in the way of a delivery.
    pub(super) fn behind(&mut self, token: DeliveryToken) {
        self.add(token, false);
    }

    /// Whether a lease is among them.
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

impl Core {
    /// Gives back what cannot be read and keeps claims away from it. Returns the first reason.
    pub(super) async fn set_aside(&self, spoilt: Spoilt) -> Option<StoreError> {
        let Spoilt { deliveries, keys, own, endpoints, error } = spoilt;
        let error = error?;
        // Should giving back fail, a later claim with these finds what they hold.
        self.remember(keys.iter().map(|key| AttemptId(*key)));
        let span = micros(SET_ASIDE);
        let params: crate::connect::Params<'_> = &[&deliveries, &keys, &own, &endpoints, &span];
        if let Err(error) = self.general(OPERATION, &self.sql.set_aside, params).await {
            tracing::warn!(
                error = error_chain(&error),
                "corrupt deliveries could not be quarantined: they stay leased until their leases \
                 end"
            );
        }
        Some(error)
    }
}
