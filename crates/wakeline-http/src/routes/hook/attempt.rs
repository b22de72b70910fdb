//! `/api/v1/app/{app_id}/attempt…`: attempts, and how messages stand with endpoints.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use wakeline_core::{ApplicationId, ApplicationRef, AttemptId, EndpointId, MessageRef};
use wakeline_store::hook::{
    Attempt, AttemptFilter, AttemptOutcome, Delivery, MessageFilter, Page, PageOrder, StoredMessage,
};

use super::no_attempt;
use super::{app_ref, attempt_id, channel, endpoint_ref, event_types, find_app_id, find_endpoint};
use super::{find_message, message::filter as message_filter, message_key, message_ref};
use crate::error::ApiError;
use crate::input::{Params, Parted};
use crate::state::AppState;
use crate::wire::hook::attempt::{
    EndpointMessageOut, MessageAttemptOut, MessageEndpointOut, Standing,
};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::message::{Content, MessageOut};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List the attempts to deliver to an endpoint, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("status" = Option<u8>, Query, description = "Only 0 success or 2 fail"),
        ("status_code_class" = Option<u16>, Query, description = "Only 200, 300, ...; 0: none"),
        ("channel" = Option<String>, Query, description = "Only of messages with this channel"),
        ("event_types" = Option<String>, Query, description = "Only of these types: a,b"),
        ("before" = Option<String>, Query, description = "Only that began before"),
        ("after" = Option<String>, Query, description = "Only that began after"),
        ("with_content" = Option<bool>, Query, description = "With what was answered (true)"),
        ("with_msg" = Option<bool>, Query, description = "With their messages (false)"),
    ),
    responses(
        (status = 200, description = "A page", body = List<MessageAttemptOut>),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn by_endpoint(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Json<List<MessageAttemptOut>>, ApiError> {
    let application = app_ref(&app)?;
    let endpoint = find_endpoint(&state, &application, &endpoint_ref(&named)?).await?;
    let filter = AttemptFilter { endpoint: Some(endpoint.id), ..filter(&params)? };
    list(&state, endpoint.application, filter, &params).await
}

/// List the attempts to deliver a message, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/attempt/msg/{msg_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("endpoint_id" = Option<String>, Query, description = "Only to this endpoint"),
        ("status" = Option<u8>, Query, description = "Only 0 success or 2 fail"),
        ("status_code_class" = Option<u16>, Query, description = "Only 200, 300, ...; 0: none"),
        ("channel" = Option<String>, Query, description = "Only with this channel"),
        ("event_types" = Option<String>, Query, description = "Only of these types: a,b"),
        ("before" = Option<String>, Query, description = "Only that began before"),
        ("after" = Option<String>, Query, description = "Only that began after"),
        ("with_content" = Option<bool>, Query, description = "With what was answered (true)"),
    ),
    responses(
        (status = 200, description = "A page", body = List<MessageAttemptOut>),
        (status = 404, description = "There is no such message", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn by_message(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Json<List<MessageAttemptOut>>, ApiError> {
    let application = app_ref(&app)?;
    let message = find_message(&state, &application, &message_ref(&named)?).await?;
    let endpoint = params.parsed("endpoint_id", endpoint_ref)?;
    let endpoint = match endpoint {
        Some(named) => Some(find_endpoint(&state, &application, &named).await?.id),
        None => None,
    };
    let filter = AttemptFilter { message: Some(message.id), endpoint, ..filter(&params)? };
    list(&state, message.application, filter, &params).await
}

fn filter(params: &Params) -> Result<AttemptFilter, ApiError> {
    let class = params.parsed("status_code_class", |text| match text {
        "0" | "100" | "200" | "300" | "400" | "500" => Ok(text.parse().unwrap_or_default()),
        _ => {
            let message =
                format!("status_code_class must be 0, 100, 200, 300, 400 or 500, not {text:?}");
            Err(ApiError::invalid_param("status_code_class", message))
        }
    })?;
    Ok(AttemptFilter {
        status_class: class,
        channel: channel(params)?,
        event_types: event_types(params)?,
        before: params.moment("before")?,
        after: params.moment("after")?,
        with_content: params.flag_or("with_content", true)?,
        ..AttemptFilter::default()
    })
}

/// The standing that a filter asks for.
fn standing(params: &Params) -> Result<Option<Standing>, ApiError> {
    params.parsed("status", |text| {
        let message = format!("status must be from 0 to 4, not {text:?}");
        Standing::read(text).ok_or_else(|| ApiError::invalid_param("status", message))
    })
}

async fn list(
    state: &AppState,
    application: ApplicationId,
    mut filter: AttemptFilter,
    params: &Params,
) -> Result<Json<List<MessageAttemptOut>>, ApiError> {
    let with_msg = params.flag("with_msg")?;
    let key = |text: &str| text.parse::<AttemptId>().ok();
    let (request, given) = Paging::read(params, PageOrder::Descending, key)?.split();
    let ended = match standing(params)? {
        None => true,
        Some(Standing::Success) => {
            filter.outcome = Some(AttemptOutcome::Succeeded);
            true
        }
        Some(Standing::Fail) => {
            filter.outcome = Some(AttemptOutcome::Failed);
            true
        }
        // Attempts are kept when they have ended.
        Some(Standing::Pending | Standing::Sending | Standing::Canceled) => false,
    };
    let page = match ended {
        true => state.hook().store().attempts(application, filter, request).await?,
        false => Page { items: Vec::new(), done: true },
    };
    let mut messages = match with_msg {
        true => messages_of(state, application, &page.items).await?,
        false => HashMap::new(),
    };
    let show = |attempt: Attempt| {
        // A page may have several attempts of a message.
        let message = messages.get_mut(&attempt.message).cloned();
        let message = message.map(|found| MessageOut::new(found, Content::Left)).transpose()?;
        Ok(MessageAttemptOut::new(attempt, message))
    };
    List::new(page, given.as_deref(), |attempt| attempt.id.to_string(), show).map(Json)
}

async fn messages_of(
    state: &AppState,
    application: ApplicationId,
    attempts: &[Attempt],
) -> Result<HashMap<wakeline_core::HookMessageId, StoredMessage>, ApiError> {
    let mut messages = HashMap::new();
    let application = ApplicationRef::Id(application);
    for attempt in attempts {
        if !messages.contains_key(&attempt.message) {
            let id = MessageRef::Id(attempt.message);
            let found = state.hook().store().message(&application, &id, false).await?;
            messages.extend(found.map(|found| (attempt.message, found)));
        }
    }
    Ok(messages)
}

/// One attempt.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("attempt_id" = String, Path, description = "The attempt's id"),
    ),
    responses(
        (status = 200, description = "It", body = MessageAttemptOut),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    Parted((app, message, named)): Parted<(String, String, String)>,
) -> Result<Json<MessageAttemptOut>, ApiError> {
    let application = app_ref(&app)?;
    let message = find_message(&state, &application, &message_ref(&message)?).await?;
    let id = attempt_id(&named)?;
    let found = state.hook().store().attempt(message.application, id).await?;
    let found = found.filter(|attempt| attempt.message == message.id);
    let found = found.ok_or_else(|| no_attempt(&named))?;
    Ok(Json(MessageAttemptOut::new(found, None)))
}

/// Remove what an endpoint answered in an attempt.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}/content",
    tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("attempt_id" = String, Path, description = "The attempt's id"),
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "There is no such attempt", body = HookProblem),
    )
)]
pub(crate) async fn expunge(
    State(state): State<AppState>,
    Parted((app, message, named)): Parted<(String, String, String)>,
) -> Result<StatusCode, ApiError> {
    let (application, message) = (app_ref(&app)?, message_ref(&message)?);
    let id = attempt_id(&named)?;
    match state.hook().expunge_response(&application, &message, id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_attempt(&named)),
    }
}

