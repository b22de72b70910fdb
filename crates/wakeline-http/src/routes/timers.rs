//! `/api/v1/timers…`: messages that are delivered later and identified by a key.

use axum::Json;
use axum::extract::State;
use wakeline_core::{QueueName, TimerKey, Timestamp};
use wakeline_store::{
    CancelItem, CancelOutcome, ScheduleOutcome, ScheduledFilter, ScheduledMessage, TransactCommand,
    TransactOutcome,
};

use super::push::{never_refused, set_producer};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::timers::{
    TimerBody, TimerCommand, TimerEcho, TimerLook, TimerPage, TimerResult, TimerRow, TimersAnswer,
    TimersBody,
};

/// The maximum number of rows in a page.
const PAGE_MAX: u64 = 1000;

/// Validated operations on timers.
#[derive(Default)]
pub(crate) struct TimerOperations {
    /// What the response repeats of each operation, and whether the operation sets a timer.
    echoes: Vec<(TimerEcho, bool)>,
}

impl TimerOperations {
    /// Validates the operations in a field of the body and adds them to a transaction. The error
    /// says which one is wrong.
    pub(crate) fn check(
        operations: Vec<TimerBody<'_>>,
        body: &JsonBody,
        field: &str,
        command: &mut TransactCommand,
    ) -> Result<Self, ApiError> {
        let mut timers = Self::default();
        for (index, operation) in operations.into_iter().enumerate() {
            let added = timers.add(operation, body, command);
            added.map_err(|error| error.at(&format!("{field}[{index}]")))?;
        }
        Ok(timers)
    }

    /// Validates an operation and adds it to a transaction.
    pub(crate) fn add(
        &mut self,
        operation: TimerBody<'_>,
        body: &JsonBody,
        command: &mut TransactCommand,
    ) -> Result<(), ApiError> {
        let (one, echo) = operation.check(&body.0)?;
        self.echoes.push((echo, matches!(one, TimerCommand::Set(_))));
        match one {
            TimerCommand::Set(item) => command.schedules.push(item),
            TimerCommand::Cancel(item) => command.cancels.push(item),
        }
        Ok(())
    }

    /// Returns the results of the operations. The outcomes must begin with those of the operations.
    pub(crate) fn results<'a>(
        &self,
        schedules: &mut impl Iterator<Item = &'a ScheduleOutcome>,
        cancels: &mut impl Iterator<Item = &'a CancelOutcome>,
    ) -> Vec<TimerResult> {
        let result = |(echo, sets): &(TimerEcho, bool)| {
            if *sets {
                schedules.next().map(|outcome| TimerResult::set(echo, outcome))
            } else {
                cancels.next().map(|outcome| TimerResult::cancelled(echo, outcome))
            }
        };
        self.echoes.iter().filter_map(result).collect()
    }
}

