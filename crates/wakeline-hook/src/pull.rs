//! Endpoints that consumers pull from: deliveries are popped as from a queue, and settled by token.
//!
//! # Invariants
//! * Every delivery that is returned has a payload: a delivery whose payload has expired is settled
//!   as failed.
//! * A token can settle only at the endpoint that returned it; at another one it is stale.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::header::HeaderValue;
use tokio::time::Instant;
use uuid::Uuid;
use wakeline_core::{
    ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointOptions, EndpointRef,
    HeaderStyle, HookLine, IdError, error_chain,
};
use wakeline_store::hook::{
    AttemptRecord, BreakerSample, DeliveryGroup, DeliveryItem, DeliveryRequest, DeliveryVerdict,
    Endpoint, SettleDelivery, SettledState, Trigger,
};
use wakeline_wake::{Patience, TakeError, TakeOutcome};

use crate::api::{HookClaimResult, HookRequest};
use crate::error::HookError;
use crate::expired::expired_end;
use crate::headers::Headers;
use crate::policy::wait;
use crate::send::request::{self, SigningContext};
use crate::service::HookService;
use crate::sign::SigningKey;

/// The maximum number of deliveries of one pop.
const POP_MAX: u32 = 1_000;
/// The longest lease of a pulled delivery.
const LEASE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// A request for deliveries of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequest {
    /// The maximum number of deliveries, from 1 to 1,000.
    pub max: u32,
    /// How long the deliveries are leased; `None` means the endpoint's timeout plus ten seconds.
    pub lease: Option<Duration>,
    /// How long to wait for a delivery; `None` does not wait.
    pub wait: Option<Duration>,
}

/// The outcome of a request for deliveries.
#[derive(Debug)]
pub enum PullOutcome {
    /// The claimed deliveries, in order. Each has its payload.
    Claimed(Vec<(PulledToken, DeliveryItem)>),
    /// There was no delivery in time.
    Empty,
    /// There was no delivery before this node began to shut down.
    Drained,
    /// The endpoint does not exist.
    Missing,
}

/// The token that proves the lease of a pulled delivery, with the data that settling it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulledToken {
    /// The token of the lease.
    pub token: DeliveryToken,
    /// The endpoint that the delivery belongs to.
    pub endpoint: EndpointId,
    /// The number of attempts of the current schedule; 0 for a manual attempt.
    pub scheduled_no: u32,
    /// When the delivery was popped, in milliseconds since 1970 by the clock of the node that
    /// returned it.
    pub popped_ms: u64,
}

/// A consumer's verdict on a pulled delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PulledVerdict {
    /// The delivery was processed.
    Ack,
    /// The delivery was not processed. It is retried by the endpoint's schedule.
    Nack {
        /// The minimum delay before the retry.
        delay: Option<Duration>,
        /// The error to record in the log of attempts.
        error: Option<String>,
    },
}

/// Signs pulled deliveries like webhooks, for consumers that forward them.
#[derive(Debug)]
pub struct PulledSigner {
    keys: Vec<SigningKey>,
    own: Headers,
    style: HeaderStyle,
}

impl PulledSigner {
    /// The headers of a webhook with this body, as names in lower case and values.
    pub fn headers(&self, item: &DeliveryItem, body: &[u8]) -> Vec<(String, String)> {
        let id = item.message.to_string();
        let envelope =
            SigningContext { id: &id, at: item.now, keys: &self.keys, style: self.style };
        let headers = request::headers(&envelope, body, &self.own, "");
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }
}

impl fmt::Display for PulledToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = self.endpoint.0.simple();
        write!(f, "{}.{:x}.{:x}.{endpoint}", self.token, self.scheduled_no, self.popped_ms)
    }
}

impl FromStr for PulledToken {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let read = || {
            let mut parts = text.split('.');
            let token = parts.next()?.parse().ok()?;
            let scheduled_no = u32::from_str_radix(parts.next()?, 16).ok()?;
            let popped_ms = u64::from_str_radix(parts.next()?, 16).ok()?;
            let endpoint = EndpointId(Uuid::try_parse(parts.next()?).ok()?);
            parts.next().is_none().then_some(Self { token, endpoint, scheduled_no, popped_ms })
        };
        read().ok_or(IdError { kind: "token" })
    }
}