/// List the messages of an endpoint, newest first, with the states of their deliveries.
///
/// With `status` a page may hold fewer than its limit; `done` says whether there are more.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/msg", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("status" = Option<u8>, Query,
            description = "Only 0 success, 1 pending, 2 fail, 3 sending, 4 canceled"),
        ("channel" = Option<String>, Query, description = "Only with this channel"),
        ("event_types" = Option<String>, Query, description = "Only of these types: a,b"),
        ("before" = Option<String>, Query, description = "Only older than"),
        ("after" = Option<String>, Query, description = "Only younger than"),
        ("with_content" = Option<bool>, Query, description = "With payloads (true)"),
    ),
    responses(
        (status = 200, description = "A page", body = List<EndpointMessageOut>),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn attempted_messages(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Json<List<EndpointMessageOut>>, ApiError> {
    let application = app_ref(&app)?;
    let endpoint = find_endpoint(&state, &application, &endpoint_ref(&named)?).await?;
    let filter = MessageFilter { endpoint: Some(endpoint.id), ..message_filter(&params)? };
    let content = Content::of(filter.with_content);
    let wanted = standing(&params)?;
    let paging = Paging::read(&params, PageOrder::Descending, message_key)?;
    let (request, given) = paging.split();
    let page = state.hook().store().messages(endpoint.application, filter, request).await?;
    let ids = page.items.iter().map(|message| message.id).collect();
    let deliveries = state.hook().store().deliveries_to(endpoint.id, ids).await?;
    let page = Page { items: page.items.into_iter().zip(deliveries).collect(), done: page.done };
    let key = |(message, _): &(StoredMessage, Option<Delivery>)| message.id.to_string();
    let shown = List::new(page, given.as_deref(), key, |(message, delivery)| {
        let fits = |found: &Delivery| wanted.is_none_or(|w| w == Standing::from(found.state));
        let delivery = delivery.filter(fits);
        delivery.map(|found| EndpointMessageOut::new(message, &found, content)).transpose()
    })?;
    Ok(Json(List {
        data: shown.data.into_iter().flatten().collect(),
        done: shown.done,
        iterator: shown.iterator,
        prev_iterator: shown.prev_iterator,
    }))
}

/// List the endpoints that a message goes to, and how it stands with them.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("msg_id" = String, Path, description = "The message's id or your own"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
    ),
    responses(
        (status = 200, description = "A page", body = List<MessageEndpointOut>),
        (status = 404, description = "There is no such message", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn attempted_destinations(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Json<List<MessageEndpointOut>>, ApiError> {
    let (application, id) = find_app_id(&state, &app).await?;
    let message = find_message(&state, &application, &message_ref(&named)?).await?;
    let key = |text: &str| text.parse::<EndpointId>().ok();
    let (request, given) = Paging::read(&params, PageOrder::Ascending, key)?.split();
    let page = state.hook().store().deliveries(id, message.id, request).await?;
    let key = |delivery: &Delivery| delivery.endpoint.to_string();
    let list = List::new(page, given.as_deref(), key, Ok)?;
    let mut data = Vec::new();
    for delivery in list.data {
        let endpoint = wakeline_core::EndpointRef::Id(delivery.endpoint);
        // Endpoints that were deleted since are left out; `…/delivery` has them.
        if let Some(found) = state.hook().store().endpoint(&application, &endpoint).await? {
            data.push(MessageEndpointOut::new(found, &delivery)?);
        }
    }
    let List { done, iterator, prev_iterator, .. } = list;
    Ok(Json(List { data, done, iterator, prev_iterator }))
}
