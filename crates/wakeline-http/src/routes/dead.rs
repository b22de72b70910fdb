//! `/api/v1/dlq…`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{DeadLetterId, GroupName, PartitionName, QueueName, Realm, RedriveId, Verb};
use wakeline_store::{DeadLetterFilter, DeadLetters, Deed, Page, Redrive, RedriveJob};

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{self, Body, Params, Parted};
use crate::routes::resources::{EVERY, tallies};
use crate::state::AppState;
use crate::wire::dead::{
    DeadLetterAnswer, DeadLetterFilterBody, DeadLettersAnswer, Pagination, PurgedAnswer,
    RedriveAnswer, RedriveBody,
};

/// How far a caller that may read some queues only sees into all of them together. So many dead
/// letters of each queue are read, with their payloads.
const UNNAMED_MAX: u64 = 1000;

/// Most dead letters a second that a job may be allowed.
const RATE_MAX: u32 = 1_000_000;

fn missing() -> ApiError {
    ApiError::not_found("Dead letter not found")
}

fn no_job() -> ApiError {
    ApiError::not_found("Redrive job not found")
}

/// Dead letters, newest first.
#[utoipa::path(
    get, path = "/api/v1/dlq", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("partition" = Option<String>, Query, description = "Only of this partition"),
        ("consumerGroup" = Option<String>, Query, description = "Only of this group"),
        ("from" = Option<String>, Query, description = "Only those given up at or after"),
        ("to" = Option<String>, Query, description = "Only those given up before"),
        ("error" = Option<String>, Query, description = "Only those with this in their error"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 1000 (100)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0). A caller that \
            may read only some queues sees the newest 1000, unless it names a queue"),
    ),
    responses(
        (status = 200, description = "The dead letters", body = DeadLettersAnswer<'_>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn dead_letters(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Response, ApiError> {
    let limit = params.number("limit", 100, 1..=1000)? as u32;
    let offset = params.number("offset", 0, 0..=u32::MAX.into())? as u32;
    let page = Page { limit, offset };
    let found = visible(&state, &permit, filter(&params)?, page).await?;
    let messages = found.letters.iter().map(DeadLetterAnswer::new).collect::<Result<_, _>>()?;
    let pagination = Pagination { limit, offset, total: found.total };
    Ok(Json(DeadLettersAnswer { messages, total: found.total, pagination }).into_response())
}

/// A page of what the caller may see.
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
    // Of the queues that the caller may read, and of no other: what others have there costs it
    // nothing, and it costs them nothing.
    let end = u64::from(page.offset) + u64::from(page.limit);
    if end > UNNAMED_MAX {
        return Err(ApiError::invalid(format!(
            "offset and limit must be at most {UNNAMED_MAX} together; name a queue to see more"
        )));
    }
    let part = Page { limit: end as u32, offset: 0 };
    let mut found = DeadLetters::default();
    for tally in tallies(state, permit, EVERY).await? {
        if tally.tally.dead_letters == 0 {
            continue;
        }
        let filter = DeadLetterFilter { queue: Some(tally.queue), ..filter.clone() };
        let read = store.dead_letters(filter, part).await?;
        found.total += read.total;
        found.letters.extend(read.letters);
        found.letters.sort_by_key(|letter| std::cmp::Reverse(letter.number.0));
        found.letters.truncate(end as usize);
    }
    found.letters.drain(..found.letters.len().min(page.offset as usize));
    Ok(found)
}

/// Whether the caller may do something to all dead letters that fit.
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

fn filter(params: &Params) -> Result<DeadLetterFilter, ApiError> {
    Ok(DeadLetterFilter {
        number: None,
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        group: params.parsed("consumerGroup", |text| Ok(GroupName::new(text)?))?,
        partition: params.parsed("partition", |text| Ok(PartitionName::new(text)?))?,
        from: params.moment("from")?,
        to: params.moment("to")?,
        error: params.text("error").map(str::to_owned),
    })
}

/// One dead letter.
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
    Parted(id): Parted<String>,
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

/// Remove one dead letter for good.
#[utoipa::path(
    delete, path = "/api/v1/dlq/{deadLetterId}", tag = "queues",
    params(("deadLetterId" = String, Path, description = "The dead letter")),
    responses(
        (status = 200, description = "It is gone", body = PurgedAnswer),
        (status = 404, description = "There is no such dead letter", body = Problem),
    )
)]
pub(crate) async fn purge_one(
    State(state): State<AppState>,
    permit: Permit,
    Parted(id): Parted<String>,
) -> Result<Json<PurgedAnswer>, ApiError> {
    let filter = only(&id)?;
    need(&state, &permit, Verb::Admin, &filter).await?;
    let purged = state.queue().store().purge_dead_letters(filter).await?;
    if purged == 0 {
        return Err(missing());
    }
    Ok(Json(PurgedAnswer { success: true, purged }))
}

