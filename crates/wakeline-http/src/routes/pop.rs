//! `GET /api/v1/pop…`: popping by queue, by partition, or by namespace and task.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa::IntoParams;
use wakeline_core::{
    LeaseId, Namespace, PartitionName, QueueLine, QueueName, Selector, Subscription, TaskName,
    Timestamp,
};
use wakeline_queue::{PopCommand, PopOutcome};

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{self, PathParams, QueryParams, check_short_text};
use crate::state::AppState;
use crate::wire::ack::group_name;
use crate::wire::pop::{PausedAnswer, PopAnswer};

/// A duration that is longer than any difference between the clocks of this node and the database.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The query parameters of all pops; [`check`] reads them by name.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameters for the OpenAPI document")]
pub(crate) struct PopQuery {
    /// Maximum number of messages (default 1). A pop may return fewer: it claims no more messages
    /// once their payloads have `pop_bytes_max` bytes, a setting of the server.
    batch: Option<u32>,
    /// Wait until a message is available (default false).
    wait: Option<bool>,
    /// Maximum wait in milliseconds (default 30000).
    timeout: Option<u64>,
    /// The consumer group. Consumers that name no group share the messages of the queue.
    #[param(rename = "consumerGroup")]
    consumer_group: Option<String>,
    /// Settle the messages immediately instead of leasing them, for at-most-once delivery (default
    /// false).
    #[param(rename = "autoAck")]
    auto_ack: Option<bool>,
    /// Name of the consumer, recorded in the delivery ledger; up to 255 bytes.
    #[param(rename = "workerId")]
    worker_id: Option<String>,
    /// Where a new group begins: `all` (default) or `new`.
    #[param(rename = "subscriptionMode")]
    subscription_mode: Option<String>,
    /// Where a new group begins: a time such as `2026-01-31T12:00:00Z`, or `now`.
    #[param(rename = "subscriptionFrom")]
    subscription_from: Option<String>,
}

/// The additional query parameter of pops that can claim several partitions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameter for the OpenAPI document")]
pub(crate) struct SeveralPartitions {
    /// Maximum number of partitions, up to 100 (default 1).
    partitions: Option<u32>,
}

/// Pop messages from any partition of a queue.
///
/// With `wait=true` the request waits until a message is available. The response is
/// 204 if no message is available, even if the queue does not exist yet. While pops are paused, the
/// response is an empty list with `paused`, after the wait.
#[utoipa::path(
    get, path = "/api/v1/pop/queue/{queue}", tag = "queue",
    params(("queue" = String, Path, description = "The queue"), PopQuery, SeveralPartitions),
    responses(
        (status = 200, description = "The claimed messages", body = PopAnswer<'_>),
        (status = 204, description = "No message is available"),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 503, description = "Too many consumers are waiting, or the store is unavailable",
            body = Problem),
    )
)]
pub(crate) async fn pop_queue(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
    permit: Permit,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let selector = Selector::Queue(QueueName::new(queue)?);
    pop(state, selector, permit, params).await
}

/// Pop messages from one partition of a queue.
#[utoipa::path(
    get, path = "/api/v1/pop/queue/{queue}/partition/{partition}", tag = "queue",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("partition" = String, Path, description = "The partition"),
        PopQuery,
    ),
    responses(
        (status = 200, description = "The claimed messages", body = PopAnswer<'_>),
        (status = 204, description = "No message is available"),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 503, description = "Too many consumers are waiting, or the store is unavailable",
            body = Problem),
    )
)]
pub(crate) async fn pop_partition(
    State(state): State<AppState>,
    PathParams((queue, partition)): PathParams<(String, String)>,
    permit: Permit,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let queue = QueueName::new(queue)?;
    let selector = Selector::Partition(queue, PartitionName::new(partition)?);
    pop(state, selector, permit, params).await
}

