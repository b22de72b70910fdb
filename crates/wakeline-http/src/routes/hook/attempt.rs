//! `/api/v1/app/{app_id}/attempt…`: attempts, and the delivery states of messages and endpoints.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use wakeline_core::{ApplicationId, ApplicationRef, AttemptId, EndpointId, MessageRef};
use wakeline_store::hook::{
    Attempt, AttemptFilter, AttemptOutcome, Delivery, HookMessageFilter, HookPage, PageOrder,
    StoredMessage,
};

use super::no_attempt;
use super::{app_ref, attempt_id, channel, endpoint_ref, event_types, find_app_id, find_endpoint};
use super::{find_message, message::filter as message_filter, message_key, message_ref};
use crate::error::ApiError;
use crate::input::{PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::attempt::{
    EndpointMessageOut, MessageAttemptOut, MessageEndpointOut, SvixStatus,
};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::message::{MessageOut, PayloadContent};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List the attempts to deliver to an endpoint, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("status" = Option<u8>, Query,
            description = "Only attempts with this status: 0 success, 2 fail"),
        ("status_code_class" = Option<u16>, Query,
            description = "Only this class of response status: 200, 300, ...; 0 for no response"),
        ("channel" = Option<String>, Query,
            description = "Only attempts of messages with this channel"),
        ("event_types" = Option<String>, Query,
            description = "Only these event types, separated by commas"),
        ("before" = Option<String>, Query,
            description = "Only attempts that began before this time"),
        ("after" = Option<String>, Query, description = "Only attempts that began after this time"),
        ("with_content" = Option<bool>, Query,
            description = "Include the response bodies (default true)"),
        ("with_msg" = Option<bool>, Query, description = "Include the messages (default false)"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<MessageAttemptOut>),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn by_endpoint(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
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
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("endpoint_id" = Option<String>, Query, description = "Only attempts to this endpoint"),
        ("status" = Option<u8>, Query,
            description = "Only attempts with this status: 0 success, 2 fail"),
        ("status_code_class" = Option<u16>, Query,
            description = "Only this class of response status: 200, 300, ...; 0 for no response"),
        ("channel" = Option<String>, Query, description = "Only messages with this channel"),
        ("event_types" = Option<String>, Query,
            description = "Only these event types, separated by commas"),
        ("before" = Option<String>, Query,
            description = "Only attempts that began before this time"),
        ("after" = Option<String>, Query, description = "Only attempts that began after this time"),
        ("with_content" = Option<bool>, Query,
            description = "Include the response bodies (default true)"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<MessageAttemptOut>),
        (status = 404, description = "There is no such message", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn by_message(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
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

fn filter(params: &QueryParams) -> Result<AttemptFilter, ApiError> {
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
        before: params.timestamp("before")?,
        after: params.timestamp("after")?,
        with_content: params.flag_or("with_content", true)?,
        ..AttemptFilter::default()
    })
}

/// Parses the status of a filter.
fn svix_status(params: &QueryParams) -> Result<Option<SvixStatus>, ApiError> {
    params.parsed("status", |text| {
        let message = format!("status must be from 0 to 4, not {text:?}");
        SvixStatus::read(text).ok_or_else(|| ApiError::invalid_param("status", message))
    })
}

async fn list(
    state: &AppState,
    application: ApplicationId,
    mut filter: AttemptFilter,
    params: &QueryParams,
) -> Result<Json<List<MessageAttemptOut>>, ApiError> {
    let with_msg = params.flag("with_msg")?;
    let key = |text: &str| text.parse::<AttemptId>().ok();
    let (request, given) = Paging::read(params, PageOrder::Descending, key)?.split();
    let can_match = match svix_status(params)? {
        None => true,
        Some(SvixStatus::Success) => {
            filter.outcome = Some(AttemptOutcome::Succeeded);
            true
        }
        Some(SvixStatus::Fail) => {
            filter.outcome = Some(AttemptOutcome::Failed);
            true
        }
        // Only attempts that have ended are stored.
        Some(SvixStatus::Pending | SvixStatus::Sending | SvixStatus::Canceled) => false,
    };
    let page = if can_match {
        state.hook().store().attempts(application, filter, request).await?
    } else {
        HookPage { items: Vec::new(), done: true }
    };
    let mut messages =
        if with_msg { messages_of(state, application, &page.items).await? } else { HashMap::new() };
    let show = |attempt: Attempt| {
        // The message is cloned because a page may have several attempts of it.
        let message = messages.get_mut(&attempt.message).cloned();
        let message =
            message.map(|found| MessageOut::new(found, PayloadContent::Omitted)).transpose()?;
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

/// Get an attempt.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("attempt_id" = String, Path, description = "The attempt's id"),
    ),
    responses(
        (status = 200, description = "The attempt", body = MessageAttemptOut),
        (status = 404, description = "There is no such attempt", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams((app, message, named)): PathParams<(String, String, String)>,
) -> Result<Json<MessageAttemptOut>, ApiError> {
    let application = app_ref(&app)?;
    let message = find_message(&state, &application, &message_ref(&message)?).await?;
    let id = attempt_id(&named)?;
    let found = state.hook().store().attempt(message.application, id).await?;
    let found = found.filter(|attempt| attempt.message == message.id);
    let found = found.ok_or_else(|| no_attempt(&named))?;
    Ok(Json(MessageAttemptOut::new(found, None)))
}

/// Delete the response body of an attempt.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}/content",
    tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("attempt_id" = String, Path, description = "The attempt's id"),
    ),
    responses(
        (status = 204, description = "The response body was deleted"),
        (status = 404, description = "There is no such attempt", body = HookProblem),
    )
)]
pub(crate) async fn expunge(
    State(state): State<AppState>,
    PathParams((app, message, named)): PathParams<(String, String, String)>,
) -> Result<StatusCode, ApiError> {
    let (application, message) = (app_ref(&app)?, message_ref(&message)?);
    let id = attempt_id(&named)?;
    if state.hook().expunge_response(&application, &message, id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_attempt(&named))
    }
}

