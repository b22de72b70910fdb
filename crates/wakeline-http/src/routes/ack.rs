//! `POST /api/v1/ack`, `/api/v1/ack/batch` and `/api/v1/lease/{leaseId}/extend`: settling messages
//! and extending leases.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use wakeline_core::LeaseId;
use wakeline_store::SettleOutcome;

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams};
use crate::state::AppState;
use crate::wire::ack::{
    AckBatchBody, AckBody, AckResult, ExtendAnswer, ExtendBody, RequiredLeases, Settlement, refusal,
};

/// Settle one message.
#[utoipa::path(
    post, path = "/api/v1/ack", tag = "queue", request_body = AckBody,
    responses(
        (status = 200, description = "Recorded; an array with one result", body = Vec<AckResult>),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "The lease does not cover such a message", body = Problem),
        (status = 409, description = "The lease is no longer held, or no lease was given",
            body = Problem),
    )
)]
pub(crate) async fn ack(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<Json<Vec<AckResult>>, ApiError> {
    let ack: AckBody = body.parse()?;
    let outcomes =
        settle(&state, &permit, vec![ack.check(None, &RequiredLeases::default())?]).await?;
    let outcome = &outcomes[0];
    let why = refusal(outcome).unwrap_or_default();
    match outcome {
        SettleOutcome::Settled { .. } => {
            let id = ack.transaction_id.unwrap_or_default();
            Ok(Json(vec![AckResult::new(0, &id, outcome)]))
        }
        SettleOutcome::NotFound => Err(ApiError::not_found(why)),
        SettleOutcome::StaleLease | SettleOutcome::LeaseRequired => Err(ApiError::stale_lease(why)),
    }
}

/// Settle several messages in any order. Each message has its own result.
#[utoipa::path(
    post, path = "/api/v1/ack/batch", tag = "queue", request_body = AckBatchBody,
    responses(
        (status = 200, description = "One result per message, in the order of the request",
            body = Vec<AckResult>),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn ack_batch(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<Json<Vec<AckResult>>, ApiError> {
    let batch: AckBatchBody = body.parse()?;
    let acks = batch.acknowledgments;
    let acks = acks.ok_or_else(|| ApiError::invalid("acknowledgments array is required"))?;
    let most = state.settings().batch_len_max as usize;
    if acks.len() > most {
        let len = acks.len();
        return Err(ApiError::invalid(format!(
            "acknowledgments has {len} entries, more than the limit of {most}"
        )));
    }
    let group = batch.consumer_group.as_deref();
    let mut settlements = Vec::with_capacity(acks.len());
    for (index, ack) in acks.iter().enumerate() {
        let at = format!("acknowledgments[{index}]");
        settlements
            .push(ack.check(group, &RequiredLeases::default()).map_err(|error| error.at(&at))?);
    }
    let outcomes = settle(&state, &permit, settlements).await?;
    let results = acks.iter().zip(&outcomes).enumerate();
    let results = results.map(|(index, (ack, outcome))| {
        AckResult::new(index, ack.transaction_id.as_deref().unwrap_or_default(), outcome)
    });
    Ok(Json(results.collect()))
}

/// Settles the items that need the store, and returns all outcomes in the order of the request.
async fn settle(
    state: &AppState,
    permit: &Permit,
    mut settlements: Vec<Settlement>,
) -> Result<Vec<SettleOutcome>, ApiError> {
    permit.need_settle(state, Settlement::items(&settlements)).await?;
    Settlement::name_groups(state, &mut settlements).await?;
    let mut items = Vec::with_capacity(settlements.len());
    let mut known = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        known.push(match settlement {
            Settlement::Known(outcome) => Some(outcome),
            Settlement::Command(item, _) => {
                items.push(item);
                None
            }
        });
    }
    let settled = if items.is_empty() { Vec::new() } else { state.queue().settle(items).await? };
    let mut settled = settled.into_iter();
    let outcome = |known: Option<SettleOutcome>| {
        known.unwrap_or_else(|| settled.next().expect("the store returns one outcome per item"))
    };
    Ok(known.into_iter().map(outcome).collect())
}

/// The maximum extension of a lease: one week.
const EXTEND_SECS_MAX: u32 = 7 * 24 * 3600;

/// Extend a lease. An extension never shortens it.
#[utoipa::path(
    post, path = "/api/v1/lease/{leaseId}/extend", tag = "queue",
    params(("leaseId" = String, Path, description = "The lease")),
    request_body(content = ExtendBody, description = "Optional"),
    responses(
        (status = 200, description = "The lease was extended in at least one partition",
            body = ExtendAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 409, description = "The lease is no longer held", body = Problem),
    )
)]
pub(crate) async fn extend(
    State(state): State<AppState>,
    PathParams(lease): PathParams<String>,
    body: JsonBody,
) -> Result<Json<ExtendAnswer>, ApiError> {
    let seconds = body.parse_or_default::<ExtendBody>()?.seconds.unwrap_or(60);
    if !(1..=EXTEND_SECS_MAX).contains(&seconds) {
        return Err(ApiError::invalid(format!(
            "seconds must be from 1 to {EXTEND_SECS_MAX}, not {seconds}"
        )));
    }
    let lost = || ApiError::stale_lease("Invalid or expired lease");
    let lease: LeaseId = lease.parse().map_err(|_| lost())?;
    let span = Duration::from_secs(seconds.into());
    let extension = state.queue().extend(lease.clone(), span).await?;
    if extension.held.is_empty() {
        return Err(lost());
    }
    Ok(Json(ExtendAnswer::new(&lease, &extension)))
}
