//! `/events…` and `/subscriptions…`: a simplified webhook API over one default application.
//!
//! # Invariants
//! * Objects that these routes create can be read and changed with the other routes, and the
//!   reverse.
//! * Posting an event again does nothing; if its content differs, the request is refused.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use wakeline_core::{ApplicationRef, AttemptId, EventId, MessageRef, Uid};
use wakeline_hook::{ApplicationIn, Emit, EndpointIn};
use wakeline_store::hook::{
    AttemptFilter, Created, Delivery, EmitOutcome, Endpoint, PageOrder, PageRequest, StoredMessage,
};

use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::render;
use crate::routes::hook::{endpoint_ref, keys};
use crate::state::AppState;
use crate::wire::hook::application::uid;
use crate::wire::hook::simple::{
    EventAttemptOut, EventBody, EventIn, EventOut, EventTaken, SubscriptionIn, SubscriptionOut,
    event_id, status,
};
use crate::wire::hook::{patterns, type_name};

/// The uid of the application that these routes use.
pub(crate) const DEFAULT_UID: &str = "default";

/// The maximum number of deliveries, attempts or subscriptions of one store call.
const PAGE: u32 = 250;
/// The number of attempts in a response if the request does not say. Each may contain thousands of
/// bytes of a response body.
const ATTEMPTS_DEFAULT: u64 = 100;

fn default_uid() -> Uid {
    Uid::parse(DEFAULT_UID).expect("the uid is valid")
}

fn application() -> ApplicationRef {
    ApplicationRef::Own(default_uid())
}

fn default_application() -> ApplicationIn {
    let name = "Default".to_owned();
    ApplicationIn { name, uid: Some(default_uid()), ..ApplicationIn::default() }
}

/// A request for a page of the maximum length.
fn full_page<K>(after: Option<K>, order: PageOrder) -> PageRequest<K> {
    PageRequest { limit: PAGE, after, order, backwards: false }
}

/// Post an event, which is delivered to every subscription whose event types match.
///
/// The response is sent when the event is durable. Posting the same event again has no effect.
#[utoipa::path(
    post, path = "/events", tag = "events", request_body = EventIn<'_>,
    responses(
        (status = 202, description = "Accepted for delivery", body = EventTaken),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 409, description = "Another event already has this id", body = Problem),
    )
)]
pub(crate) async fn post_event(
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let event: EventIn<'_> = body.parse()?;
    let wrong = |error: wakeline_core::UidError| ApiError::invalid_field("id", error.to_string());
    let id = EventId::parse(&event.id).map_err(wrong)?;
    let (kind, source) = (event.kind.as_str(), event.source.as_str());
    let sent = EventBody {
        id: event.id.as_str().into(),
        kind: kind.into(),
        source: source.into(),
        data: event.data,
    };
    let payload = Bytes::from(serde_json::to_vec(&sent).expect("an event is JSON"));
    let emit = Emit {
        create_application: Some(default_application()),
        event_id: Some(id),
        ..Emit::new(application(), type_name("type", kind)?, payload.clone())
    };
    let (message, status) = match state.hook().emit(emit).await? {
        EmitOutcome::Stored(message, 0) => (message, "delivered"),
        EmitOutcome::Stored(message, _) => (message, "pending"),
        EmitOutcome::Repeated(message) | EmitOutcome::Taken(message) => {
            // An earlier attempt of this request, whose response was lost, may have stored it.
            let known = async {
                let status = status(&deliveries(&state, &message).await?);
                Ok::<_, ApiError>((check_same(&state, message, &payload).await?, status))
            };
            known.await.map_err(ApiError::after_write)?
        }
        EmitOutcome::Refused(reason) => return Err(ApiError::invalid_field("data", reason)),
        EmitOutcome::KeyReused | EmitOutcome::NoApplication => {
            return Err(ApiError::unavailable(
                "the default application was deleted at the same time",
            ));
        }
    };
    let created_at = render::time(message.created_at);
    let answer = EventTaken { id: event.id, status, created_at };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Fails if the stored message has another payload.
async fn check_same(
    state: &AppState,
    message: StoredMessage,
    payload: &Bytes,
) -> Result<StoredMessage, ApiError> {
    let id = MessageRef::Id(message.id);
    let found = state.hook().store().message(&application(), &id, true).await?;
    match found.and_then(|found| found.payload) {
        Some(stored) if stored != *payload => {
            Err(ApiError::conflict("another event with this id was posted before"))
        }
        // A payload that has expired cannot be compared.
        _ => Ok(message),
    }
}

/// Get an event and the state of its deliveries.
#[utoipa::path(
    get, path = "/events/{id}", tag = "events",
    params(("id" = String, Path, description = "The id that you chose")),
    responses(
        (status = 200, description = "The event", body = EventOut),
        (status = 404, description = "There is no such event", body = Problem),
    )
)]
pub(crate) async fn event(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<Json<EventOut>, ApiError> {
    let message = find(&state, &named, true).await?;
    let deliveries = deliveries(&state, &message).await?;
    let filter = AttemptFilter { message: Some(message.id), ..AttemptFilter::default() };
    let last = PageRequest { limit: 1, ..full_page(None, PageOrder::Descending) };
    let last = state.hook().store().attempts(message.application, filter, last).await?;
    EventOut::new(&message, &deliveries, last.items.first()).map(Json)
}

/// List the attempts to deliver an event, oldest first.
#[utoipa::path(
    get, path = "/events/{id}/attempts", tag = "events",
    params(
        ("id" = String, Path, description = "The id that you chose"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 100)"),
        ("after" = Option<String>, Query,
            description = "Only attempts after the attempt with this id"),
    ),
    responses(
        (status = 200, description = "The attempts", body = Vec<EventAttemptOut>),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such event", body = Problem),
    )
)]
pub(crate) async fn event_attempts(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    params: QueryParams,
) -> Result<Json<Vec<EventAttemptOut>>, ApiError> {
    let limit = params.number("limit", ATTEMPTS_DEFAULT, 1..=u64::from(PAGE))? as u32;
    let after = params.parsed("after", |text| {
        let message = format!("after must be the id of an attempt, not {text:?}");
        let wrong = |_| ApiError::invalid_param("after", message);
        text.parse::<AttemptId>().map_err(wrong)
    })?;
    let message = find(&state, &named, false).await?;
    let id = event_id(&message);
    let filter =
        AttemptFilter { message: Some(message.id), with_content: true, ..AttemptFilter::default() };
    let request = PageRequest { limit, ..full_page(after, PageOrder::Ascending) };
    let page = state.hook().store().attempts(message.application, filter, request).await?;
    let shown = page.items.into_iter().map(|attempt| EventAttemptOut::new(attempt, &id));
    Ok(Json(shown.collect()))
}