impl HookService {
    /// Claims deliveries of an endpoint that is pulled from, and waits for them if requested.
    pub async fn pop(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        pop: PullRequest,
    ) -> Result<PullOutcome, HookError> {
        if !(1..=POP_MAX).contains(&pop.max) {
            return Err(HookError::invalid(
                "limit",
                format!("must be from 1 to {POP_MAX}, not {}", pop.max),
            ));
        }
        check_lease(pop.lease)?;
        let Some(found) = self.pulled_from(application, endpoint).await? else {
            return Ok(PullOutcome::Missing);
        };
        let line = HookLine::Pull(found.id);
        let deadline = Instant::now() + pop.wait.unwrap_or_default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = left.min(self.inner.max_wait);
            let patience = if wait.is_zero() { Patience::Now } else { Patience::Wait(wait) };
            let began = Instant::now();
            let taken = self.hub().take(line.clone(), hook_request(&pop), patience).await;
            match taken {
                Ok(TakeOutcome::Claimed(HookClaimResult::Deliveries(groups))) => {
                    let items = self.without_expired(groups).await?;
                    if !items.is_empty() {
                        return Ok(PullOutcome::Claimed(items));
                    }
                    // All of them had expired; there may be others behind them.
                }
                Ok(
                    TakeOutcome::Claimed(HookClaimResult::Calls(_) | HookClaimResult::Background)
                    | TakeOutcome::Empty,
                ) => {
                    // If the hub ended the wait early, the wait is not repeated.
                    let early = began.elapsed() < wait;
                    if early || Instant::now() >= deadline {
                        return Ok(PullOutcome::Empty);
                    }
                }
                Ok(TakeOutcome::Drained) => return Ok(PullOutcome::Drained),
                Err(TakeError::TooMany { retry_after }) => {
                    return Err(HookError::TooManyWaiters { retry_after });
                }
                Err(TakeError::Claim(error)) => return Err(HookError::Store(error)),
            }
        }
    }

    /// The claimed deliveries that have a payload. Those without one are settled as failed.
    async fn without_expired(
        &self,
        groups: Vec<DeliveryGroup>,
    ) -> Result<Vec<(PulledToken, DeliveryItem)>, HookError> {
        let (mut items, mut ends) = (Vec::new(), Vec::new());
        for DeliveryGroup { target, items: claimed } in groups {
            for item in claimed {
                match item.payload {
                    Some(_) => items.push(with_token(target.endpoint, item)),
                    None => ends.push(expired_end(&target, &item)),
                }
            }
        }
        if !ends.is_empty() {
            match self.settle_all(ends).await {
                // If settling fails, the leases of the expired deliveries end by themselves.
                Err(error) if !items.is_empty() => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "expired deliveries could not be settled; they are settled later"
                    );
                }
                settled => drop(settled?),
            }
        }
        Ok(items)
    }

    async fn settle_all(&self, ends: Vec<SettleDelivery>) -> Result<Vec<SettledState>, HookError> {
        let store = self.shared_store();
        let settled = self.run_to_completion(async move {
            let settled = store.settle_deliveries(ends).await?;
            let changes = settled.iter().flat_map(|settled| settled.changes.clone()).collect();
            Ok((settled, changes))
        });
        Ok(settled.await?.into_iter().map(|settled| settled.state).collect())
    }

    /// Settles pulled deliveries, in any order. `None` if the endpoint does not exist.
    pub async fn settle_pulled(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        settles: Vec<(PulledToken, PulledVerdict)>,
    ) -> Result<Option<Vec<SettledState>>, HookError> {
        let Some(found) = self.pulled_from(application, endpoint).await? else { return Ok(None) };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let own: Vec<_> = settles.iter().map(|(token, _)| token.endpoint == found.id).collect();
        let ends = settles.into_iter().filter(|(token, _)| token.endpoint == found.id);
        let end = |(token, verdict)| settle_of(&found.options, token, verdict, now);
        let settled = self.settle_all(ends.map(end).collect()).await?;
        Ok(Some(spread(&own, settled, SettledState::Stale)))
    }

    /// Extends the leases of pulled deliveries to `span` from now. Returns true for those that are
    /// still held; `None` if the endpoint does not exist.
    pub async fn extend_pulled(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        tokens: Vec<PulledToken>,
        span: Duration,
    ) -> Result<Option<Vec<bool>>, HookError> {
        check_lease(Some(span))?;
        let Some(found) = self.pulled_from(application, endpoint).await? else { return Ok(None) };
        let own: Vec<_> = tokens.iter().map(|token| token.endpoint == found.id).collect();
        let tokens = tokens.into_iter().filter(|token| token.endpoint == found.id);
        let tokens = tokens.map(|token| token.token).collect();
        let extended = self.store().extend_deliveries(tokens, span).await?;
        Ok(Some(spread(&own, extended, false)))
    }

    /// A signer for pulled deliveries of an endpoint, with all of its keys and additional headers.
    /// `None` if the endpoint does not exist.
    pub async fn pulled_signer(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<PulledSigner>, HookError> {
        let Some(found) = self.pulled_from(application, endpoint).await? else { return Ok(None) };
        let secrets = self.store().secrets(application, endpoint).await?;
        let keys = self.encryption().decrypt_keys(found.id, &secrets)?;
        let own = self.encryption().decrypt_headers(found.id, &found.headers)?;
        Ok(Some(PulledSigner { keys, own, style: found.options.header_style }))
    }

    async fn pulled_from(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<Endpoint>, HookError> {
        let found = self.store().endpoint(application, endpoint).await?;
        match found {
            Some(found) if !found.options.pull => Err(HookError::invalid(
                "endpoint",
                "is not a pull endpoint: set delivery.pull on an endpoint to pull from it",
            )),
            found => Ok(found),
        }
    }
}

fn check_lease(lease: Option<Duration>) -> Result<(), HookError> {
    let fits = |span: Duration| !span.is_zero() && span <= LEASE_MAX;
    if lease.is_none_or(fits) {
        return Ok(());
    }
    let reason = format!("must be more than 0 and at most {} seconds", LEASE_MAX.as_secs());
    Err(HookError::invalid("lease", reason))
}

fn hook_request(pop: &PullRequest) -> HookRequest {
    let attempts = (0..pop.max).map(|_| AttemptId::generate()).collect();
    HookRequest::Deliveries(DeliveryRequest { attempts, fresh_only: 0, lease: pop.lease })
}

/// Results in the order of a request: `results` for the tokens of this endpoint (`own`), and
/// `other` for all other tokens.
fn spread<T: Copy>(own: &[bool], results: Vec<T>, other: T) -> Vec<T> {
    let mut results = results.into_iter();
    own.iter().map(|own| if *own { results.next().unwrap_or(other) } else { other }).collect()
}

fn with_token(endpoint: EndpointId, item: DeliveryItem) -> (PulledToken, DeliveryItem) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let scheduled_no = match item.trigger {
        Trigger::Scheduled => item.scheduled_no,
        Trigger::Manual => 0,
    };
    let popped_ms = u64::try_from(now.as_millis()).unwrap_or(0);
    (PulledToken { token: item.token, endpoint, scheduled_no, popped_ms }, item)
}

