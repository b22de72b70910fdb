//! `POST /api/v1/push`: pushing messages.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use wakeline_store::{
    PushItem, PushOutcome, Refusal, ScheduleItem, ScheduleOutcome, TransactCommand, TransactOutcome,
};

use wakeline_core::Verb;

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::JsonBody;
use crate::state::AppState;
use crate::wire::push::{PushBody, PushEcho, PushItemBody, PushItemOutcome, PushResult};

/// Push messages.
///
/// The response is sent when all messages are durable. The first push creates a queue and its
/// partitions. If some messages are for later (`delayMs` or `deliverAt`), either all messages are
/// stored or none. During maintenance, messages are `buffered`: stored, and delivered when
/// maintenance ends.
#[utoipa::path(
    post, path = "/api/v1/push", tag = "queue", request_body = PushBody<'_>,
    responses(
        (status = 201, description = "Stored", body = Vec<PushResult>),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "The caller has no access to one of the queues",
            body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 415, description = "The body is not JSON", body = Problem),
        (status = 429, description = "A queue is full; nothing was stored", body = Problem),
        (status = 503, description = "The store cannot be reached, or pushes are refused during \
            maintenance; try again", body = Problem),
        (status = 507, description = "The store has no disk space left", body = Problem),
    )
)]
pub(crate) async fn push(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<(StatusCode, Json<Vec<PushResult>>), ApiError> {
    let parsed: PushBody<'_> = body.parse()?;
    let items = parsed.items.ok_or_else(|| ApiError::invalid("items array is required"))?;
    let messages = ValidatedPush::check(items, &body, &state)?;
    permit.need_queues(Verb::Push, messages.echoes.iter().map(|echo| &echo.queue))?;
    if messages.echoes.is_empty() {
        return Ok((StatusCode::CREATED, Json(Vec::new())));
    }
    let ValidatedPush { echoes, later, pushes, schedules } = messages;
    let mut command = TransactCommand { pushes, schedules, ..TransactCommand::default() };
    set_producer(&mut command, &permit);
    let outcomes = if command.schedules.is_empty() {
        let outcomes = state.queue().push(command.pushes).await?;
        outcomes.into_iter().map(PushItemOutcome::Now).collect()
    } else {
        match state.queue().transact(command, state.others()).await? {
            TransactOutcome::Committed(done) => in_order(&later, done.pushes, done.schedules),
            TransactOutcome::Refused(refusal) => return Err(never_refused(&refusal)),
        }
    };
    let results = echoes.iter().zip(&outcomes).enumerate();
    let results = results.map(|(index, (echo, outcome))| PushResult::new(index, echo, outcome));
    Ok((StatusCode::CREATED, Json(results.collect())))
}

/// The validated messages of a push.
#[derive(Default)]
pub(crate) struct ValidatedPush {
    /// What the response repeats of each message.
    pub(crate) echoes: Vec<PushEcho>,
    /// Whether each message is for later.
    pub(crate) later: Vec<bool>,
    pub(crate) pushes: Vec<PushItem>,
    pub(crate) schedules: Vec<ScheduleItem>,
}

impl ValidatedPush {
    /// Validates the messages of a push. The error says which one is wrong.
    pub(crate) fn check(
        items: Vec<PushItemBody<'_>>,
        body: &JsonBody,
        state: &AppState,
    ) -> Result<Self, ApiError> {
        let most = state.settings().batch_len_max as usize;
        if items.len() > most {
            let len = items.len();
            return Err(ApiError::invalid(format!(
                "items has {len} messages, more than the limit of {most}"
            )));
        }
        let mut messages = Self::default();
        for (index, item) in items.into_iter().enumerate() {
            messages.add(item, body).map_err(|error| error.at(&format!("items[{index}]")))?;
        }
        Ok(messages)
    }

    fn add(&mut self, item: PushItemBody<'_>, body: &JsonBody) -> Result<(), ApiError> {
        let due = item.due()?;
        let message = item.into_item(&body.0)?;
        self.echoes.push(PushEcho::from(&message));
        self.later.push(due.is_some());
        match due {
            None => self.pushes.push(message),
            Some(due) => self.schedules.push(ScheduleItem { message, due, key: None }),
        }
        Ok(())
    }
}

/// Records the producer of messages. It comes from the credentials, never from the request body.
pub(crate) fn set_producer(command: &mut TransactCommand, permit: &Permit) {
    let later = command.schedules.iter_mut().map(|item| &mut item.message);
    for item in command.pushes.iter_mut().chain(later) {
        item.producer = permit.producer();
    }
}

/// Merges the outcomes of messages into the order of the request.
pub(crate) fn in_order(
    later: &[bool],
    pushes: Vec<PushOutcome>,
    schedules: Vec<ScheduleOutcome>,
) -> Vec<PushItemOutcome> {
    let (mut pushes, mut schedules) = (pushes.into_iter(), schedules.into_iter());
    let next = |later: &bool| {
        if *later {
            schedules.next().map(PushItemOutcome::Later)
        } else {
            pushes.next().map(PushItemOutcome::Now)
        }
    };
    later.iter().filter_map(next).collect()
}

/// The error for a refusal that cannot occur, because the transaction has no settlements, signals
/// or events.
pub(crate) fn never_refused(refusal: &Refusal) -> ApiError {
    ApiError::conflict(format!(
        "the push was refused for an unexpected reason, which is a defect: report it ({refusal:?})"
    ))
}
