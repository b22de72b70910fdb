//! One request: opened, signed, sent, judged, settled.
//!
//! # Invariants
//! * The store is called when the call has ended, never during it.
//! * What this node has no keys for is left to others: nobody's attempt is used up by it.
//! * One request is one sample for the breaker, however many messages it carries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wakeline_core::{AttemptId, DeliveryToken, HookChange, HookWhat, error_chain};
use wakeline_store::hook::{
    AttemptRecord, DeliveryGroup, DeliveryItem, SettleDelivery, SettledDelivery, SettledState,
    Target,
};

use super::slots::Held;
use super::unopened;
use crate::announce;
use crate::error::HookError;
use crate::expired::expired_end;
use crate::guard::shown_url;
use crate::policy::{Decision, decide, next};
use crate::send::request::{Envelope, headers, list, list_id};
use crate::send::{Call, Ended, Sent};
use crate::service::Inner;
use crate::shares::Share;

/// The pause before an outcome is written again that could not be.
const SETTLE_AGAIN: Duration = Duration::from_millis(200);
/// The longest such pause.
const SETTLE_AGAIN_MAX: Duration = Duration::from_secs(1);

/// Most bytes of payloads in one request, unless a message alone has more.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Deliveries that go out in one request.
pub(super) struct Job {
    pub(super) inner: Arc<Inner>,
    pub(super) group: DeliveryGroup,
    /// When they were granted: their database time is that of the grant.
    pub(super) granted: Instant,
}

