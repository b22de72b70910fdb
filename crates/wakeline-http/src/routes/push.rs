//! `POST /api/v1/push`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use wakeline_store::{
    PushItem, PushOutcome, Refusal, ScheduleItem, ScheduleOutcome, TransactCommand, TransactOutcome,
};

use wakeline_core::Verb;

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::Body;
use crate::state::AppState;
use crate::wire::push::{PushBody, PushEcho, PushItemBody, PushResult, Sent};

/// Push messages.
///
/// Answers when all of them are durable. Queues and partitions are made by the first push. If some
/// of them are for later (`delayMs`, `deliverAt`), all are stored together or none is. During a
/// maintenance they are `buffered`: stored, and delivered after its end.
#[utoipa::path(
    post, path = "/api/v1/push", tag = "queue", request_body = PushBody<'_>,
    responses(
        (status = 201, description = "Stored", body = Vec<PushResult>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "A queue is not the caller's", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 415, description = "The body is not JSON", body = Problem),
        (status = 429, description = "A queue is full; nothing was stored", body = Problem),
        (status = 503, description = "The store cannot be reached, or pushes are refused during a \
            maintenance; try again", body = Problem),
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
    let messages = Messages::check(items, &body, &state)?;
    permit.need_queues(Verb::Push, messages.echoes.iter().map(|echo| &echo.queue))?;
    if messages.echoes.is_empty() {
        return Ok((StatusCode::CREATED, Json(Vec::new())));
    }
    let Messages { echoes, later, pushes, schedules } = messages;
    let mut command = TransactCommand { pushes, schedules, ..TransactCommand::default() };
    stamp(&mut command, &permit);
    let outcomes = match command.schedules.is_empty() {
        true => state.queue().push(command.pushes).await?.into_iter().map(Sent::Now).collect(),
        false => match state.queue().transact(command, state.others()).await? {
            TransactOutcome::Committed(done) => in_order(&later, done.pushes, done.schedules),
            TransactOutcome::Refused(refusal) => return Err(never_refused(&refusal)),
        },
    };
    let results = echoes.iter().zip(&outcomes).enumerate();
    let results = results.map(|(index, (echo, outcome))| PushResult::new(index, echo, outcome));
    Ok((StatusCode::CREATED, Json(results.collect())))
}

/// The validated messages of a push.
#[derive(Default)]
pub(crate) struct Messages {
    /// One per message.
    pub(crate) echoes: Vec<PushEcho>,
    /// Which of them are for later.
    pub(crate) later: Vec<bool>,
    pub(crate) pushes: Vec<PushItem>,
    pub(crate) schedules: Vec<ScheduleItem>,
}

impl Messages {
    /// Validates the messages of a push. The error says which one is wrong.
    pub(crate) fn check(
        items: Vec<PushItemBody<'_>>,
        body: &Body,
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

    fn add(&mut self, item: PushItemBody<'_>, body: &Body) -> Result<(), ApiError> {
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

/// Says of messages who pushed them: what the server knows, never what a client says.
pub(crate) fn stamp(command: &mut TransactCommand, permit: &Permit) {
    let later = command.schedules.iter_mut().map(|item| &mut item.message);
    for item in command.pushes.iter_mut().chain(later) {
        item.producer = permit.producer();
    }
}

/// The outcomes of messages in their order.
pub(crate) fn in_order(
    later: &[bool],
    pushes: Vec<PushOutcome>,
    schedules: Vec<ScheduleOutcome>,
) -> Vec<Sent> {
    let (mut pushes, mut schedules) = (pushes.into_iter(), schedules.into_iter());
    let next = |later: &bool| match later {
        true => schedules.next().map(Sent::Later),
        false => pushes.next().map(Sent::Now),
    };
    later.iter().filter_map(next).collect()
}

/// A transaction without settlements, signals and events has nothing that could be refused.
pub(crate) fn never_refused(refusal: &Refusal) -> ApiError {
    ApiError::conflict(format!("refused for a reason that was not asked for: {refusal:?}"))
}
