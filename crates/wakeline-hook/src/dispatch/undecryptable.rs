//! Deliveries that this node cannot send because it lacks the encryption keys of their endpoint.
//!
//! # Invariants
//! * They are released without counting an attempt, so that a node with the keys sends them.
//! * This node holds such an endpoint's deliveries for a moment before it releases them, and does
//!   not notify its own waiters, because it would claim them again at once.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use wakeline_core::{DeliveryToken, EndpointId, error_chain};
use wakeline_store::hook::DeliveryTarget;

use crate::error::HookError;
use crate::service::HookServiceInner;

/// How long deliveries are held before they are released; well within their leases.
const HELD_FOR: Duration = Duration::from_secs(1);
/// The maximum number of endpoints that are remembered as already logged.
const LOGGED_MAX: usize = 10_000;

/// The endpoints that this node could not decrypt, which were logged already.
#[derive(Debug, Default)]
pub(crate) struct UndecryptableEndpoints(Mutex<HashSet<EndpointId>>);

impl UndecryptableEndpoints {
    /// Remembers an endpoint. Returns true if it was not remembered before.
    fn insert(&self, endpoint: EndpointId) -> bool {
        let mut logged = self.0.lock();
        if logged.len() >= LOGGED_MAX {
            logged.clear();
        }
        logged.insert(endpoint)
    }
}

/// Releases deliveries to an endpoint that could not be decrypted.
pub(super) async fn release(
    inner: &HookServiceInner,
    target: &DeliveryTarget,
    tokens: Vec<DeliveryToken>,
    error: HookError,
) {
    let endpoint = target.endpoint;
    if inner.undecryptable.insert(endpoint) {
        let error = error_chain(&error);
        tracing::error!(
            %endpoint, error,
            "the secrets of an endpoint cannot be decrypted with the keys of this node: other \
             nodes must send its deliveries"
        );
    } else {
        tokio::time::sleep(HELD_FOR).await;
    }
    if let Err(error) = inner.store.release_deliveries(tokens).await {
        tracing::warn!(
            %endpoint, error = error_chain(&error),
            "unsent deliveries could not be released: they are sent after their leases end"
        );
    }
}