impl Job {
    /// Makes the attempt, and writes how it ended.
    pub(super) async fn run(mut self, slot: Held, share: Option<Share>) {
        let items = std::mem::take(&mut self.group.items);
        let (items, expired): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| item.payload.is_some());
        let target = &self.group.target;
        let mut ends: Vec<_> = expired.iter().map(|item| expired_end(target, item)).collect();
        let items = self.put_off_rest(items).await;
        let mut shut = None;
        if !items.is_empty() {
            match self.call(&items) {
                Err(error @ (HookError::Sealed { .. } | HookError::NoKeyRing)) => {
                    shut = Some((tokens(&items), error));
                }
                call => ends.extend(self.attempt(&items, call).await),
            }
        }
        let settled = self.settle(&mut ends).await;
        // Free before anybody hears of what may go now: who looks for it can use the slot.
        drop((slot, share));
        self.inner.share_freed();
        self.settled(&ends, settled);
        if let Some((tokens, error)) = shut {
            drop(items);
            unopened::leave(&self.inner, &self.group.target, (tokens, error)).await;
        }
    }

    /// Gives back what is too much for one request; it goes next, because nothing else of an
    /// endpoint in order goes before it.
    async fn put_off_rest(&self, mut items: Vec<DeliveryItem>) -> Vec<DeliveryItem> {
        let rest = items.split_off(fitting(&items));
        if !rest.is_empty() {
            self.inner.give_back(tokens(&rest)).await;
        }
        items
    }

    /// Makes the attempt; returns its end for each of its messages.
    async fn attempt(
        &self,
        items: &[DeliveryItem],
        call: Result<Call, HookError>,
    ) -> Vec<SettleDelivery> {
        let began = Instant::now();
        self.inner.meters.in_flight.increment(1.0);
        let (sent, ours) = self.send(call).await;
        self.inner.meters.in_flight.decrement(1.0);
        self.inner.meters.attempted(&sent.ended, sent.took);
        self.note(items, &sent);
        let request = items.first().expect("there was something to send").token.attempt;
        items.iter().map(|item| self.end(item, &sent, (request, ours, began))).collect()
    }

    /// Makes the call. True beside it if its failure is ours.
    async fn send(&self, call: Result<Call, HookError>) -> (Sent, bool) {
        match call {
            Ok(call) => (self.inner.sender.send(call).await, false),
            Err(error) => {
                let endpoint = self.group.target.endpoint;
                tracing::error!(
                    %endpoint, error = error_chain(&error),
                    "a delivery cannot be sent"
                );
                let ended = Ended::Failed(format!("not sent: {error}"));
                (Sent { ended, took: Duration::ZERO }, true)
            }
        }
    }

    fn call(&self, items: &[DeliveryItem]) -> Result<Call, HookError> {
        let target = &self.group.target;
        let keys = self.inner.vault.open_keys(target.endpoint, &target.secrets)?;
        let own = self.inner.vault.open_headers(target.endpoint, &target.headers)?;
        let lists = target.options.fifo.is_some_and(|fifo| fifo.batch > 1);
        let first = items.first().expect("there is something to send");
        let (id, body) = if lists {
            (list_id(items), list(items))
        } else {
            (first.message.to_string(), first.payload.clone())
        };
        let body = body.ok_or_else(|| HookError::invalid("payload", "is not JSON"))?;
        let envelope = Envelope {
            id: &id,
            at: first.now.plus(self.granted.elapsed()),
            keys: &keys,
            style: target.options.header_style,
        };
        let headers = headers(&envelope, &body, &own, &self.inner.user_agent);
        let (application, url) = (target.application, target.url.clone());
        Ok(Call { application, url, headers, body, timeout: target.options.timeout })
    }

    /// The end of an attempt for one of its messages.
    fn end(
        &self,
        item: &DeliveryItem,
        sent: &Sent,
        (request, ours, began): (AttemptId, bool, Instant),
    ) -> SettleDelivery {
        let target = &self.group.target;
        let first = item.token.attempt == request;
        let mut decision = decide(&sent.ended, item, &target.options, request);
        if ours {
            let verdict = next(item, &target.options, request, None);
            decision = Decision { verdict, ..Decision::GIVEN_UP };
        }
        let announce_disabled = announce::of_disabling(target, &decision).filter(|_| first);
        if !first {
            decision = Decision { verdict: decision.verdict, ..Decision::GIVEN_UP };
        }
        let (status, response) = match &sent.ended {
            Ended::Answer { status, body, .. } => (Some(*status), body.clone()),
            _ => (None, Bytes::new()),
        };
        SettleDelivery {
            token: item.token,
            record: AttemptRecord {
                began_ago: began.elapsed(),
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

    /// Writes outcomes; tries again while the leases last. Returns what became of them.
    async fn settle(&self, ends: &mut [SettleDelivery]) -> Vec<SettledDelivery> {
        if ends.is_empty() {
            return Vec::new();
        }
        let lease = self.group.target.options.lease();
        let mut pause = SETTLE_AGAIN;
        loop {
            let asked = Instant::now();
            let error = match self.inner.store.settle_deliveries(ends.to_vec()).await {
                Ok(settled) => return settled,
                Err(error) => error,
            };
            let over = self.granted.elapsed() + pause >= lease;
            if over || !error.is_transient() {
                let endpoint = self.group.target.endpoint;
                tracing::error!(
                    %endpoint, error = error_chain(&error),
                    "the result of an attempt could not be written: it counts as unknown"
                );
                return Vec::new();
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SETTLE_AGAIN_MAX);
            ends.iter_mut().for_each(|end| end.record.began_ago += asked.elapsed());
        }
    }

    fn settled(&self, ends: &[SettleDelivery], settled: Vec<SettledDelivery>) {
        let meters = &self.inner.meters;
        for (end, settled) in ends.iter().zip(settled) {
            meters.settled(settled.state);
            if settled.state == SettledState::Stale {
                stale(&self.group.target, end.token);
                // Perhaps an earlier try wrote it whose answer was lost, and what it made due: who
                // waits must look for it.
                self.inner.hint(&[HookChange::now(HookWhat::Push)]);
            }
            if end.throttle.is_some() {
                meters.throttled();
            }
            let target = &self.group.target;
            let (endpoint, application) = (target.endpoint, target.application);
            if settled.opened {
                meters.opened();
                tracing::info!(%endpoint, %application, "breaker opened");
            }
            if let Some(reason) = settled.disabled {
                meters.disabled(reason);
                tracing::warn!(%endpoint, %application, ?reason, "endpoint disabled");
            }
            self.inner.hint(&settled.changes);
        }
    }

    fn note(&self, items: &[DeliveryItem], sent: &Sent) {
        let endpoint = self.group.target.endpoint;
        let first = items.first().expect("there was something to send");
        let (message, attempt) = (first.message, first.attempt_no);
        let took_ms = u64::try_from(sent.took.as_millis()).unwrap_or(u64::MAX);
        match &sent.ended {
            Ended::Answer { status, .. } => {
                tracing::debug!(%endpoint, %message, attempt, status, took_ms, "attempt answered");
            }
            Ended::Refused(error) => {
                tracing::debug!(
                    %endpoint, %message, attempt, error = error_chain(&error),
                    "attempt refused"
                );
            }
            other => {
                let error = other.error();
                tracing::debug!(%endpoint, %message, attempt, error, took_ms, "attempt failed");
            }
        }
    }
}

/// How many of the first items go into one request.
fn fitting(items: &[DeliveryItem]) -> usize {
    let mut bytes = 0;
    let fits = items.iter().take_while(|item| {
        bytes += item.payload.as_ref().map_or(0, Bytes::len);
        bytes <= BATCH_BYTES_MAX
    });
    // What is too much by itself goes by itself.
    fits.count().max(1).min(items.len())
}

fn tokens(items: &[DeliveryItem]) -> Vec<DeliveryToken> {
    items.iter().map(|item| item.token).collect()
}

fn stale(target: &Target, token: DeliveryToken) {
    let attempt = token.attempt;
    tracing::warn!(
        endpoint = %target.endpoint, %attempt,
        "an attempt ended after its lease: the delivery may be sent twice"
    );
}
