//! Deliveries that this node cannot send because it has not the keys of their endpoint.
//!
//! # Invariants
//! * They are given back, so that a node with the keys sends them: no attempt is used up.
//! * This node keeps such an endpoint's deliveries for a moment before it gives them back, and does
//!   not tell itself of them: it would take them again at once.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use wakeline_core::{DeliveryToken, EndpointId, error_chain};
use wakeline_store::hook::Target;

use crate::error::HookError;
use crate::service::Inner;

/// How long deliveries are kept; well within their leases.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// Most endpoints that are remembered as told of.
const TOLD_MAX: usize = 10_000;

/// The endpoints whose keys this node has not, as far as it has met them.
#[derive(Debug, Default)]
pub(crate) struct Unopened(Mutex<HashSet<EndpointId>>);

impl Unopened {
    /// Whether this is the first of that endpoint.
    fn is_news(&self, endpoint: EndpointId) -> bool {
        let mut told = self.0.lock();
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(endpoint)
    }
}

/// Gives deliveries back that could not be opened.
pub(super) async fn leave(
    inner: &Inner,
    target: &Target,
    (tokens, error): (Vec<DeliveryToken>, HookError),
) {
    let endpoint = target.endpoint;
    if inner.unopened.is_news(endpoint) {
        let error = error_chain(&error);
        tracing::error!(
            %endpoint, error,
            "cannot decrypt an endpoint: its deliveries are left to other nodes"
        );
    } else {
        tokio::time::sleep(KEPT_FOR).await;
    }
    if let Err(error) = inner.store.release_deliveries(tokens).await {
        tracing::warn!(
            %endpoint, error = error_chain(&error),
            "unsent deliveries could not be released: they are sent after their leases end"
        );
    }
}
