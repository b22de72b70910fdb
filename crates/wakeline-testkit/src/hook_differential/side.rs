//! The names and times of both sides: those that they share, and those that differ.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    ApplicationId, AttemptId, DeliveryToken, EndpointId, HookLine, HookMessageId, Timestamp,
};
use wakeline_store::hook::{
    Attempt, AttemptOutcome, Delivery, DeliveryGroup, DeliveryItem, DeliveryRequest,
    DeliveryTarget, Endpoint, EndpointSecret, NewEndpoint, NewMessage, StoredMessage,
};

use super::op::{ENDPOINTS, HookMail, PULLED, RequestSpec};
use crate::hook_conformance::{
    breaking, capped, channels, endpoint, event, fifo, key, message, patterns, pulled, secs,
};

/// The names of a sequence.
pub(super) struct HookNames {
    pub(super) app: ApplicationId,
    pub(super) endpoints: [EndpointId; ENDPOINTS],
}

impl HookNames {
    pub(super) fn fresh() -> Self {
        Self {
            app: ApplicationId::generate(),
            endpoints: std::array::from_fn(|_| EndpointId::generate()),
        }
    }

    /// Returns every line that is swept after each step.
    pub(super) fn lines(&self) -> Vec<HookLine> {
        vec![HookLine::Push, HookLine::Pull(self.endpoints[PULLED])]
    }

    /// Returns an endpoint with a small limit, one with a breaker, one in strict order, or one that
    /// is pulled.
    pub(super) fn endpoint(&self, n: usize) -> NewEndpoint {
        let mut options = match n {
            0 => capped(2),
            1 => breaking(2, 1),
            2 => fifo(2),
            _ => pulled(),
        };
        options.schedule = Some(vec![secs(4); 2]);
        if n == 1 {
            options.rate_per_second = Some(2);
            options.disable_after = Some(secs(90));
        }
        let wanted = if n == 2 { patterns(&["even.*"]) } else { Vec::new() };
        let channels_of = if n == PULLED { channels(&["x"]) } else { Vec::new() };
        let id = self.endpoints[n];
        NewEndpoint { id, event_types: wanted, channels: channels_of, ..endpoint(options) }
    }

    pub(super) fn message(&self, mail: &HookMail) -> NewMessage {
        let own = |n: u8| wakeline_core::EventId::parse(&format!("e{n}")).expect("valid");
        NewMessage {
            event_type: event(if mail.odd_type { "odd.one" } else { "even.one" }),
            channels: channels(if mail.channel { &["x", "y"] } else { &[] }),
            event_id: mail.event_id.map(own),
            idempotency: mail.key.and_then(|(name, digest)| key(&format!("k{name}"), digest)),
            only: mail.only.map(|n| self.endpoints[n]),
            retention: if mail.short { secs(10) } else { secs(1_000_000) },
            payload: format!("{mail:?}").into(),
            ..message(self.app)
        }
    }
}

/// Returns the requests of a claim, which are the same on both sides.
pub(super) fn requests(requests: &[RequestSpec], lease: Duration) -> Vec<DeliveryRequest> {
    let request = |request: &RequestSpec| DeliveryRequest {
        attempts: (0..request.attempts).map(|_| AttemptId::generate()).collect(),
        fresh_only: request.fresh_only.min(u32::try_from(request.attempts).expect("few")),
        lease: Some(lease),
    };
    requests.iter().map(request).collect()
}

/// A group that was leased on both sides.
#[derive(Debug, Clone)]
pub(super) struct HookHold {
    pub(super) endpoint: EndpointId,
    /// The oracle's token and the store's, of each delivery.
    pub(super) tokens: Vec<(DeliveryToken, DeliveryToken)>,
}

/// By how many microseconds the store's clock is ahead of the oracle's.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookSkew(pub(super) i64);

/// A delivery without its row number, which differs between the sides.
pub(super) type PlainItem = DeliveryItem;

impl HookSkew {
    pub(super) fn time(self, at: Timestamp) -> Timestamp {
        Timestamp(at.0 - self.0)
    }

    fn secret(self, secret: &EndpointSecret) -> EndpointSecret {
        let expires_at = secret.expires_at.map(|at| self.time(at));
        EndpointSecret { expires_at, ..secret.clone() }
    }

    fn target(self, target: &DeliveryTarget) -> DeliveryTarget {
        let secrets = target.secrets.iter().map(|secret| self.secret(secret)).collect();
        DeliveryTarget { secrets, ..target.clone() }
    }

    pub(super) fn group(self, group: &DeliveryGroup) -> (Arc<DeliveryTarget>, Vec<PlainItem>) {
        let item = |item: &DeliveryItem| DeliveryItem {
            token: DeliveryToken { delivery: 0, ..item.token },
            created_at: self.time(item.created_at),
            now: self.time(item.now),
            ..item.clone()
        };
        (Arc::new(self.target(&group.target)), group.items.iter().map(item).collect())
    }

    pub(super) fn message(self, message: StoredMessage) -> StoredMessage {
        StoredMessage { created_at: self.time(message.created_at), ..message }
    }

    /// Converts an endpoint, without the time of its last change.
    pub(super) fn endpoint(self, endpoint: Endpoint) -> Endpoint {
        Endpoint {
            created_at: self.time(endpoint.created_at),
            updated_at: Timestamp(0),
            failing_since: endpoint.failing_since.map(|at| self.time(at)),
            ..endpoint
        }
    }

    /// Converts a delivery, without the time of its last change.
    pub(super) fn delivery(self, delivery: Delivery) -> Delivery {
        Delivery {
            created_at: self.time(delivery.created_at),
            updated_at: Timestamp(0),
            next_attempt_at: delivery.next_attempt_at.map(|at| self.time(at)),
            ..delivery
        }
    }

    /// Converts an attempt; of one with an unknown outcome, only what is known.
    pub(super) fn attempt(self, attempt: Attempt) -> Attempt {
        let attempt = Attempt { began_at: self.time(attempt.began_at), ..attempt };
        match attempt.outcome {
            AttemptOutcome::Unknown => {
                Attempt { url: String::new(), response: None, error: None, ..attempt }
            }
            AttemptOutcome::Succeeded | AttemptOutcome::Failed => attempt,
        }
    }
}

/// Returns the first message of a group, and its endpoint.
pub(super) fn head(group: &DeliveryGroup) -> Option<(EndpointId, HookMessageId)> {
    group.items.first().map(|item| (group.target.endpoint, item.message))
}
