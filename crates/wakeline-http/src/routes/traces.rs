//! `/api/v1/traces…`: notes that consumers attach to messages.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{Realm, TraceName, TransactionId, Verb};
use wakeline_store::{AddTraceOutcome, MessageKey, NamedTraces, Page, TRACES_PER_MESSAGE_MAX};

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::ack::partition_id;
use crate::wire::dead::Pagination;
use crate::wire::traces::{
    NamedTraceAnswer, NamedTracesAnswer, TraceAnswer, TraceBody, TraceNamesAnswer, TracedAnswer,
    TracesAnswer,
};

fn missing() -> ApiError {
    ApiError::not_found("Message not found")
}

/// Add a trace to a message.
#[utoipa::path(
    post, path = "/api/v1/traces", tag = "queues",
    request_body(content = TraceBody<'_>),
    responses(
        (status = 201, description = "The trace was stored", body = TracedAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such message", body = Problem),
        (status = 409, description = "The message has the maximum number of traces",
            body = Problem),
    )
)]
pub(crate) async fn add(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let trace = body.parse::<TraceBody<'_>>()?.trace(permit.producer())?;
    permit.need_partitions(&state, Verb::Pop, &[trace.message.partition]).await?;
    let trace_id = trace.id;
    match state.queue().store().add_trace(trace).await? {
        AddTraceOutcome::Done => {
            let answer = TracedAnswer { success: true, trace_id };
            Ok((StatusCode::CREATED, Json(answer)).into_response())
        }
        AddTraceOutcome::Missing => Err(missing()),
        AddTraceOutcome::TooMany => {
            let message = format!("The message has {TRACES_PER_MESSAGE_MAX} traces already");
            Err(ApiError::conflict(message))
        }
    }
}

/// List the traces of a message, oldest first.
#[utoipa::path(
    get, path = "/api/v1/traces/{partitionId}/{transactionId}", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The message's transaction id"),
    ),
    responses((status = 200, description = "The traces", body = TracesAnswer<'_>))
)]
pub(crate) async fn of_message(
    State(state): State<AppState>,
    PathParams((partition, transaction_id)): PathParams<(String, String)>,
) -> Result<Response, ApiError> {
    let partition = partition_id(&partition)?.ok_or_else(missing)?;
    let key = MessageKey { partition, transaction_id: TransactionId::new(transaction_id)? };
    let traces = state.queue().store().traces(key).await?;
    let traces = traces.iter().map(TraceAnswer::new).collect::<Result<_, _>>()?;
    Ok(Json(TracesAnswer { traces }).into_response())
}

/// List the traces with a name, newest first.
#[utoipa::path(
    get, path = "/api/v1/traces/by-name/{name}", tag = "queues",
    params(
        ("name" = String, Path, description = "The name"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 100)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The traces", body = NamedTracesAnswer<'_>),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn by_name(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(name): PathParams<String>,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let (name, page) = (TraceName::new(name)?, page(&params)?);
    let NamedTraces { traces, total } = visible(&state, &permit, &name, page).await?;
    let traces = traces.iter().map(NamedTraceAnswer::new).collect::<Result<_, _>>()?;
    let pagination = Pagination { limit: page.limit, offset: page.offset, total };
    Ok(Json(NamedTracesAnswer { traces, total, pagination }).into_response())
}

fn page(params: &QueryParams) -> Result<Page, ApiError> {
    Ok(Page {
        limit: params.number("limit", 100, 1..=1000)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    })
}

/// Reads a page of the traces that the caller may see.
async fn visible(
    state: &AppState,
    permit: &Permit,
    name: &TraceName,
    page: Page,
) -> Result<NamedTraces, ApiError> {
    let store = state.queue().store();
    if permit.may_all(Realm::Queue, Verb::Read) {
        return Ok(store.traces_named(name, page).await?);
    }
    let (mut found, mut chunk) = (NamedTraces::default(), Page { limit: 1000, offset: 0 });
    let wanted = u64::from(page.offset)..u64::from(page.offset) + u64::from(page.limit);
    loop {
        let read = store.traces_named(name, chunk).await?;
        let last = read.traces.len() < chunk.limit as usize;
        for trace in read.traces {
            if permit.may(Realm::Queue, Verb::Read, trace.queue.as_str()) {
                if wanted.contains(&found.total) {
                    found.traces.push(trace);
                }
                found.total += 1;
            }
        }
        if last {
            return Ok(found);
        }
        chunk.offset = chunk.offset.saturating_add(chunk.limit);
    }
}

/// List the names of traces, most recently used first.
#[utoipa::path(
    get, path = "/api/v1/traces/names", tag = "queues",
    params(
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 100)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The names", body = TraceNamesAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn names(
    State(state): State<AppState>,
    params: QueryParams,
) -> Result<Json<TraceNamesAnswer>, ApiError> {
    let page = page(&params)?;
    let found = state.queue().store().trace_names(page).await?;
    let total = found.total;
    let pagination = Pagination { limit: page.limit, offset: page.offset, total };
    let trace_names = found.names.into_iter().map(Into::into).collect();
    Ok(Json(TraceNamesAnswer { trace_names, total, pagination }))
}
