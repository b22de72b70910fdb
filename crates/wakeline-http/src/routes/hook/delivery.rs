//! Additional routes of Wakeline for one message: its deliveries, resending and cancelling.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{EndpointId, EndpointRef};
use wakeline_store::hook::{Delivery, PageOrder, ResendOutcome};

use super::{app_ref, endpoint_ref, find_endpoint, find_message, message_ref, no_message};
use crate::error::ApiError;
use crate::input::{PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::attempt::{CancelOut, DeliveryStateOut};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List the deliveries of a message, one per endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/delivery", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<DeliveryStateOut>),
        (status = 404, description = "There is no such message", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
) -> Result<Json<List<DeliveryStateOut>>, ApiError> {
    let message = find_message(&state, &app_ref(&app)?, &message_ref(&named)?).await?;
    let key = |text: &str| text.parse::<EndpointId>().ok();
    let (request, given) = Paging::read(&params, PageOrder::Ascending, key)?.split();
    let page = state.hook().store().deliveries(message.application, message.id, request).await?;
    let key = |delivery: &Delivery| delivery.endpoint.to_string();
    List::new(page, given.as_deref(), key, |delivery| Ok(delivery.into())).map(Json)
}

/// Make one more attempt to deliver a message to an endpoint immediately.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend",
    tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 202, description = "The message is due now", body = Object),
        (status = 404, description = "There is no such delivery", body = HookProblem),
        (status = 409, description = "The message cannot be sent now; `detail` says why",
            body = HookProblem),
    )
)]
pub(crate) async fn resend(
    State(state): State<AppState>,
    PathParams((app, message, endpoint)): PathParams<(String, String, String)>,
) -> Result<Response, ApiError> {
    let (application, message) = (app_ref(&app)?, message_ref(&message)?);
    let endpoint = endpoint_ref(&endpoint)?;
    let why = match state.hook().resend(&application, &message, &endpoint).await? {
        ResendOutcome::Due => {
            return Ok((StatusCode::ACCEPTED, Json(serde_json::json!({}))).into_response());
        }
        ResendOutcome::Missing => {
            let message = format!("message {message} has no delivery to endpoint {endpoint}");
            return Err(ApiError::not_found(message));
        }
        ResendOutcome::InFlight => "an attempt is in progress: try again when it has ended",
        ResendOutcome::Expired => "the payload of the message was deleted or has expired",
        ResendOutcome::Disabled => "the endpoint is disabled: enable it first",
    };
    Err(ApiError::conflict(why))
}

/// Cancel the pending deliveries of a message.
///
/// Attempts in progress are completed and logged, but not retried.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/cancel", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
    ),
    responses(
        (status = 200, description = "The number of deliveries that were cancelled",
            body = CancelOut),
        (status = 404, description = "There is no such message", body = HookProblem),
    )
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
) -> Result<Json<CancelOut>, ApiError> {
    cancel_for(&state, &app, &named, None).await
}

/// Cancel the pending delivery of a message to one endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/cancel",
    tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The number of deliveries that were cancelled",
            body = CancelOut),
        (status = 404, description = "There is no such message or endpoint", body = HookProblem),
    )
)]
pub(crate) async fn cancel_one(
    State(state): State<AppState>,
    PathParams((app, named, endpoint)): PathParams<(String, String, String)>,
) -> Result<Json<CancelOut>, ApiError> {
    cancel_for(&state, &app, &named, Some(endpoint_ref(&endpoint)?)).await
}

async fn cancel_for(
    state: &AppState,
    app: &str,
    message: &str,
    endpoint: Option<EndpointRef>,
) -> Result<Json<CancelOut>, ApiError> {
    let (application, named) = (app_ref(app)?, message_ref(message)?);
    let message = find_message(state, &application, &named).await?;
    if let Some(endpoint) = &endpoint {
        find_endpoint(state, &application, endpoint).await?;
    }
    let cancelled = state.hook().cancel(&application, &named, endpoint.as_ref()).await?;
    let cancelled = cancelled.ok_or_else(|| no_message(&named))?;
    Ok(Json(CancelOut::new(message.id, cancelled)))
}