/// List the messages of an endpoint, newest first, with the states of their deliveries.
///
/// With `status`, a page may hold fewer items than its limit; `done` says whether there are more.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/msg", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("status" = Option<u8>, Query,
            description = "Only messages with this status: 0 success, 1 pending, 2 fail, \
                3 sending, 4 canceled"),
        ("channel" = Option<String>, Query, description = "Only messages with this channel"),
        ("event_types" = Option<String>, Query,
            description = "Only these event types, separated by commas"),
        ("before" = Option<String>, Query, description = "Only messages created before this time"),
        ("after" = Option<String>, Query, description = "Only messages created after this time"),
        ("with_content" = Option<bool>, Query, description = "Include the payloads (default true)"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<EndpointMessageOut>),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn attempted_messages(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
) -> Result<Json<List<EndpointMessageOut>>, ApiError> {
    let application = app_ref(&app)?;
    let endpoint = find_endpoint(&state, &application, &endpoint_ref(&named)?).await?;
    let filter = HookMessageFilter { endpoint: Some(endpoint.id), ..message_filter(&params)? };
    let content = PayloadContent::of(filter.with_content);
    let wanted = svix_status(&params)?;
    let paging = Paging::read(&params, PageOrder::Descending, message_key)?;
    let (request, given) = paging.split();
    let page = state.hook().store().messages(endpoint.application, filter, request).await?;
    let ids = page.items.iter().map(|message| message.id).collect();
    let deliveries = state.hook().store().deliveries_to(endpoint.id, ids).await?;
    let page =
        HookPage { items: page.items.into_iter().zip(deliveries).collect(), done: page.done };
    let key = |(message, _): &(StoredMessage, Option<Delivery>)| message.id.to_string();
    let shown = List::new(page, given.as_deref(), key, |(message, delivery)| {
        let matches = |found: &Delivery| wanted.is_none_or(|w| w == SvixStatus::from(found.state));
        let delivery = delivery.filter(matches);
        delivery.map(|found| EndpointMessageOut::new(message, &found, content)).transpose()
    })?;
    Ok(Json(List {
        data: shown.data.into_iter().flatten().collect(),
        done: shown.done,
        iterator: shown.iterator,
        prev_iterator: shown.prev_iterator,
    }))
}

/// List the endpoints that a message is delivered to, with the states of the deliveries.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("msg_id" = String, Path, description = "The message's id or eventId"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<MessageEndpointOut>),
        (status = 404, description = "There is no such message", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn attempted_destinations(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
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
        // Deleted endpoints are left out; the list at `…/delivery` includes them.
        if let Some(found) = state.hook().store().endpoint(&application, &endpoint).await? {
            data.push(MessageEndpointOut::new(found, &delivery)?);
        }
    }
    let List { done, iterator, prev_iterator, .. } = list;
    Ok(Json(List { data, done, iterator, prev_iterator }))
}
