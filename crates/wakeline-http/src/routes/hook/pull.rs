//! `…/endpoint/{endpoint_id}/pull…`: deliveries that their owner fetches, like a queue.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_hook::{Pop, Popped, PulledSettle, PulledSigner, PulledToken};

use super::{app_ref, endpoint_ref, no_endpoint};
use crate::error::ApiError;
use crate::input::{Body, Params, Parted};
use crate::state::AppState;
use crate::wire::hook::pull::{
    PullAckIn, PullExtendIn, PullNackIn, PullSettledOut, PulledMessage, PulledOut,
};
use crate::wire::hook::{HookInvalid, HookProblem};

/// Most messages of one pull.
const BATCH_MAX: u64 = 1000;

/// Longest time that pulled messages can be held.
const LEASE_SECS_MAX: u64 = 12 * 60 * 60;

/// Fetch messages of an endpoint that is pulled from.
///
/// With `wait=true` it is parked until there is something, without polling. Each message has to
/// be settled with its token before its lease ends; else it comes again.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
        ("batch" = Option<u32>, Query, description = "At most so many messages, up to 1000 (1)"),
        ("wait" = Option<bool>, Query, description = "Wait until there is something (false)"),
        ("timeout" = Option<u64>, Query, description = "Longest wait in milliseconds (30000)"),
        ("lease" = Option<u64>, Query, description = "Seconds to settle them (timeout + 10)"),
        ("signed" = Option<bool>, Query, description = "With headers to forward (false)"),
    ),
    responses(
        (status = 200, description = "Messages", body = PulledOut),
        (status = 204, description = "Nothing"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
        (status = 503, description = "Too many waiters, no store or no key", body = HookProblem),
    )
)]
pub(crate) async fn pull(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let signed = params.flag("signed")?;
    let pop = pop(&state, &params)?;
    let waits = pop.wait.is_some();
    // Before anything is leased: what cannot be signed is not taken from anybody.
    let signer = match signed {
        true => Some(signer(&state, &application, &named).await?),
        false => None,
    };
    let got = match state.hook().pop(&application, &named, pop).await? {
        Popped::Granted(got) => got,
        Popped::Empty => return Ok(StatusCode::NO_CONTENT.into_response()),
        Popped::Drained => {
            let close = (header::CONNECTION, HeaderValue::from_static("close"));
            return Ok((StatusCode::NO_CONTENT, [close]).into_response());
        }
        Popped::Missing => return Err(no_endpoint(&named)),
    };
    let signer = match signer {
        // Its keys may have been replaced meanwhile.
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

fn pop(state: &AppState, params: &Params) -> Result<Pop, ApiError> {
    let settings = state.settings();
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let timeout = millis(settings.default_timeout);
    let timeout = params.number("timeout", timeout, 0..=millis(settings.wait_max))?;
    let lease = match params.text("lease") {
        Some(_) => Some(params.number("lease", 0, 1..=LEASE_SECS_MAX)?),
        None => None,
    };
    Ok(Pop {
        max: params.number("batch", 1, 1..=BATCH_MAX)? as u32,
        lease: lease.map(Duration::from_secs),
        wait: params.flag("wait")?.then(|| Duration::from_millis(timeout)),
    })
}

/// Say that pulled messages were dealt with.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull/ack", tag = "webhooks",
    request_body = PullAckIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "What became of each", body = PullSettledOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn ack(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Json<PullSettledOut>, ApiError> {
    let settles = body.parse::<PullAckIn>()?.settles()?;
    settle(&state, (&app, &named), settles).await
}

/// Give pulled messages back: they come again by the endpoint's schedule.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull/nack", tag = "webhooks",
    request_body = PullNackIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "What became of each", body = PullSettledOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn nack(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Json<PullSettledOut>, ApiError> {
    let settles = body.parse::<PullNackIn>()?.settles()?;
    settle(&state, (&app, &named), settles).await
}

async fn settle(
    state: &AppState,
    (app, named): (&str, &str),
    settles: Vec<(PulledToken, PulledSettle)>,
) -> Result<Json<PullSettledOut>, ApiError> {
    check_len(state, settles.len())?;
    let named = endpoint_ref(named)?;
    let settled = state.hook().settle_pulled(&app_ref(app)?, &named, settles).await?;
    let states = settled.ok_or_else(|| no_endpoint(&named))?;
    Ok(Json(PullSettledOut::of_states(states)))
}

/// Hold on to pulled messages for longer.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/pull/extend", tag = "webhooks",
    request_body = PullExtendIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "Which of them go on", body = PullSettledOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn extend(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
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