fn settle_of(
    options: &EndpointOptions,
    token: PulledToken,
    verdict: PulledVerdict,
    now: Duration,
) -> SettleDelivery {
    let took = now.saturating_sub(Duration::from_millis(token.popped_ms));
    let (verdict, sample, error) = match verdict {
        PulledVerdict::Ack => (DeliveryVerdict::Delivered, BreakerSample::Success, None),
        PulledVerdict::Nack { delay, error } => {
            let planned = wait(token.scheduled_no, options.schedule(), token.token.attempt);
            let verdict = planned.map_or(DeliveryVerdict::Failed, |wait| {
                DeliveryVerdict::Retry(wait.max(delay.unwrap_or_default()))
            });
            // A failure of the consumer shows nothing about the endpoint.
            (verdict, BreakerSample::None, Some(error.unwrap_or_else(|| "refused".to_owned())))
        }
    };
    let record = AttemptRecord {
        began_ago: took,
        took,
        status: None,
        response: Bytes::new(),
        error,
        url: String::new(),
    };
    SettleDelivery {
        token: token.token,
        record,
        verdict,
        sample,
        throttle: None,
        gone: false,
        announce: Vec::new(),
        announce_disabled: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_parsed_from_their_text_and_other_texts_are_refused() {
        let token = DeliveryToken { delivery: 42, attempt: AttemptId::generate() };
        let endpoint = EndpointId::generate();
        let popped_ms = 1_700_000_000_000;
        let token = PulledToken { token, endpoint, scheduled_no: 11, popped_ms };
        assert_eq!(token.to_string().parse(), Ok(token));
        let plain = token.token.to_string();
        for wrong in ["", &plain, &format!("{plain}.1"), &format!("{token}.1"), "a.b.c"] {
            assert!(wrong.parse::<PulledToken>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_nack_waits_for_its_schedule_and_longer_if_requested() {
        let options = EndpointOptions {
            schedule: Some(vec![Duration::from_secs(10)]),
            ..EndpointOptions::default()
        };
        let verdict = |scheduled_no, delay: Option<u64>| {
            let token = DeliveryToken { delivery: 1, attempt: AttemptId::generate() };
            let endpoint = EndpointId::generate();
            let token = PulledToken { token, endpoint, scheduled_no, popped_ms: 0 };
            let delay = delay.map(Duration::from_secs);
            let nack = PulledVerdict::Nack { delay, error: None };
            settle_of(&options, token, nack, Duration::from_secs(1)).verdict
        };
        assert!(matches!(verdict(1, None), DeliveryVerdict::Retry(wait) if wait.as_secs() >= 8));
        assert_eq!(verdict(1, Some(60)), DeliveryVerdict::Retry(Duration::from_secs(60)));
        assert_eq!(verdict(2, None), DeliveryVerdict::Failed);
        assert_eq!(verdict(0, None), DeliveryVerdict::Failed);
    }
}
