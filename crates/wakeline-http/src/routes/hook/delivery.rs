//! What Wakeline adds for one message: its deliveries with their states, resending, cancelling.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{EndpointId, EndpointRef};
use wakeline_store::hook::{Delivery, PageOrder, ResendOutcome};

use super::{app_ref, endpoint_ref, find_endpoint, find_message, message_ref, no_message};
use crate::error::ApiError;
use crate::input::{Params, Parted};
use crate::state::AppState;
use crate::wire::hook::attempt::{CancelOut, DeliveryStateOut};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List the deliveries of a message, one per endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/delivery", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
    ),
    responses(
        (status = 200, description = "A page", body = List<DeliveryStateOut>),
        (status = 404, description = "There is no such message", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Json<List<DeliveryStateOut>>, ApiError> {
    let message = find_message(&state, &app_ref(&app)?, &message_ref(&named)?).await?;
    let key = |text: &str| text.parse::<EndpointId>().ok();
    let (request, given) = Paging::read(&params, PageOrder::Ascending, key)?.split();
    let page = state.hook().store().deliveries(message.application, message.id, request).await?;
    let key = |delivery: &Delivery| delivery.endpoint.to_string();
    List::new(page, given.as_deref(), key, |delivery| Ok(delivery.into())).map(Json)
}

/// Make one more attempt to deliver a message to an endpoint, now.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend",
    tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 202, description = "It is due", body = Object),
        (status = 404, description = "There is no such delivery", body = HookProblem),
        (status = 409, description = "It cannot be sent; words say why", body = HookProblem),
    )
)]
pub(crate) async fn resend(
    State(state): State<AppState>,
    Parted((app, message, endpoint)): Parted<(String, String, String)>,
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

/// Cancel what waits of a message. What is under way ends in the log, and nothing follows it.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/cancel", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
    ),
    responses(
        (status = 200, description = "How many were", body = CancelOut),
        (status = 404, description = "There is no such message", body = HookProblem),
    )
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
) -> Result<Json<CancelOut>, ApiError> {
    cancel_for(&state, (&app, &named), None).await
}

/// Cancel what waits of a message for one endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/cancel",
    tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "How many were", body = CancelOut),
        (status = 404, description = "There is no such message or endpoint", body = HookProblem),
    )
)]
pub(crate) async fn cancel_one(
    State(state): State<AppState>,
    Parted((app, named, endpoint)): Parted<(String, String, String)>,
) -> Result<Json<CancelOut>, ApiError> {
    cancel_for(&state, (&app, &named), Some(endpoint_ref(&endpoint)?)).await
}

async fn cancel_for(
    state: &AppState,
    (app, named): (&str, &str),
    endpoint: Option<EndpointRef>,
) -> Result<Json<CancelOut>, ApiError> {
    let (application, named) = (app_ref(app)?, message_ref(named)?);
    let message = find_message(state, &application, &named).await?;
    if let Some(endpoint) = &endpoint {
        find_endpoint(state, &application, endpoint).await?;
    }
    let cancelled = state.hook().cancel(&application, &named, endpoint.as_ref()).await?;
    let cancelled = cancelled.ok_or_else(|| no_message(&named))?;
    Ok(Json(CancelOut::new(message.id, cancelled)))
}