/// Pop messages from any queue, or from any queue of a namespace, a task, or both.
#[utoipa::path(
    get, path = "/api/v1/pop", tag = "queue",
    params(
        ("namespace" = Option<String>, Query, description = "Only queues of this namespace"),
        ("task" = Option<String>, Query, description = "Only queues of this task"),
        PopQuery,
        SeveralPartitions,
    ),
    responses(
        (status = 200, description = "The claimed messages", body = PopAnswer<'_>),
        (status = 204, description = "No message is available"),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 503, description = "Too many consumers are waiting, or the store is unavailable",
            body = Problem),
    )
)]
pub(crate) async fn pop_filtered(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Response, ApiError> {
    // Clients send an empty text for a filter that they do not use.
    let given = |name| params.text(name).filter(|text| !text.is_empty());
    let selector = Selector::Filter {
        namespace: given("namespace").map(Namespace::new).transpose()?,
        task: given("task").map(TaskName::new).transpose()?,
    };
    pop(state, selector, permit, params).await
}

async fn pop(
    state: AppState,
    selector: Selector,
    permit: Permit,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let worker = params.text("workerId").filter(|text| !text.is_empty());
    if let Some(worker) = worker {
        check_short_text("workerId", worker)?;
    }
    let worker = worker.map(str::to_owned).or_else(|| permit.producer());
    let pop = PopCommand { worker, ..check(&state, selector, &params)? };
    let group = pop.line.group.clone();
    match state.queue().pop(pop).await? {
        PopOutcome::Claimed(result) => {
            let lease = result.lease.as_ref().map(ToString::to_string).unwrap_or_default();
            Ok(Json(PopAnswer::new(&result, &group, &lease)?).into_response())
        }
        PopOutcome::Paused => Ok(Json(PausedAnswer::new(&group)).into_response()),
        PopOutcome::Empty => Ok(StatusCode::NO_CONTENT.into_response()),
        PopOutcome::Drained => {
            let close = (header::CONNECTION, HeaderValue::from_static("close"));
            Ok((StatusCode::NO_CONTENT, [close]).into_response())
        }
    }
}

fn check(
    state: &AppState,
    selector: Selector,
    params: &QueryParams,
) -> Result<PopCommand, ApiError> {
    let settings = state.settings();
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let batch_max = u64::from(settings.batch_len_max);
    let batch = params.number("batch", settings.default_batch_len.into(), 1..=batch_max)?;
    let partitions = params.number("partitions", 1, 1..=LeaseId::CURSORS_MAX as u64)?;
    let timeout = millis(settings.default_timeout);
    let timeout = params.number("timeout", timeout, 0..=millis(settings.wait_max))?;
    let group = group_name(params.text("consumerGroup"))?;
    let one_partition = matches!(selector, Selector::Partition(..));
    Ok(PopCommand {
        line: QueueLine { selector, group },
        subscription: subscription(params)?,
        batch_len_max: u32::try_from(batch).unwrap_or(u32::MAX),
        bytes_max: settings.pop_bytes_max,
        partitions_len_max: if one_partition { 1 } else { partitions as u32 },
        auto_ack: params.flag("autoAck")?,
        worker: None,
        wait: params.flag("wait")?.then(|| Duration::from_millis(timeout)),
    })
}

/// Whether a time is certainly in the future, however much the clocks of this node and the database
/// differ. The database judges times that are closer.
fn is_far_ahead(time: Timestamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    time > Timestamp(0).plus(now + CLOCK_DIFFERENCE_MAX)
}

fn subscription(params: &QueryParams) -> Result<Subscription, ApiError> {
    match params.text("subscriptionFrom") {
        None | Some("") => {}
        Some("now") => return Ok(Subscription::New),
        Some(text) => {
            let from = input::timestamp("subscriptionFrom", text)?;
            if is_far_ahead(from) {
                let message =
                    format!("subscriptionFrom must not be in the future, but is {text:?}");
                return Err(ApiError::invalid(message));
            }
            return Ok(Subscription::From(from));
        }
    }
    match params.text("subscriptionMode") {
        None | Some("" | "all" | "from_beginning") => Ok(Subscription::All),
        Some("new" | "new-only") => Ok(Subscription::New),
        Some(other) => {
            Err(ApiError::invalid(format!("subscriptionMode must be all or new, not {other:?}")))
        }
    }
}
