//! Sends one request to an endpoint: decrypts its keys, signs it, sends it, and settles the result.
//!
//! # Invariants
//! * The store is called after the call has ended, never during it.
//! * Deliveries that this node has no keys for are left to other nodes, without counting an
//!   attempt.
//! * One request is one sample for the circuit breaker, however many messages it carries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wakeline_core::{AttemptId, DeliveryToken, HookChange, HookChangeKind, error_chain};
use wakeline_store::hook::{
    AttemptRecord, DeliveryGroup, DeliveryItem, DeliveryTarget, SettleDelivery, SettledDelivery,
    SettledState,
};

use super::slots::HeldSlots;
use super::undecryptable;
use crate::announce;
use crate::error::HookError;
use crate::expired::expired_end;
use crate::guard::shown_url;
use crate::policy::{Decision, decide, next};
use crate::send::request::{SigningContext, headers, list, list_id};
use crate::send::{AttemptEnd, EndpointCall, FinishedCall};
use crate::service::HookServiceInner;
use crate::shares::Share;

/// The first pause before an outcome that could not be stored is stored again.
const SETTLE_AGAIN: Duration = Duration::from_millis(200);
/// The longest such pause.
const SETTLE_AGAIN_MAX: Duration = Duration::from_secs(1);

/// The maximum total size of the payloads in one request, unless a single message is larger.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The task that sends deliveries in one request.
pub(super) struct DeliveryTask {
    pub(super) inner: Arc<HookServiceInner>,
    pub(super) group: DeliveryGroup,
    /// When the deliveries were claimed, which is also when their `now` was read from the database.
    pub(super) claimed_at: Instant,
}

