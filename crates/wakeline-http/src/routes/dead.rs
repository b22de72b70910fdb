//! `/api/v1/dlq…`: dead letters and redrive jobs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{DeadLetterId, GroupName, PartitionName, QueueName, Realm, RedriveId, Verb};
use wakeline_store::{AuditAction, DeadLetterFilter, DeadLetters, Page, Redrive, RedriveJob};

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{self, JsonBody, PathParams, QueryParams};
use crate::routes::resources::{ALL_QUEUES, queue_counts};
use crate::state::AppState;
use crate::wire::dead::{
    DeadLetterAnswer, DeadLetterFilterBody, DeadLettersAnswer, Pagination, PurgedAnswer,
    RedriveAnswer, RedriveBody,
};

/// The maximum sum of offset and limit for a caller that may read only some queues and names none:
/// this many dead letters of each queue are read, with their payloads.
const UNNAMED_MAX: u64 = 1000;

/// The maximum rate of a redrive job, in dead letters a second.
const RATE_MAX: u32 = 1_000_000;

fn missing() -> ApiError {
    ApiError::not_found("Dead letter not found")
}

fn no_job() -> ApiError {
    ApiError::not_found("Redrive job not found")
}

/// List dead letters, newest first.
#[utoipa::path(
    get, path = "/api/v1/dlq", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
        ("partition" = Option<String>, Query, description = "Only this partition"),
        ("consumerGroup" = Option<String>, Query, description = "Only this consumer group"),
        ("from" = Option<String>, Query,
            description = "Only messages that became dead letters at or after this time"),
        ("to" = Option<String>, Query,
            description = "Only messages that became dead letters before this time"),
        ("error" = Option<String>, Query,
            description = "Only dead letters whose error contains this text"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 100)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0). A \
            caller that may read only some queues sees only the newest 1000, unless it sets \
            `queue`"),
    ),
    responses(
        (status = 200, description = "The dead letters", body = DeadLettersAnswer<'_>),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn dead_letters(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let limit = params.number("limit", 100, 1..=1000)? as u32;
    let offset = params.number("offset", 0, 0..=u32::MAX.into())? as u32;
    let page = Page { limit, offset };
    let found = visible(&state, &permit, filter(&params)?, page).await?;
    let messages = found.letters.iter().map(DeadLetterAnswer::new).collect::<Result<_, _>>()?;
    let pagination = Pagination { limit, offset, total: found.total };
    Ok(Json(DeadLettersAnswer { messages, total: found.total, pagination }).into_response())
}

/// Reads a page of the dead letters that the caller may see.
async fn visible(
    state: &AppState,
    permit: &Permit,
    filter: DeadLetterFilter,
    page: Page,
) -> Result<DeadLetters, ApiError> {
    let store = state.queue().store();
    if let Some(queue) = &filter.queue {
        permit.need(Realm::Queue, Verb::Read, queue.as_str())?;
    }
    if filter.queue.is_some() || permit.may_all(Realm::Queue, Verb::Read) {
        return Ok(store.dead_letters(filter, page).await?);
    }
    // Only queues that the caller may read are queried, so that dead letters in other queues do not
    // slow the request down.
    let end = u64::from(page.offset) + u64::from(page.limit);
    if end > UNNAMED_MAX {
        return Err(ApiError::invalid(format!(
            "the sum of offset and limit must be at most {UNNAMED_MAX}; name a queue to see more"
        )));
    }
    let first = Page { limit: end as u32, offset: 0 };
    let mut found = DeadLetters::default();
    for counts in queue_counts(state, permit, ALL_QUEUES).await? {
        if counts.messages.dead_letters == 0 {
            continue;
        }
        let filter = DeadLetterFilter { queue: Some(counts.queue), ..filter.clone() };
        let read = store.dead_letters(filter, first).await?;
        found.total += read.total;
        found.letters.extend(read.letters);
        found.letters.sort_by_key(|letter| std::cmp::Reverse(letter.number.0));
        found.letters.truncate(end as usize);
    }
    found.letters.drain(..found.letters.len().min(page.offset as usize));
    Ok(found)
}

/// Fails unless the caller may use a verb on all dead letters that the filter matches.
async fn need(
    state: &AppState,
    permit: &Permit,
    verb: Verb,
    filter: &DeadLetterFilter,
) -> Result<(), ApiError> {
    if permit.may_all(Realm::Queue, verb) {
        return Ok(());
    }
    if let Some(queue) = &filter.queue {
        return permit.need(Realm::Queue, verb, queue.as_str());
    }
    if filter.number.is_none() {
        return permit.need_all(Realm::Queue, verb);
    }
    let page = Page { limit: 1, offset: 0 };
    let found = state.queue().store().dead_letters(filter.clone(), page).await?;
    let letter = found.letters.first().ok_or_else(missing)?;
    permit.need(Realm::Queue, verb, letter.queue.as_str())
}

fn filter(params: &QueryParams) -> Result<DeadLetterFilter, ApiError> {
    Ok(DeadLetterFilter {
        number: None,
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        group: params.parsed("consumerGroup", |text| Ok(GroupName::new(text)?))?,
        partition: params.parsed("partition", |text| Ok(PartitionName::new(text)?))?,
        from: params.timestamp("from")?,
        to: params.timestamp("to")?,
        error: params.text("error").map(str::to_owned),
    })
}

/// Get a dead letter.
#[utoipa::path(
    get, path = "/api/v1/dlq/{deadLetterId}", tag = "queues",
    params(("deadLetterId" = String, Path, description = "The dead letter")),
    responses(
        (status = 200, description = "The dead letter", body = DeadLetterAnswer<'_>),
        (status = 404, description = "There is no such dead letter", body = Problem),
    )
)]
pub(crate) async fn dead_letter(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let page = Page { limit: 1, offset: 0 };
    let found = state.queue().store().dead_letters(only(&id)?, page).await?;
    let letter = found.letters.first().ok_or_else(missing)?;
    permit.need(Realm::Queue, Verb::Read, letter.queue.as_str())?;
    Ok(Json(DeadLetterAnswer::new(letter)?).into_response())
}