async fn find(state: &AppState, named: &str, payload: bool) -> Result<StoredMessage, ApiError> {
    let missing = || ApiError::not_found(format!("there is no event {named}"));
    let id = MessageRef::parse(named).map_err(|_| missing())?;
    let found = state.hook().store().message(&application(), &id, payload).await?;
    found.ok_or_else(missing)
}

async fn deliveries(state: &AppState, message: &StoredMessage) -> Result<Vec<Delivery>, ApiError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = full_page(after, PageOrder::Ascending);
        let store = state.hook().store();
        let page = store.deliveries(message.application, message.id, request).await?;
        after = page.items.last().map(|delivery| delivery.endpoint);
        all.extend(page.items);
        if page.done || after.is_none() {
            return Ok(all);
        }
    }
}

async fn create_endpoint(state: &AppState, new: EndpointIn) -> Result<Endpoint, ApiError> {
    match state.hook().create_endpoint(&application(), new, None).await? {
        Created::New(made) | Created::Repeated(made) => Ok(made),
        Created::Taken(_) => Err(ApiError::conflict("another subscription already has this id")),
        Created::KeyReused | Created::NoApplication => {
            Err(ApiError::unavailable("the default application was deleted at the same time"))
        }
    }
}

/// Create a subscription. Only this response contains its secret.
#[utoipa::path(
    post, path = "/subscriptions", tag = "events", request_body = SubscriptionIn,
    responses(
        (status = 201, description = "Created", body = SubscriptionOut),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 409, description = "Another subscription already has this id", body = Problem),
        (status = 503, description = "The server has no encryption key", body = Problem),
    )
)]
pub(crate) async fn subscribe(
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let body: SubscriptionIn = body.parse()?;
    let new = EndpointIn {
        options: body.options()?,
        uid: uid(Some(body.id))?,
        url: body.url,
        event_types: patterns(body.event_types)?,
        secret: body.secret,
        ..EndpointIn::default()
    };
    // If the application exists already, the endpoint is added to it.
    let first = state.hook().create_application(default_application(), None).await?;
    let made = create_endpoint(&state, new).await.map_err(|error| match first {
        Created::New(_) => error.after_write(),
        _ => error,
    })?;
    let named = wakeline_core::EndpointRef::Id(made.id);
    let secret = keys::secret_of(&state, &application(), &named).await;
    let secret = secret.map_err(ApiError::after_write)?;
    let answer = SubscriptionOut::new(made, Some(secret.key));
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// List all subscriptions, oldest first.
#[utoipa::path(
    get, path = "/subscriptions", tag = "events",
    responses((status = 200, description = "The subscriptions", body = Vec<SubscriptionOut>))
)]
pub(crate) async fn subscriptions(
    State(state): State<AppState>,
) -> Result<Json<Vec<SubscriptionOut>>, ApiError> {
    let (mut all, mut after) = (Vec::<Endpoint>::new(), None);
    loop {
        let request = full_page(after, PageOrder::Ascending);
        let page = state.hook().store().endpoints(&application(), request).await?;
        let Some(page) = page else { break };
        after = page.items.last().map(|endpoint| endpoint.id);
        all.extend(page.items);
        if page.done || after.is_none() {
            break;
        }
    }
    Ok(Json(all.into_iter().map(|found| SubscriptionOut::new(found, None)).collect()))
}

/// Delete a subscription and cancel its pending deliveries.
#[utoipa::path(
    delete, path = "/subscriptions/{id}", tag = "events",
    params(("id" = String, Path, description = "The id that you chose")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "There is no such subscription", body = Problem),
    )
)]
pub(crate) async fn unsubscribe(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    let missing = || ApiError::not_found(format!("there is no subscription {named}"));
    let found = endpoint_ref(&named).map_err(|_| missing())?;
    if state.hook().delete_endpoint(&application(), &found).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(missing())
    }
}