/// Set and cancel timers.
///
/// A timer is a message for later with a key. Setting a timer whose key is in use replaces the
/// waiting one.
#[utoipa::path(
    post, path = "/api/v1/timers", tag = "queue", request_body = TimersBody<'_>,
    responses(
        (status = 200, description = "The result of each operation", body = TimersAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn timers(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<Json<TimersAnswer>, ApiError> {
    let parsed: TimersBody<'_> = body.parse()?;
    let operations = parsed.operations;
    let operations = operations.ok_or_else(|| ApiError::invalid("operations array is required"))?;
    let most = state.settings().batch_len_max as usize;
    if operations.len() > most {
        let len = operations.len();
        return Err(ApiError::invalid(format!(
            "operations has {len} entries, more than the limit of {most}"
        )));
    }
    let mut command = TransactCommand::default();
    let timers = TimerOperations::check(operations, &body, "operations", &mut command)?;
    permit.need_transaction(&state, &command).await?;
    set_producer(&mut command, &permit);
    match state.queue().transact(command, state.others()).await? {
        TransactOutcome::Refused(refusal) => Err(never_refused(&refusal)),
        TransactOutcome::Committed(done) => {
            let (mut schedules, mut cancels) = (done.schedules.iter(), done.cancels.iter());
            Ok(Json(TimersAnswer { results: timers.results(&mut schedules, &mut cancels) }))
        }
    }
}

/// Cancel a timer.
#[utoipa::path(
    delete, path = "/api/v1/timers/{queue}/{*key}", tag = "queue",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("key" = String, Path, description = "The timer's key; may contain slashes"),
        ("txn" = Option<String>, Query, description = "Returned in the response"),
    ),
    responses(
        (status = 200, description = "`cancelled`, `absent` or `too_late`", body = TimerResult),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    PathParams((queue, key)): PathParams<(String, String)>,
    params: QueryParams,
) -> Result<Json<TimerResult>, ApiError> {
    let (queue, key) = (QueueName::new(queue)?, TimerKey::new(key)?);
    let txn = params.text("txn").map(str::to_owned);
    let echo = TimerEcho { queue: queue.clone(), key: key.clone(), txn };
    let cancels = vec![CancelItem { queue, key }];
    let command = TransactCommand { cancels, ..TransactCommand::default() };
    match state.queue().transact(command, state.others()).await? {
        TransactOutcome::Refused(refusal) => Err(never_refused(&refusal)),
        TransactOutcome::Committed(done) => {
            let outcome = done.cancels.first().unwrap_or(&CancelOutcome::Absent);
            Ok(Json(TimerResult::cancelled(&echo, outcome)))
        }
    }
}

/// Get a waiting timer and its payload.
#[utoipa::path(
    get, path = "/api/v1/timers/{queue}/{*key}", tag = "queue",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("key" = String, Path, description = "The timer's key; may contain slashes"),
    ),
    responses(
        (status = 200, description = "The timer, or `found: false`", body = TimerLook),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn timer(
    State(state): State<AppState>,
    PathParams((queue, key)): PathParams<(String, String)>,
) -> Result<Json<TimerLook>, ApiError> {
    let queue = QueueName::new(queue)?;
    let filter = ScheduledFilter {
        queue: queue.clone(),
        key: Some(TimerKey::new(key)?),
        after: None,
        limit: 1,
    };
    let found = state.queue().store().scheduled(filter).await?;
    Ok(Json(TimerLook::new(&queue, found.first())))
}

/// List the timers and delayed messages that wait in a queue.
#[utoipa::path(
    get, path = "/api/v1/timers/{queue}", tag = "queue",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("after" = Option<String>, Query, description = "The `nextAfter` of the previous page"),
        ("limit" = Option<u64>, Query, description = "Page size, up to 1000 (default 100)"),
    ),
    responses(
        (status = 200, description = "A page of results", body = TimerPage),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
    params: QueryParams,
) -> Result<Json<TimerPage>, ApiError> {
    let queue = QueueName::new(queue)?;
    let limit = params.number("limit", 100, 1..=u64::from(u32::MAX))?.min(PAGE_MAX);
    let filter = ScheduledFilter {
        queue: queue.clone(),
        key: None,
        after: params.parsed("after", parse_after)?,
        limit: u32::try_from(limit + 1).expect("a page is short"),
    };
    let mut found = state.queue().store().scheduled(filter).await?;
    let limit = usize::try_from(limit).expect("a page is short");
    let truncated = found.len() > limit;
    found.truncate(limit);
    let next = |last: &ScheduledMessage| format!("{}.{}", last.deliver_at.0, last.seq);
    Ok(Json(TimerPage {
        rows: found.iter().map(|one| TimerRow::new(&queue, one)).collect(),
        truncated,
        next_after: found.last().filter(|_| truncated).map(next),
    }))
}

/// Parses the place at which a page begins.
fn parse_after(text: &str) -> Result<(Timestamp, i64), ApiError> {
    let read = || {
        let (at, seq) = text.split_once('.')?;
        Some((Timestamp(at.parse().ok()?), seq.parse().ok()?))
    };
    let message = || format!("after must be the nextAfter of a previous page, not {text:?}");
    read().ok_or_else(|| ApiError::invalid_param("after", message()))
}