fn only(id: &str) -> Result<DeadLetterFilter, ApiError> {
    let number: DeadLetterId = id.parse().map_err(|_| missing())?;
    Ok(DeadLetterFilter { number: Some(number), ..DeadLetterFilter::default() })
}

/// Delete a dead letter permanently.
#[utoipa::path(
    delete, path = "/api/v1/dlq/{deadLetterId}", tag = "queues",
    params(("deadLetterId" = String, Path, description = "The dead letter")),
    responses(
        (status = 200, description = "Deleted", body = PurgedAnswer),
        (status = 404, description = "There is no such dead letter", body = Problem),
    )
)]
pub(crate) async fn purge_one(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(id): PathParams<String>,
) -> Result<Json<PurgedAnswer>, ApiError> {
    let filter = only(&id)?;
    need(&state, &permit, Verb::Admin, &filter).await?;
    let purged = state.queue().store().purge_dead_letters(filter).await?;
    if purged == 0 {
        return Err(missing());
    }
    Ok(Json(PurgedAnswer { success: true, purged }))
}

/// Delete all dead letters that match the filter permanently.
#[utoipa::path(
    delete, path = "/api/v1/dlq", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
        ("partition" = Option<String>, Query, description = "Only this partition"),
        ("consumerGroup" = Option<String>, Query, description = "Only this consumer group"),
        ("from" = Option<String>, Query,
            description = "Only messages that became dead letters at or after this time"),
        ("to" = Option<String>, Query,
            description = "Only messages that became dead letters before this time"),
        ("error" = Option<String>, Query,
            description = "Only dead letters whose error contains this text"),
        ("all" = Option<bool>, Query, description = "Required if no filter is given"),
    ),
    responses(
        (status = 200, description = "The dead letters were deleted", body = PurgedAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn purge(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<PurgedAnswer>, ApiError> {
    let filter = confirmed(filter(&params)?, params.flag("all")?)?;
    need(&state, &permit, Verb::Admin, &filter).await?;
    AuditAction::amend(filter.queue.as_ref().map(ToString::to_string), None);
    let purged = state.queue().store().purge_dead_letters(filter).await?;
    Ok(Json(PurgedAnswer { success: true, purged }))
}

/// Refuses an empty filter, which matches all dead letters, unless the caller confirms it with
/// `all`.
fn confirmed(filter: DeadLetterFilter, all: bool) -> Result<DeadLetterFilter, ApiError> {
    if filter == DeadLetterFilter::default() && !all {
        return Err(ApiError::invalid(
            "a filter is required, such as queue, or all=true for all dead letters",
        ));
    }
    Ok(filter)
}

/// Start a background job that delivers dead letters again.
#[utoipa::path(
    post, path = "/api/v1/dlq/redrive", tag = "queues",
    request_body = RedriveBody,
    responses(
        (status = 202, description = "The job", body = RedriveAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn redrive(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let body: RedriveBody = body.parse()?;
    if let Some(rate) = body.rate.filter(|rate| !(1..=RATE_MAX).contains(rate)) {
        let message = format!("rate must be a whole number from 1 to {RATE_MAX}, not {rate}");
        return Err(ApiError::invalid_field("rate", message));
    }
    let redrive = Redrive {
        id: RedriveId::generate(),
        filter: confirmed(body_filter(body.filter)?, body.all)?,
        to_queue: body.to_queue.map(QueueName::new).transpose()?,
        rate: body.rate,
    };
    need(&state, &permit, Verb::Configure, &redrive.filter).await?;
    permit.need_queues(Verb::Push, &redrive.to_queue)?;
    AuditAction::amend(redrive.filter.queue.as_ref().map(ToString::to_string), None);
    let job = state.queue().redrive(redrive).await?;
    Ok((StatusCode::ACCEPTED, Json(RedriveAnswer::from(job))).into_response())
}

fn body_filter(body: DeadLetterFilterBody) -> Result<DeadLetterFilter, ApiError> {
    let time =
        |field, text: Option<String>| text.map(|text| input::timestamp(field, &text)).transpose();
    Ok(DeadLetterFilter {
        number: body.id.map(|id| id.parse()).transpose()?,
        queue: body.queue.map(QueueName::new).transpose()?,
        group: body.consumer_group.map(GroupName::new).transpose()?,
        partition: body.partition.map(PartitionName::new).transpose()?,
        from: time("filter.from", body.from)?,
        to: time("filter.to", body.to)?,
        error: body.error,
    })
}

/// Get the progress of a redrive job.
#[utoipa::path(
    get, path = "/api/v1/dlq/redrive/{job}", tag = "queues",
    params(("job" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The job", body = RedriveAnswer),
        (status = 404, description = "There is no such job", body = Problem),
    )
)]
pub(crate) async fn redrive_job(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(job): PathParams<String>,
) -> Result<Json<RedriveAnswer>, ApiError> {
    let job = permitted_job(&state, &permit, Verb::Read, &job).await?;
    Ok(Json(job.into()))
}

/// Reads a job; fails unless the caller may use a verb on the queues that it covers.
async fn permitted_job(
    state: &AppState,
    permit: &Permit,
    verb: Verb,
    job: &str,
) -> Result<RedriveJob, ApiError> {
    let job: RedriveId = job.parse().map_err(|_| no_job())?;
    let job = state.queue().store().redrive_job(job).await?.ok_or_else(no_job)?;
    match &job.redrive.filter.queue {
        Some(queue) => permit.need(Realm::Queue, verb, queue.as_str())?,
        None => permit.need_all(Realm::Queue, verb)?,
    }
    Ok(job)
}

/// Cancel a redrive job. Dead letters that it has already redriven are not affected.
#[utoipa::path(
    delete, path = "/api/v1/dlq/redrive/{job}", tag = "queues",
    params(("job" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The job in its final state", body = RedriveAnswer),
        (status = 404, description = "There is no such job", body = Problem),
    )
)]
pub(crate) async fn cancel_redrive(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(job): PathParams<String>,
) -> Result<Json<RedriveAnswer>, ApiError> {
    let job = permitted_job(&state, &permit, Verb::Configure, &job).await?.redrive.id;
    AuditAction::amend(Some(job.to_string()), None);
    let job = state.queue().store().cancel_redrive(job).await?.ok_or_else(no_job)?;
    Ok(Json(job.into()))
}