impl DeliveryTask {
    /// Makes the attempt, and stores how it ended.
    pub(super) async fn run(mut self, slot: HeldSlots, share: Option<Share>) {
        let items = std::mem::take(&mut self.group.items);
        let (items, expired): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| item.payload.is_some());
        let target = &self.group.target;
        let mut ends: Vec<_> = expired.iter().map(|item| expired_end(target, item)).collect();
        let items = self.release_excess(items).await;
        let mut undecryptable = None;
        if !items.is_empty() {
            match self.call(&items) {
                Err(error @ (HookError::Encryption { .. } | HookError::NoEncryptionKeys)) => {
                    undecryptable = Some((tokens(&items), error));
                }
                call => ends.extend(self.attempt(&items, call).await),
            }
        }
        let settled = self.settle(&mut ends).await;
        // The slot is freed before the changes are published, so that whoever they wake can use it.
        drop((slot, share));
        self.inner.share_freed();
        self.settled(&ends, settled);
        if let Some((tokens, error)) = undecryptable {
            drop(items);
            undecryptable::release(&self.inner, &self.group.target, tokens, error).await;
        }
    }

    /// Releases the messages that are too much for one request. They are sent next, because an
    /// ordered endpoint gets no other message before them.
    async fn release_excess(&self, mut items: Vec<DeliveryItem>) -> Vec<DeliveryItem> {
        let rest = items.split_off(fitting(&items));
        if !rest.is_empty() {
            self.inner.release(tokens(&rest)).await;
        }
        items
    }

    /// Makes the attempt, and returns its end for each of its messages.
    async fn attempt(
        &self,
        items: &[DeliveryItem],
        call: Result<EndpointCall, HookError>,
    ) -> Vec<SettleDelivery> {
        let began = Instant::now();
        self.inner.meters.in_flight.increment(1.0);
        let (sent, own_fault) = self.send(call).await;
        self.inner.meters.in_flight.decrement(1.0);
        self.inner.meters.attempted(&sent.ended, sent.took);
        self.log(items, &sent);
        let request = items.first().expect("there was something to send").token.attempt;
        let attempt = AttemptInfo { request, own_fault, began };
        items.iter().map(|item| self.end(item, &sent, &attempt)).collect()
    }

    /// Makes the call. The second value is true if it failed because of this server.
    async fn send(&self, call: Result<EndpointCall, HookError>) -> (FinishedCall, bool) {
        match call {
            Ok(call) => (self.inner.sender.send(call).await, false),
            Err(error) => {
                let endpoint = self.group.target.endpoint;
                tracing::error!(
                    %endpoint, error = error_chain(&error),
                    "a webhook could not be sent"
                );
                let ended = AttemptEnd::Failed(format!("not sent: {error}"));
                (FinishedCall { ended, took: Duration::ZERO }, true)
            }
        }
    }

    fn call(&self, items: &[DeliveryItem]) -> Result<EndpointCall, HookError> {
        let target = &self.group.target;
        let keys = self.inner.encryption.decrypt_keys(target.endpoint, &target.secrets)?;
        let own = self.inner.encryption.decrypt_headers(target.endpoint, &target.headers)?;
        let is_batch = target.options.fifo.is_some_and(|fifo| fifo.batch > 1);
        let first = items.first().expect("there is something to send");
        let (id, body) = if is_batch {
            (list_id(items), list(items))
        } else {
            (first.message.to_string(), first.payload.clone())
        };
        let body = body.ok_or_else(|| HookError::invalid("payload", "is not JSON"))?;
        let envelope = SigningContext {
            id: &id,
            at: first.now.plus(self.claimed_at.elapsed()),
            keys: &keys,
            style: target.options.header_style,
        };
        let headers = headers(&envelope, &body, &own, &self.inner.user_agent);
        let (application, url) = (target.application, target.url.clone());
        Ok(EndpointCall { application, url, headers, body, timeout: target.options.timeout })
    }

    /// The end of the attempt for one of its messages.
    fn end(
        &self,
        item: &DeliveryItem,
        sent: &FinishedCall,
        attempt: &AttemptInfo,
    ) -> SettleDelivery {
        let target = &self.group.target;
        let first = item.token.attempt == attempt.request;
        let mut decision = decide(&sent.ended, item, &target.options, attempt.request);
        if attempt.own_fault {
            let verdict = next(item, &target.options, attempt.request, None);
            decision = Decision { verdict, ..Decision::GIVEN_UP };
        }
        let announce_disabled = announce::of_disabling(target, &decision).filter(|_| first);
        if !first {
            decision = Decision { verdict: decision.verdict, ..Decision::GIVEN_UP };
        }
        let (status, response) = match &sent.ended {
            AttemptEnd::Response { status, body, .. } => (Some(*status), body.clone()),
            _ => (None, Bytes::new()),
        };
        SettleDelivery {
            token: item.token,
            record: AttemptRecord {
                began_ago: attempt.began.elapsed(),
                took: sent.took,
                status,
                response,
                error: sent.ended.error(),
                url: shown_url(&target.url),
            },
            verdict: decision.verdict,
            sample: decision.sample,
            throttle: decision.throttle,
            gone: decision.gone,
            announce: announce::of_attempt(target, item, &decision, status),
            announce_disabled,
        }
    }

    /// Stores the outcomes, and tries again while the leases last. Returns the results.
    async fn settle(&self, ends: &mut [SettleDelivery]) -> Vec<SettledDelivery> {
        if ends.is_empty() {
            return Vec::new();
        }
        let lease = self.group.target.options.lease();
        let mut pause = SETTLE_AGAIN;
        loop {
            let called_at = Instant::now();
            let error = match self.inner.store.settle_deliveries(ends.to_vec()).await {
                Ok(settled) => return settled,
                Err(error) => error,
            };
            let over = self.claimed_at.elapsed() + pause >= lease;
            if over || !error.is_transient() {
                let endpoint = self.group.target.endpoint;
                tracing::error!(
                    %endpoint, error = error_chain(&error),
                    "the result of an attempt could not be stored: the result is recorded as \
                     unknown when the lease ends"
                );
                return Vec::new();
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SETTLE_AGAIN_MAX);
            ends.iter_mut().for_each(|end| end.record.began_ago += called_at.elapsed());
        }
    }

    fn settled(&self, ends: &[SettleDelivery], settled: Vec<SettledDelivery>) {
        let meters = &self.inner.meters;
        for (end, settled) in ends.iter().zip(settled) {
            meters.settled(settled.state);
            if settled.state == SettledState::Stale {
                stale(&self.group.target, end.token);
                // An earlier call whose result was lost may have stored the outcome and made other
                // deliveries due, so the waiters must look for them.
                self.inner.hint(&[HookChange::now(HookChangeKind::Push)]);
            }
            if end.throttle.is_some() {
                meters.throttled();
            }
            let target = &self.group.target;
            let (endpoint, application) = (target.endpoint, target.application);
            if settled.opened {
                meters.opened();
                tracing::info!(
                    %endpoint, %application,
                    "the circuit breaker of an endpoint opened: its deliveries are paused"
                );
            }
            if let Some(reason) = settled.disabled {
                meters.disabled(reason);
                tracing::warn!(%endpoint, %application, ?reason, "an endpoint was disabled");
            }
            self.inner.hint(&settled.changes);
        }
    }

    fn log(&self, items: &[DeliveryItem], sent: &FinishedCall) {
        let endpoint = self.group.target.endpoint;
        let first = items.first().expect("there was something to send");
        let (message, attempt) = (first.message, first.attempt_no);
        let took_ms = u64::try_from(sent.took.as_millis()).unwrap_or(u64::MAX);
        match &sent.ended {
            AttemptEnd::Response { status, .. } => {
                tracing::debug!(
                    %endpoint, %message, attempt, status, took_ms,
                    "the endpoint responded to an attempt"
                );
            }
            AttemptEnd::Refused(error) => {
                tracing::debug!(
                    %endpoint, %message, attempt, error = error_chain(&error),
                    "an attempt was not made, because the URL is not allowed"
                );
            }
            other => {
                let error = other.error();
                tracing::debug!(%endpoint, %message, attempt, error, took_ms, "an attempt failed");
            }
        }
    }
}

/// What all messages of an attempt have in common.
struct AttemptInfo {
    /// The attempt id of the first message of the request.
    request: AttemptId,
    /// Whether the attempt failed because of this server.
    own_fault: bool,
    /// When the attempt began.
    began: Instant,
}

/// The number of items, from the first one on, that fit into one request.
fn fitting(items: &[DeliveryItem]) -> usize {
    let mut bytes = 0;
    let fits = items.iter().take_while(|item| {
        bytes += item.payload.as_ref().map_or(0, Bytes::len);
        bytes <= BATCH_BYTES_MAX
    });
    // A message that is too large by itself is sent alone.
    fits.count().max(1).min(items.len())
}

fn tokens(items: &[DeliveryItem]) -> Vec<DeliveryToken> {
    items.iter().map(|item| item.token).collect()
}

fn stale(target: &DeliveryTarget, token: DeliveryToken) {
    let attempt = token.attempt;
    tracing::warn!(
        endpoint = %target.endpoint, %attempt,
        "an attempt ended after its lease: the delivery may be sent twice"
    );
}