/// Remove dead letters for good: those that fit, or all.
#[utoipa::path(
    delete, path = "/api/v1/dlq", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("partition" = Option<String>, Query, description = "Only of this partition"),
        ("consumerGroup" = Option<String>, Query, description = "Only of this group"),
        ("from" = Option<String>, Query, description = "Only those given up at or after"),
        ("to" = Option<String>, Query, description = "Only those given up before"),
        ("error" = Option<String>, Query, description = "Only those with this in their error"),
        ("all" = Option<bool>, Query, description = "Needed where nothing else is given"),
    ),
    responses(
        (status = 200, description = "They are gone", body = PurgedAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn purge(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<PurgedAnswer>, ApiError> {
    let filter = meant(filter(&params)?, params.flag("all")?)?;
    need(&state, &permit, Verb::Admin, &filter).await?;
    Deed::tell(filter.queue.as_ref().map(ToString::to_string), None);
    let purged = state.queue().store().purge_dead_letters(filter).await?;
    Ok(Json(PurgedAnswer { success: true, purged }))
}

/// An empty filter must be meant.
fn meant(filter: DeadLetterFilter, all: bool) -> Result<DeadLetterFilter, ApiError> {
    if filter == DeadLetterFilter::default() && !all {
        return Err(ApiError::invalid(
            "a filter is required, such as queue, or all=true for all dead letters",
        ));
    }
    Ok(filter)
}

/// Deliver dead letters again: a job that begins at once and goes on in the background.
#[utoipa::path(
    post, path = "/api/v1/dlq/redrive", tag = "queues",
    request_body = RedriveBody,
    responses(
        (status = 202, description = "The job", body = RedriveAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn redrive(
    State(state): State<AppState>,
    permit: Permit,
    body: Body,
) -> Result<Response, ApiError> {
    let body: RedriveBody = body.parse()?;
    if let Some(rate) = body.rate.filter(|rate| !(1..=RATE_MAX).contains(rate)) {
        let message = format!("rate must be a whole number from 1 to {RATE_MAX}, not {rate}");
        return Err(ApiError::invalid_field("rate", message));
    }
    let redrive = Redrive {
        id: RedriveId::generate(),
        filter: meant(wanted(body.filter)?, body.all)?,
        to_queue: body.to_queue.map(QueueName::new).transpose()?,
        rate: body.rate,
    };
    need(&state, &permit, Verb::Configure, &redrive.filter).await?;
    permit.need_queues(Verb::Push, &redrive.to_queue)?;
    Deed::tell(redrive.filter.queue.as_ref().map(ToString::to_string), None);
    let job = state.queue().redrive(redrive).await?;
    Ok((StatusCode::ACCEPTED, Json(RedriveAnswer::from(job))).into_response())
}

fn wanted(body: DeadLetterFilterBody) -> Result<DeadLetterFilter, ApiError> {
    let moment =
        |field, text: Option<String>| text.map(|text| input::timestamp(field, &text)).transpose();
    Ok(DeadLetterFilter {
        number: body.id.map(|id| id.parse()).transpose()?,
        queue: body.queue.map(QueueName::new).transpose()?,
        group: body.consumer_group.map(GroupName::new).transpose()?,
        partition: body.partition.map(PartitionName::new).transpose()?,
        from: moment("filter.from", body.from)?,
        to: moment("filter.to", body.to)?,
        error: body.error,
    })
}

/// How far a redrive is.
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
    Parted(job): Parted<String>,
) -> Result<Json<RedriveAnswer>, ApiError> {
    let job = own_job(&state, &permit, Verb::Read, &job).await?;
    Ok(Json(job.into()))
}

/// A job, if the caller may do this to what it is about.
async fn own_job(
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

/// Stop a redrive. What it has redriven stays so.
#[utoipa::path(
    delete, path = "/api/v1/dlq/redrive/{job}", tag = "queues",
    params(("job" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The job as it ended", body = RedriveAnswer),
        (status = 404, description = "There is no such job", body = Problem),
    )
)]
pub(crate) async fn cancel_redrive(
    State(state): State<AppState>,
    permit: Permit,
    Parted(job): Parted<String>,
) -> Result<Json<RedriveAnswer>, ApiError> {
    let job = own_job(&state, &permit, Verb::Configure, &job).await?.redrive.id;
    Deed::tell(Some(job.to_string()), None);
    let job = state.queue().store().cancel_redrive(job).await?.ok_or_else(no_job)?;
    Ok(Json(job.into()))
}
