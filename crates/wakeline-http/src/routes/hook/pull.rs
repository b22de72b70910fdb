//! `…/endpoint/{endpoint_id}/pull…`: pull endpoints, whose deliveries the receiver fetches like
//! messages of a queue.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_hook::{PullOutcome, PullRequest, PulledSigner, PulledToken, PulledVerdict};

use super::{app_ref, endpoint_ref, no_endpoint};
use crate::error::ApiError;
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::pull::{
    PullAckIn, PullExtendIn, PullNackIn, PullSettledOut, PulledMessage, PulledOut,
};
use crate::wire::hook::{HookInvalid, HookProblem};

/// The maximum number of messages of one pull.
const BATCH_MAX: u64 = 1000;

/// The maximum lease of pulled messages.
const LEASE_SECS_MAX: u64 = 12 * 60 * 60;

/// Fetch messages of a pull endpoint.
///
/// With `wait=true` the request waits until a message is available. A message whose
/// token is not settled before its lease ends is delivered again.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
        ("batch" = Option<u32>, Query,
            description = "Maximum number of messages, up to 1000 (default 1)"),
        ("wait" = Option<bool>, Query,
            description = "Wait until a message is available (default false)"),
        ("timeout" = Option<u64>, Query,
            description = "Maximum wait in milliseconds (default 30000)"),
        ("lease" = Option<u64>, Query,
            description = "Length of the lease in seconds (default: the request timeout plus 10)"),
        ("signed" = Option<bool>, Query,
            description = "Include signed webhook headers (default false)"),
    ),
    responses(
        (status = 200, description = "The claimed messages", body = PulledOut),
        (status = 204, description = "No message is available"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
        (status = 503, description = "Too many clients are waiting, or the store or the \
            encryption key is unavailable",
            body = HookProblem),
    )
)]
pub(crate) async fn pull(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let signed = params.flag("signed")?;
    let pop = pop(&state, &params)?;
    let waits = pop.wait.is_some();
    // The signer is read before the claim, so that messages that cannot be signed are not leased.
    let signer = if signed { Some(signer(&state, &application, &named).await?) } else { None };
    let got = match state.hook().pop(&application, &named, pop).await? {
        PullOutcome::Claimed(got) => got,
        PullOutcome::Empty => return Ok(StatusCode::NO_CONTENT.into_response()),
        PullOutcome::Drained => {
            let close = (header::CONNECTION, HeaderValue::from_static("close"));
            return Ok((StatusCode::NO_CONTENT, [close]).into_response());
        }
        PullOutcome::Missing => return Err(no_endpoint(&named)),
    };
    let signer = match signer {
        // The keys may have been replaced during the wait.
        Some(old) if waits => Some(self::signer(&state, &application, &named).await.unwrap_or(old)),
        signer => signer,
    };
    let show = |(token, item)| PulledMessage::new(token, &item, signer.as_ref());
    let messages = got.into_iter().map(show).collect::<Result<_, _>>()?;
    Ok(Json(PulledOut { messages }).into_response())
}

async fn signer(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<PulledSigner, ApiError> {
    let signer = state.hook().pulled_signer(application, named).await?;
    signer.ok_or_else(|| no_endpoint(named))
}

fn pop(state: &AppState, params: &QueryParams) -> Result<PullRequest, ApiError> {
    let settings = state.settings();
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let timeout = millis(settings.default_timeout);
    let timeout = params.number("timeout", timeout, 0..=millis(settings.wait_max))?;
    let lease = match params.text("lease") {
        Some(_) => Some(params.number("lease", 0, 1..=LEASE_SECS_MAX)?),
        None => None,
    };
    Ok(PullRequest {
        max: params.number("batch", 1, 1..=BATCH_MAX)? as u32,
        lease: lease.map(Duration::from_secs),
        wait: params.flag("wait")?.then(|| Duration::from_millis(timeout)),
    })
}

/// Acknowledge pulled messages.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull/ack", tag = "webhooks",
    request_body = PullAckIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The result of each operation", body = PullSettledOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn ack(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<PullSettledOut>, ApiError> {
    let settles = body.parse::<PullAckIn>()?.settles()?;
    settle(&state, &app, &named, settles).await
}

/// Reject pulled messages, which are delivered again at the times of the endpoint's retry schedule.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull/nack", tag = "webhooks",
    request_body = PullNackIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The result of each operation", body = PullSettledOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn nack(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<PullSettledOut>, ApiError> {
    let settles = body.parse::<PullNackIn>()?.settles()?;
    settle(&state, &app, &named, settles).await
}

async fn settle(
    state: &AppState,
    app: &str,
    named: &str,
    settles: Vec<(PulledToken, PulledVerdict)>,
) -> Result<Json<PullSettledOut>, ApiError> {
    check_len(state, settles.len())?;
    let named = endpoint_ref(named)?;
    let settled = state.hook().settle_pulled(&app_ref(app)?, &named, settles).await?;
    let states = settled.ok_or_else(|| no_endpoint(&named))?;
    Ok(Json(PullSettledOut::of_states(states)))
}

/// Extend the leases of pulled messages.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull/extend", tag = "webhooks",
    request_body = PullExtendIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The result for each token", body = PullSettledOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn extend(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<PullSettledOut>, ApiError> {
    let body: PullExtendIn = body.parse()?;
    if !(1..=LEASE_SECS_MAX).contains(&body.seconds) {
        let message = format!("seconds must be from 1 to {LEASE_SECS_MAX}, not {}", body.seconds);
        return Err(ApiError::invalid_field("seconds", message));
    }
    let tokens = body.tokens()?;
    check_len(&state, tokens.len())?;
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let span = Duration::from_secs(body.seconds);
    let extended = state.hook().extend_pulled(&application, &named, tokens, span).await?;
    let extended = extended.ok_or_else(|| no_endpoint(&named))?;
    Ok(Json(PullSettledOut::of_extensions(extended)))
}

fn check_len(state: &AppState, len: usize) -> Result<(), ApiError> {
    let most = state.settings().batch_len_max as usize;
    if len > most {
        let message = format!("tokens has {len} entries, more than the limit of {most}");
        return Err(ApiError::invalid_field("tokens", message));
    }
    Ok(())
}
