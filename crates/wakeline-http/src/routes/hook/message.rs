//! `/api/v1/app/{app_id}/msg…`: the messages of applications.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, EventTypeName, Verb};
use wakeline_hook::Emit;
use wakeline_store::hook::{
    EmitOutcome, Endpoint, HookMessageFilter, PageOrder, PageRequest, StoredMessage,
};

use super::{
    CreateRequest, app_ref, channel, endpoint_ref, event_types, find_app_id, key_reused,
    message_key,
};
use super::{message_ref, no_application, no_endpoint, no_message};
use crate::error::ApiError;
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::message::{
    CHANNELS_MAX, ExampleIn, MessageIn, MessageOut, PayloadContent, PrecheckIn, PrecheckOut,
};
use crate::wire::hook::{HookInvalid, HookProblem, channels, type_name};

/// The number of endpoints that one store call of a precheck reads.
const PRECHECK_PAGE: u32 = 250;

/// Send a message to every endpoint whose filters match it.
///
/// The response is sent when the message and its deliveries are durable.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg", tag = "webhooks", request_body = MessageIn<'_>,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("with_content" = Option<bool>, Query,
            description = "Include the payload in the response (default true)"),
        ("idempotency-key" = Option<String>, Header,
            description = "Makes the request safe to retry"),
    ),
    responses(
        (status = 202, description = "Accepted for delivery", body = MessageOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 409, description = "The eventId is already in use, or the idempotency key was \
            used for another request",
            body = HookProblem),
        (status = 413, description = "The body is too large", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    request: CreateRequest,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let CreateRequest { permit, idempotency_key, params } = request;
    let application = app_ref(&named)?;
    let with_content = params.flag_or("with_content", true)?;
    let mut message: MessageIn<'_> = body.parse()?;
    message.check()?;
    let own = match &application {
        ApplicationRef::Own(own) => Some(own.clone()),
        ApplicationRef::Id(_) => None,
    };
    let payload = message.payload(&body.0)?;
    let create_application = message.application.take().map(|new| new.into_new(own)).transpose()?;
    if let Some(new) = &create_application {
        permit.need_application(&state, Verb::Push, new.uid.as_ref()).await?;
    }
    let emit = Emit {
        application: application.clone(),
        event_type: type_name("eventType", &message.event_type)?,
        event_id: message.event_id()?,
        retention: Some(message.retention()?),
        channels: channels(message.channels.unwrap_or_default(), CHANNELS_MAX)?,
        create_application,
        payload: payload.clone(),
        idempotency_key,
    };
    let stored = stored(&application, state.hook().emit(emit).await?)?;
    let stored = StoredMessage { payload: Some(payload), ..stored };
    let answer = MessageOut::new(stored, PayloadContent::of(with_content))?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Returns the message that was stored, or the error if none was.
fn stored(application: &ApplicationRef, outcome: EmitOutcome) -> Result<StoredMessage, ApiError> {
    match outcome {
        EmitOutcome::Stored(message, _) | EmitOutcome::Repeated(message) => Ok(message),
        EmitOutcome::Taken(found) => {
            Err(ApiError::conflict(format!("the message {} already has this eventId", found.id)))
        }
        EmitOutcome::KeyReused => Err(key_reused()),
        EmitOutcome::NoApplication => Err(no_application(application)),
        EmitOutcome::Refused(reason) => Err(ApiError::invalid_field("payload", reason)),
    }
}

/// List the messages of an application, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("channel" = Option<String>, Query, description = "Only messages with this channel"),
        ("event_types" = Option<String>, Query,
            description = "Only these event types, separated by commas"),
        ("before" = Option<String>, Query, description = "Only messages created before this time"),
        ("after" = Option<String>, Query, description = "Only messages created after this time"),
        ("with_content" = Option<bool>, Query, description = "Include the payloads (default true)"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<MessageOut>),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    params: QueryParams,
) -> Result<Json<List<MessageOut>>, ApiError> {
    let (_, application) = find_app_id(&state, &named).await?;
    let filter = filter(&params)?;
    let content = PayloadContent::of(filter.with_content);
    let paging = Paging::read(&params, PageOrder::Descending, message_key)?;
    let (request, given) = paging.split();
    let page = state.hook().store().messages(application, filter, request).await?;
    let key = |message: &StoredMessage| message.id.to_string();
    List::new(page, given.as_deref(), key, |found| MessageOut::new(found, content)).map(Json)
}

/// Parses the filter of a list of messages.
pub(crate) fn filter(params: &QueryParams) -> Result<HookMessageFilter, ApiError> {
    Ok(HookMessageFilter {
        channel: channel(params)?,
        event_types: event_types(params)?,
        before: params.timestamp("before")?,
        after: params.timestamp("after")?,
        endpoint: None,
        with_content: params.flag_or("with_content", true)?,
    })
}

/// Get a message.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("with_content" = Option<bool>, Query, description = "Include the payload (default true)"),
    ),
    responses(
        (status = 200, description = "The message", body = MessageOut),
        (status = 404, description = "There is no such message", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
) -> Result<Json<MessageOut>, ApiError> {
    let (application, named) = (app_ref(&app)?, message_ref(&named)?);
    let with_content = params.flag_or("with_content", true)?;
    let found = state.hook().store().message(&application, &named, with_content).await?;
    let found = found.ok_or_else(|| no_message(&named))?;
    MessageOut::new(found, PayloadContent::of(with_content)).map(Json)
}

/// Delete the payload of a message, as if it had expired.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/msg/{msg_id}/content", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
    ),
    responses(
        (status = 204, description = "The payload was deleted"),
        (status = 404, description = "There is no such message", body = HookProblem),
    )
)]
pub(crate) async fn expunge(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (application, named) = (app_ref(&app)?, message_ref(&named)?);
    if state.hook().store().expunge_payload(&application, &named).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_message(&named))
    }
}

