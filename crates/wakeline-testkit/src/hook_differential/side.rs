//! The names and times that both sides share, and those that differ.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    ApplicationId, AttemptId, DeliveryToken, EndpointId, HookLine, HookMessageId, Timestamp,
};
use wakeline_store::hook::{
    Attempt, AttemptOutcome, Delivery, DeliveryAsk, DeliveryGroup, DeliveryItem, Endpoint,
    EndpointSecret, NewEndpoint, NewMessage, StoredMessage, Target,
};

use super::op::{Asks, ENDPOINTS, Mail, PULLED};
use crate::hook_conformance::{
    breaking, capped, channels, endpoint, event, fifo, key, message, patterns, pulled, secs,
};

/// What a sequence calls its things.
pub(super) struct Names {
    pub(super) app: ApplicationId,
    pub(super) endpoints: [EndpointId; ENDPOINTS],
}

impl Names {
    pub(super) fn fresh() -> Self {
        Self {
            app: ApplicationId::generate(),
            endpoints: std::array::from_fn(|_| EndpointId::generate()),
        }
    }

    /// The lines that are looked at after each step.
    pub(super) fn lines(&self) -> Vec<HookLine> {
        vec![HookLine::Push, HookLine::Pull(self.endpoints[PULLED])]
    }

    /// One that holds few, one that breaks, one in order, one whose owner fetches.
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
        let heard = if n == PULLED { channels(&["x"]) } else { Vec::new() };
        let id = self.endpoints[n];
        NewEndpoint { id, event_types: wanted, channels: heard, ..endpoint(options) }
    }

    pub(super) fn message(&self, mail: &Mail) -> NewMessage {
        let own = |n: u8| wakeline_core::EventId::parse(&format!("e{n}")).expect("valid");
        NewMessage {
            event_type: event(if mail.odd_type { "odd.one" } else { "even.one" }),
            channels: channels(if mail.channel { &["x", "y"] } else { &[] }),
            event_id: mail.event_id.map(own),
            idempotency: mail.key.and_then(|(name, print)| key(&format!("k{name}"), print)),
            only: mail.only.map(|n| self.endpoints[n]),
            retention: if mail.short { secs(10) } else { secs(1_000_000) },
            payload: format!("{mail:?}").into(),
            ..message(self.app)
        }
    }
}

/// The asks of a claim; the same on both sides.
pub(super) fn asks(asks: &[Asks], lease: Duration) -> Vec<DeliveryAsk> {
    let ask = |ask: &Asks| DeliveryAsk {
        attempts: (0..ask.attempts).map(|_| AttemptId::generate()).collect(),
        fresh_only: ask.fresh_only.min(u32::try_from(ask.attempts).expect("few")),
        lease: Some(lease),
    };
    asks.iter().map(ask).collect()
}

/// A group that was leased on both sides.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) endpoint: EndpointId,
    /// The oracle's token and the store's, of each delivery.
    pub(super) tokens: Vec<(DeliveryToken, DeliveryToken)>,
}

/// How much later the store's clock is than the oracle's, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Skew(pub(super) i64);

/// A delivery as both sides must have it: without its row.
pub(super) type PlainItem = DeliveryItem;

impl Skew {
    pub(super) fn time(self, at: Timestamp) -> Timestamp {
        Timestamp(at.0 - self.0)
    }

    fn secret(self, secret: &EndpointSecret) -> EndpointSecret {
        let expires_at = secret.expires_at.map(|at| self.time(at));
        EndpointSecret { expires_at, ..secret.clone() }
    }

    fn target(self, target: &Target) -> Target {
        let secrets = target.secrets.iter().map(|secret| self.secret(secret)).collect();
        Target { secrets, ..target.clone() }
    }

    pub(super) fn group(self, group: &DeliveryGroup) -> (Arc<Target>, Vec<PlainItem>) {
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

    /// An endpoint without the time of its last change.
    pub(super) fn endpoint(self, endpoint: Endpoint) -> Endpoint {
        Endpoint {
            created_at: self.time(endpoint.created_at),
            updated_at: Timestamp(0),
            failing_since: endpoint.failing_since.map(|at| self.time(at)),
            ..endpoint
        }
    }

    /// A delivery without the time of its last change.
    pub(super) fn delivery(self, delivery: Delivery) -> Delivery {
        Delivery {
            created_at: self.time(delivery.created_at),
            updated_at: Timestamp(0),
            next_attempt_at: delivery.next_attempt_at.map(|at| self.time(at)),
            ..delivery
        }
    }

    /// An attempt; of an unknown one, only what is known.
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

/// The first message of a group, and its endpoint.
pub(super) fn head(group: &DeliveryGroup) -> Option<(EndpointId, HookMessageId)> {
    group.items.first().map(|item| (group.target.endpoint, item.message))
}
