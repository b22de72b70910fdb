//! `/api/v1/event-type…`: event types, which all applications share.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::EventTypeName;
use wakeline_hook::HookError;
use wakeline_store::hook::{Created, EventType, PageOrder, UpdateOutcome};

use super::key_reused;
use crate::error::ApiError;
use crate::input::{IdempotencyHeader, JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::event_type::{EventTypeIn, EventTypeOut, EventTypePatch};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List event types by name.
#[utoipa::path(
    get, path = "/api/v1/event-type", tag = "webhooks",
    params(
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("order" = Option<String>, Query, description = "`ascending` or `descending`"),
        ("include_archived" = Option<bool>, Query,
            description = "Include archived event types (default false)"),
        ("with_content" = Option<bool>, Query, description = "Include the schemas (default false)"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<EventTypeOut>),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    params: QueryParams,
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

/// Create an event type.
#[utoipa::path(
    post, path = "/api/v1/event-type", tag = "webhooks", request_body = EventTypeIn,
    params(
        ("idempotency-key" = Option<String>, Header,
            description = "Makes the request safe to retry"),
    ),
    responses(
        (status = 201, description = "Created", body = EventTypeOut),
        (status = 409, description = "The event type exists, or the idempotency key was used for \
            another request",
            body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    IdempotencyHeader(key): IdempotencyHeader,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let new = body.parse::<EventTypeIn>()?.into_new()?;
    match state.hook().create_event_type(new, key).await? {
        Created::New(made) | Created::Repeated(made) => {
            Ok((StatusCode::CREATED, Json(EventTypeOut::new(made, true)?)).into_response())
        }
        Created::Taken(found) => {
            Err(ApiError::conflict(format!("the event type {} already exists", found.name)))
        }
        Created::KeyReused | Created::NoApplication => Err(key_reused()),
    }
}

/// Get an event type.
#[utoipa::path(
    get, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    params(("event_type_name" = String, Path, description = "The name of the event type")),
    responses(
        (status = 200, description = "The event type", body = EventTypeOut),
        (status = 404, description = "There is no such event type", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<Json<EventTypeOut>, ApiError> {
    let found = find(&state, &name(&named)?).await?;
    EventTypeOut::new(found, true).map(Json)
}

/// Create or replace an event type.
#[utoipa::path(
    put, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    request_body = EventTypePatch,
    params(("event_type_name" = String, Path, description = "The name of the event type")),
    responses(
        (status = 200, description = "Replaced", body = EventTypeOut),
        (status = 201, description = "Created", body = EventTypeOut),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = name(&named)?;
    let new = body.parse::<EventTypePatch>()?.into_new(name.clone())?;
    let existed = state.hook().store().event_type(&name).await?.is_some();
    let put = state.hook().put_event_type(new).await?;
    let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(EventTypeOut::new(put, true)?)).into_response())
}

/// Change the given fields of an event type.
#[utoipa::path(
    patch, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    request_body = EventTypePatch,
    params(("event_type_name" = String, Path, description = "The name of the event type")),
    responses(
        (status = 200, description = "Updated", body = EventTypeOut),
        (status = 404, description = "There is no such event type", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<Json<EventTypeOut>, ApiError> {
    let (name, body) = (name(&named)?, body.parse::<EventTypePatch>()?);
    let changed = state.hook().change_event_type(&name, |now| body.clone().apply_to(now)).await?;
    EventTypeOut::new(found(&name, changed)?, true).map(Json)
}

/// Archive an event type, or delete it permanently.
#[utoipa::path(
    delete, path = "/api/v1/event-type/{event_type_name}", tag = "webhooks",
    params(
        ("event_type_name" = String, Path, description = "The name of the event type"),
        ("expunge" = Option<bool>, Query,
            description = "Delete permanently instead of archiving (default false)"),
    ),
    responses(
        (status = 204, description = "Archived or deleted"),
        (status = 404, description = "There is no such event type", body = HookProblem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    params: QueryParams,
) -> Result<StatusCode, ApiError> {
    let name = name(&named)?;
    if params.flag("expunge")? {
        return if state.hook().delete_event_type(&name).await? {
            Ok(StatusCode::NO_CONTENT)
        } else {
            Err(missing(&name))
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
