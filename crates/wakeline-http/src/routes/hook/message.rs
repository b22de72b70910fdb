//! `/api/v1/app/{app_id}/msg…`: messages.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, EventTypeName, Verb};
use wakeline_hook::Emit;
use wakeline_store::hook::{
    EmitOutcome, Endpoint, MessageFilter, PageOrder, PageRequest, StoredMessage,
};

use super::{app_ref, channel, endpoint_ref, event_types, find_app_id, key_reused, message_key};
use super::{message_ref, no_application, no_endpoint, no_message};
use crate::access::permit::Permit;
use crate::error::ApiError;
use crate::input::{Body, Params, Parted, Repeatable};
use crate::state::AppState;
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::message::{
    CHANNELS_MAX, Content, ExampleIn, MessageIn, MessageOut, PrecheckIn, PrecheckOut,
};
use crate::wire::hook::{HookInvalid, HookProblem, channels, type_name};

/// Endpoints that one store call looks at for a precheck.
const PRECHECK_PAGE: u32 = 250;

/// Send a message to every endpoint that wants it.
///
/// Answers when the message and its deliveries are durable.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg", tag = "webhooks", request_body = MessageIn<'_>,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("with_content" = Option<bool>, Query, description = "Answer with the payload (true)"),
        ("idempotency-key" = Option<String>, Header, description = "Makes repeating it harmless"),
    ),
    responses(
        (status = 202, description = "It will be delivered", body = MessageOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 409, description = "eventId is taken, or key was used", body = HookProblem),
        (status = 413, description = "The body is too large", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    params: Params,
    (permit, Repeatable(key), body): (Permit, Repeatable, Body),
) -> Result<Response, ApiError> {
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
        idempotency_key: key,
    };
    let stored = stored(&application, state.hook().emit(emit).await?)?;
    let stored = StoredMessage { payload: Some(payload), ..stored };
    let answer = MessageOut::new(stored, Content::of(with_content))?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// The message that was stored, or why none was.
fn stored(application: &ApplicationRef, outcome: EmitOutcome) -> Result<StoredMessage, ApiError> {
    match outcome {
        EmitOutcome::Stored(message, _) | EmitOutcome::Repeated(message) => Ok(message),
        EmitOutcome::Taken(found) => {
            Err(ApiError::conflict(format!("the message {} has this eventId", found.id)))
        }
        EmitOutcome::KeyReused => Err(key_reused()),
        EmitOutcome::NoApplication => Err(no_application(application)),
        EmitOutcome::Refused(reason) => Err(ApiError::invalid_field("payload", reason)),
    }
}

/// List an application's messages, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("channel" = Option<String>, Query, description = "Only with this channel"),
        ("event_types" = Option<String>, Query, description = "Only of these types: a,b"),
        ("before" = Option<String>, Query, description = "Only older than"),
        ("after" = Option<String>, Query, description = "Only younger than"),
        ("with_content" = Option<bool>, Query, description = "With payloads (true)"),
    ),
    responses(
        (status = 200, description = "A page", body = List<MessageOut>),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    params: Params,
) -> Result<Json<List<MessageOut>>, ApiError> {
    let (_, application) = find_app_id(&state, &named).await?;
    let filter = filter(&params)?;
    let content = Content::of(filter.with_content);
    let paging = Paging::read(&params, PageOrder::Descending, message_key)?;
    let (request, given) = paging.split();
    let page = state.hook().store().messages(application, filter, request).await?;
    let key = |message: &StoredMessage| message.id.to_string();
    List::new(page, given.as_deref(), key, |found| MessageOut::new(found, content)).map(Json)
}

/// The filter of a list of messages.
pub(crate) fn filter(params: &Params) -> Result<MessageFilter, ApiError> {
    Ok(MessageFilter {
        channel: channel(params)?,
        event_types: event_types(params)?,
        before: params.moment("before")?,
        after: params.moment("after")?,
        endpoint: None,
        with_content: params.flag_or("with_content", true)?,
    })
}

/// One message.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("with_content" = Option<bool>, Query, description = "With its payload (true)"),
    ),
    responses(
        (status = 200, description = "It", body = MessageOut),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Json<MessageOut>, ApiError> {
    let (application, named) = (app_ref(&app)?, message_ref(&named)?);
    let with_content = params.flag_or("with_content", true)?;
    let found = state.hook().store().message(&application, &named, with_content).await?;
    let found = found.ok_or_else(|| no_message(&named))?;
    MessageOut::new(found, Content::of(with_content)).map(Json)
}

/// Remove a message's payload, as if it had expired.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/msg/{msg_id}/content", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "There is no such message", body = HookProblem),
    )
)]
pub(crate) async fn expunge(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (application, named) = (app_ref(&app)?, message_ref(&named)?);
    match state.hook().store().expunge_payload(&application, &named).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_message(&named)),
    }
}

/// Whether any endpoint would get a message of a type.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/precheck/active", tag = "webhooks",
    request_body = PrecheckIn,
    params(("app_id" = String, Path, description = "The application's id or your own")),
    responses(
        (status = 200, description = "Whether one would", body = PrecheckOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn precheck(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<Json<PrecheckOut>, ApiError> {
    let application = app_ref(&named)?;
    let body: PrecheckIn = body.parse()?;
    let kind = type_name("eventType", &body.event_type)?;
    let asked = channels(body.channels.unwrap_or_default(), CHANNELS_MAX)?;
    let wants = |endpoint: &Endpoint| {
        endpoint.disabled.is_none()
            && wants_type(endpoint, &kind)
            && (endpoint.channels.is_empty()
                || endpoint.channels.iter().any(|channel| asked.contains(channel)))
    };
    let mut after = None;
    loop {
        let order = PageOrder::Ascending;
        let request = PageRequest { limit: PRECHECK_PAGE, after, order, backwards: false };
        let page = state.hook().store().endpoints(&application, request).await?;
        let page = page.ok_or_else(|| no_application(&application))?;
        if page.items.iter().any(wants) {
            return Ok(Json(PrecheckOut { active: true }));
        }
        match page.items.last() {
            Some(last) if !page.done => after = Some(last.id),
            _ => return Ok(Json(PrecheckOut { active: false })),
        }
    }
}

fn wants_type(endpoint: &Endpoint, kind: &EventTypeName) -> bool {
    endpoint.event_types.is_empty()
        || endpoint.event_types.iter().any(|pattern| pattern.matches(kind))
}

/// Send an example of an event type to one endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example", tag = "webhooks",
    request_body = ExampleIn<'_>,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 202, description = "It will be delivered", body = MessageOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn send_example(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let example = body.parse::<ExampleIn<'_>>()?.into_example(&body.0)?;
    let outcome = state.hook().send_example(&application, &named, example).await?;
    let outcome = outcome.ok_or_else(|| no_endpoint(&named))?;
    let stored = stored(&application, outcome)?;
    let id = wakeline_core::MessageRef::Id(stored.id);
    let whole = state.hook().store().message(&application, &id, true).await;
    let whole = whole.map_err(|error| ApiError::from(error).after_write())?;
    let answer = MessageOut::new(whole.unwrap_or(stored), Content::Asked)?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}
