//! `POST /api/v1/push`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use wakeline_core::Verb;
use wakeline_store::PushItem;

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::Body;
use crate::state::AppState;
use crate::wire::push::{PushBody, PushEcho, PushItemBody, PushResult};

/// Push messages.
///
/// Answers when all of them are durable. Queues and partitions are made by the first push.
#[utoipa::path(
    post, path = "/api/v1/push", tag = "queue", request_body = PushBody<'_>,
    responses(
        (status = 201, description = "Stored", body = Vec<PushResult>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "A queue is not the caller's", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 415, description = "The body is not JSON", body = Problem),
        (status = 429, description = "A queue is full; nothing was stored", body = Problem),
        (status = 503, description = "The store cannot be reached; try again", body = Problem),
        (status = 507, description = "No space is left", body = Problem),
    )
)]
pub(crate) async fn push(
    State(state): State<AppState>,
    permit: Permit,
    body: Body,
) -> Result<(StatusCode, Json<Vec<PushResult>>), ApiError> {
    let parsed: PushBody<'_> = body.parse()?;
    let items = parsed.items.ok_or_else(|| ApiError::invalid("items array is required"))?;
    let mut items = into_items(items, &body, &state)?;
    permit.need_queues(Verb::Push, items.iter().map(|item| &item.queue))?;
    stamp(&mut items, &permit);
    if items.is_empty() {
        return Ok((StatusCode::CREATED, Json(Vec::new())));
    }
    let echoes: Vec<PushEcho> = items.iter().map(PushEcho::from).collect();
    let outcomes = state.queue().push(items).await?;
    let results = echoes.iter().zip(&outcomes).enumerate();
    let results = results.map(|(index, (echo, outcome))| PushResult::new(index, echo, outcome));
    Ok((StatusCode::CREATED, Json(results.collect())))
}

/// Says of messages who pushed them: what the server knows, never what a client says.
pub(crate) fn stamp(items: &mut [PushItem], permit: &Permit) {
    for item in items {
        item.producer = permit.producer();
    }
}

/// Validates the messages of a push. The error says which one is wrong.
pub(crate) fn into_items(
    items: Vec<PushItemBody<'_>>,
    body: &Body,
    state: &AppState,
) -> Result<Vec<PushItem>, ApiError> {
    let most = state.settings().batch_len_max as usize;
    if items.len() > most {
        let len = items.len();
        return Err(ApiError::invalid(format!("items has {len} messages, at most {most} fit")));
    }
    let check = |(index, item): (usize, PushItemBody<'_>)| {
        item.into_item(&body.0).map_err(|error| error.at(&format!("items[{index}]")))
    };
    items.into_iter().enumerate().map(check).collect()
}