/// Check whether any endpoint would receive a message of an event type.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/precheck/active", tag = "webhooks",
    request_body = PrecheckIn,
    params(("app_id" = String, Path, description = "The application's id or uid")),
    responses(
        (status = 200, description = "Whether an endpoint would receive the message",
            body = PrecheckOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn precheck(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<Json<PrecheckOut>, ApiError> {
    let application = app_ref(&named)?;
    let body: PrecheckIn = body.parse()?;
    let kind = type_name("eventType", &body.event_type)?;
    let wanted = channels(body.channels.unwrap_or_default(), CHANNELS_MAX)?;
    let matches = |endpoint: &Endpoint| {
        endpoint.disabled.is_none()
            && matches_type(endpoint, &kind)
            && (endpoint.channels.is_empty()
                || endpoint.channels.iter().any(|channel| wanted.contains(channel)))
    };
    let mut after = None;
    loop {
        let order = PageOrder::Ascending;
        let request = PageRequest { limit: PRECHECK_PAGE, after, order, backwards: false };
        let page = state.hook().store().endpoints(&application, request).await?;
        let page = page.ok_or_else(|| no_application(&application))?;
        if page.items.iter().any(matches) {
            return Ok(Json(PrecheckOut { active: true }));
        }
        match page.items.last() {
            Some(last) if !page.done => after = Some(last.id),
            _ => return Ok(Json(PrecheckOut { active: false })),
        }
    }
}

fn matches_type(endpoint: &Endpoint, kind: &EventTypeName) -> bool {
    endpoint.event_types.is_empty()
        || endpoint.event_types.iter().any(|pattern| pattern.matches(kind))
}

/// Send an example message of an event type to one endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example", tag = "webhooks",
    request_body = ExampleIn<'_>,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 202, description = "Accepted for delivery", body = MessageOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn send_example(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let example = body.parse::<ExampleIn<'_>>()?.into_example(&body.0)?;
    let outcome = state.hook().send_example(&application, &named, example).await?;
    let outcome = outcome.ok_or_else(|| no_endpoint(&named))?;
    let stored = stored(&application, outcome)?;
    let id = wakeline_core::MessageRef::Id(stored.id);
    let read = state.hook().store().message(&application, &id, true).await;
    let read = read.map_err(|error| ApiError::from(error).after_write())?;
    let answer = MessageOut::new(read.unwrap_or(stored), PayloadContent::Included)?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}
