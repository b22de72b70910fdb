//! `/api/v1/event-type…`: event types, shared by all applications.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::EventTypeName;
use wakeline_hook::HookError;
use wakeline_store::hook::{Created, EventType, PageOrder, UpdateOutcome};

use super::key_reused;
use crate::error::ApiError;
use crate::input::{Body, Params, Parted, Repeatable};
use crate::state::AppState;
use crate::wire::hook::event_type::{EventTypeIn, EventTypeOut, EventTypePatch};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List event types by name.
#[utoipa::path(
    get, path = "/api/v1/event-type", tag = "webhooks",
    params(
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("order" = Option<String>, Query, description = "ascending or descending"),
        ("include_archived" = Option<bool>, Query, description = "Also those out of use (false)"),
        ("with_content" = Option<bool>, Query, description = "With their schemas (false)"),
    ),
    responses(
        (status = 200, description = "A page", body = List<EventTypeOut>),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    params: Params,
) -> Result<Json<List<EventTypeOut>>, ApiError> {
    let paging = Paging::read(&params, PageOrder::Ascending, |text| EventTypeName::new(text).ok())?;
    let archived = params.flag("include_archived")?;
    let with_content = params.flag("with_content")?;
    let (request, given) = paging.split();
    let page = state.hook().store().event_types(request, archived).await?;
    let key = |found: &EventType| found.name.to_string();
    let show = |found| EventTypeOut::new(found, with_content);
    List::new(page, given.as_deref(), key, show).map(Json)
}

/// Make an event type.
#[utoipa::path(
    post, path = "/api/v1/event-type", tag = "webhooks", request_body = EventTypeIn,
    params(
        ("idempotency-key" = Option<String>, Header, description = "Makes repeating it harmless"),
    ),
    responses(
        (status = 201, description = "Made", body = EventTypeOut),
        (status = 409, description = "It is there, or the key was used", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    Repeatable(key): Repeatable,
    body: Body,
) -> Result<Response, ApiError> {
    let new = body.parse::<EventTypeIn>()?.into_new()?;
    match state.hook().create_event_type(new, key).await? {
        Created::New(made) | Created::Repeated(made) => {
            Ok((StatusCode::CREATED, Json(EventTypeOut::new(made, true)?)).into_response())
        }
        Created::Taken(found) => {
            Err(ApiError::conflict(format!("the event type {} exists", found.name)))
        }
        Created::KeyReused | Created::NoApplication => Err(key_reused()),
    }
}

/// One event type.
#[utoipa::path(
    get, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    params(("event_type_name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "It", body = EventTypeOut),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<Json<EventTypeOut>, ApiError> {
    let found = find(&state, &name(&named)?).await?;
    EventTypeOut::new(found, true).map(Json)
}

/// Make or replace an event type.
#[utoipa::path(
    put, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    request_body = EventTypePatch,
    params(("event_type_name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "Replaced", body = EventTypeOut),
        (status = 201, description = "Made", body = EventTypeOut),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let name = name(&named)?;
    let new = body.parse::<EventTypePatch>()?.into_new(name.clone())?;
    let there = state.hook().store().event_type(&name).await?.is_some();
    let put = state.hook().put_event_type(new).await?;
    let status = if there { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(EventTypeOut::new(put, true)?)).into_response())
}

/// Change some of an event type.
#[utoipa::path(
    patch, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    request_body = EventTypePatch,
    params(("event_type_name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "Changed", body = EventTypeOut),
        (status = 404, description = "There is none", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<Json<EventTypeOut>, ApiError> {
    let (name, body) = (name(&named)?, body.parse::<EventTypePatch>()?);
    let changed = state.hook().change_event_type(&name, |now| body.clone().over(now)).await?;
    EventTypeOut::new(found(&name, changed)?, true).map(Json)
}

/// Put an event type out of use, or remove it for good.
#[utoipa::path(
    delete, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    params(
        ("event_type_name" = String, Path, description = "Its name"),
        ("expunge" = Option<bool>, Query, description = "Remove it for good (false)"),
    ),
    responses(
        (status = 204, description = "Done"),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    params: Params,
) -> Result<StatusCode, ApiError> {
    let name = name(&named)?;
    if params.flag("expunge")? {
        return match state.hook().delete_event_type(&name).await? {
            true => Ok(StatusCode::NO_CONTENT),
            false => Err(missing(&name)),
        };
    }
    let archive = |now| Ok::<_, ApiError>(EventType { archived: true, ..now });
    found(&name, state.hook().change_event_type(&name, archive).await?)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn find(state: &AppState, name: &EventTypeName) -> Result<EventType, ApiError> {
    state.hook().store().event_type(name).await?.ok_or_else(|| missing(name))
}

fn name(text: &str) -> Result<EventTypeName, ApiError> {
    EventTypeName::new(text)
        .map_err(|error| ApiError::invalid_in("path", "event_type_name", error.to_string()))
}

fn found(name: &EventTypeName, outcome: UpdateOutcome<EventType>) -> Result<EventType, ApiError> {
    match outcome {
        UpdateOutcome::Updated(event_type) => Ok(event_type),
        UpdateOutcome::Missing => Err(missing(name)),
        UpdateOutcome::Taken | UpdateOutcome::Stale => Err(ApiError::from(HookError::Contended)),
    }
}

fn missing(name: &EventTypeName) -> ApiError {
    ApiError::not_found(format!("there is no event type {name}"))
}
