//! `POST /api/v1/transaction`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use uuid::Uuid;
use wakeline_core::{ApplicationRef, EventId, LeaseId};
use wakeline_flow::{Client, Json as Value};
use wakeline_hook::Emit;
use wakeline_store::flow::EnqueueOutcome;
use wakeline_store::hook::EmitOutcome;
use wakeline_store::{Refusal, SettleOutcome, TransactCommand, TransactOutcome, Transacted};

use super::flow::exists;
use super::push::{Messages, in_order, stamp};
use super::timers::Timers;
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::Body;
use crate::state::AppState;
use crate::wire::ack::{Settlement, refusal};
use crate::wire::hook::message::{CHANNELS_MAX, object};
use crate::wire::hook::{channels, type_name};
use crate::wire::push::PushEcho;
use crate::wire::timers::TimerOp;
use crate::wire::transaction::{
    Operation, OperationKind, OperationResult, TransactionAnswer, TransactionBody,
};

/// Push, settle, start and signal orchestrations, emit events, set timers: all or nothing.
///
/// What repeats something known does not refuse the transaction: its result is `duplicate`.
#[utoipa::path(
    post, path = "/api/v1/transaction", tag = "queue", request_body = TransactionBody<'_>,
    responses(
        (status = 200, description = "All of it happened", body = TransactionAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "There is no such instance to signal", body = Problem),
        (status = 409, description = "Refused; nothing happened", body = TransactionAnswer),
        (status = 429, description = "A queue is full; nothing was done", body = Problem),
    )
)]
pub(crate) async fn transaction(
    State(state): State<AppState>,
    permit: Permit,
    body: Body,
) -> Result<(StatusCode, Json<TransactionAnswer>), ApiError> {
    let mut plan = Plan::check(&state, &body).await?;
    permit.need_transaction(&state, &plan.command).await?;
    stamp(&mut plan.command, &permit);
    if let Some((ack, outcome)) = &plan.refused {
        let refusal = Refusal::Settle { index: *ack, outcome: outcome.clone() };
        return Ok(plan.echo.refused(&refusal));
    }
    let Plan { command, echo, .. } = plan;
    Ok(match state.queue().transact(command, state.others()).await? {
        TransactOutcome::Refused(refusal) => echo.refused(&refusal),
        TransactOutcome::Committed(done) => (StatusCode::OK, Json(echo.committed(done))),
    })
}

/// A validated transaction.
#[derive(Default)]
struct Plan {
    command: TransactCommand,
    echo: Echo,
    /// The first acknowledgment that cannot succeed, known without the store.
    refused: Option<(usize, SettleOutcome)>,
}

/// What an answer repeats of a transaction, by operation index.
#[derive(Default)]
struct Echo {
    /// Each pushed message, and whether it is for later.
    pushes: Vec<(usize, PushEcho)>,
    later: Vec<bool>,
    /// The transaction id of each acknowledgment.
    acks: Vec<(usize, String)>,
    /// Starts and signals, with the instance.
    instances: Vec<(usize, &'static str, String)>,
    emits: Vec<usize>,
    /// Those beside the operations.
    timers: Timers,
    /// Those among the operations.
    set: Vec<(usize, &'static str)>,
    timers_set: Timers,
}

impl Plan {
    async fn check(state: &AppState, body: &Body) -> Result<Self, ApiError> {
        let parsed: TransactionBody<'_> = body.parse()?;
        if parsed.kv.is_some_and(|kv| !kv.is_empty()) {
            let message = "kv is not supported: this server keeps no key-value state of queues";
            return Err(ApiError::invalid_field("kv", message));
        }
        let operations = parsed.operations;
        let operations =
            operations.ok_or_else(|| ApiError::invalid("operations array required"))?;
        let timers = parsed.timers.unwrap_or_default();
        if operations.is_empty() && timers.is_empty() {
            return Err(ApiError::invalid("operations array cannot be empty"));
        }
        let required = parsed.required_leases.unwrap_or_default();
        let required: Vec<LeaseId> = required.iter().filter_map(|id| id.parse().ok()).collect();
        let mut plan = Self::default();
        plan.echo.timers = Timers::check(timers, (body, "timers"), &mut plan.command)?;
        let operations = plan.timers(operations, body)?;
        for (index, operation) in operations {
            let added = match operation.kind {
                OperationKind::Push => plan.push(index, operation, (state, body)),
                OperationKind::Ack => plan.ack(index, &operation, &required),
                OperationKind::Start => plan.start(index, operation),
                OperationKind::Signal => plan.signal(index, operation, state).await,
                OperationKind::Emit => plan.emit(index, operation, (state, body)).await,
                OperationKind::Schedule | OperationKind::Cancel => Ok(()),
            };
            added.map_err(|error| error.at(&format!("operations[{index}]")))?;
        }
        Ok(plan)
    }

    /// Takes out the operations on timers, so that they are before the messages for later.
    fn timers<'a>(
        &mut self,
        operations: Vec<Operation<'a>>,
        body: &Body,
    ) -> Result<Vec<(usize, Operation<'a>)>, ApiError> {
        let mut others = Vec::with_capacity(operations.len());
        for (index, operation) in operations.into_iter().enumerate() {
            let (op, kind) = match operation.kind {
                OperationKind::Schedule => (TimerOp::Schedule, "schedule"),
                OperationKind::Cancel => (TimerOp::Cancel, "cancel"),
                _ => {
                    others.push((index, operation));
                    continue;
                }
            };
            let timer = operation.timer(op);
            let added =
                timer.and_then(|timer| self.echo.timers_set.add(timer, body, &mut self.command));
            added.map_err(|error| error.at(&format!("operations[{index}]")))?;
            self.echo.set.push((index, kind));
        }
        Ok(others)
    }

    fn push(
        &mut self,
        index: usize,
        operation: Operation<'_>,
        (state, body): (&AppState, &Body),
    ) -> Result<(), ApiError> {
        let items = required(operation.items, "items")?;
        let Messages { echoes, later, pushes, schedules } = Messages::check(items, body, state)?;
        self.echo.pushes.extend(echoes.into_iter().map(|echo| (index, echo)));
        self.echo.later.extend(later);
        self.command.pushes.extend(pushes);
        self.command.schedules.extend(schedules);
        Ok(())
    }

    fn ack(
        &mut self,
        index: usize,
        operation: &Operation<'_>,
        required: &[LeaseId],
    ) -> Result<(), ApiError> {
        let ack = operation.ack();
        match ack.check(None, required)? {
            Settlement::Ask(item) => self.command.settles.push(item),
            Settlement::Known(outcome) => {
                self.refused.get_or_insert((self.echo.acks.len(), outcome));
            }
        }
        self.echo.acks.push((index, ack.transaction_id.unwrap_or_default()));
        Ok(())
    }

    fn start(&mut self, index: usize, operation: Operation<'_>) -> Result<(), ApiError> {
        let name = required(operation.name, "name")?;
        let instance = operation.instance.unwrap_or_else(|| Uuid::now_v7().to_string());
        let input = json(operation.input)?;
        let start = Client::start_envelope(&instance, &name, operation.version, input)?;
        self.command.envelopes.push(start);
        self.echo.instances.push((index, "start", instance));
        Ok(())
    }

    async fn signal(
        &mut self,
        index: usize,
        operation: Operation<'_>,
        state: &AppState,
    ) -> Result<(), ApiError> {
        let instance = required(operation.instance, "instance")?;
        let event = required(operation.event, "event")?;
        let begun = self.echo.instances.iter().any(|(_, _, known)| *known == instance);
        if !operation.early && !begun {
            exists(state.flow(), &instance).await?;
        }
        let raised = Client::event_envelope(&instance, &event, json(operation.data)?)?;
        self.command.envelopes.push(raised);
        self.echo.instances.push((index, "signal", instance));
        Ok(())
    }

    async fn emit(
        &mut self,
        index: usize,
        operation: Operation<'_>,
        (state, body): (&AppState, &Body),
    ) -> Result<(), ApiError> {
        let application = required(operation.application, "application")?;
        let application = ApplicationRef::parse(&application)
            .map_err(|error| ApiError::invalid_field("application", error.to_string()))?;
        let payload = required(operation.payload, "payload")?;
        let event_type = required(operation.event_type, "eventType")?;
        let event_id = operation.event_id.as_deref().map(EventId::parse).transpose();
        let event_id =
            event_id.map_err(|error| ApiError::invalid_field("eventId", error.to_string()))?;
        let emit = Emit {
            event_id,
            channels: channels(operation.channels.unwrap_or_default(), CHANNELS_MAX)?,
            ..Emit::new(
                application,
                type_name("eventType", &event_type)?,
                object(payload, &body.0)?,
            )
        };
        self.command.emits.push(state.hook().prepare(emit).await?);
        self.echo.emits.push(index);
        Ok(())
    }
}

impl Echo {
    fn committed(&self, done: Transacted) -> TransactionAnswer {
        let (mut schedules, mut cancels) = (done.schedules.iter(), done.cancels.iter());
        let timers = self.timers.results(&mut schedules, &mut cancels);
        let set = self.timers_set.results(&mut schedules, &mut cancels);
        let set = self.set.iter().zip(set);
        let set = set.map(|(place, result)| OperationResult::timer(*place, result));
        let set: Vec<_> = set.collect();
        let schedules = schedules.cloned().collect();
        let sent = in_order(&self.later, done.pushes, schedules);
        let pushed = self.pushes.iter().zip(&sent);
        let pushed = pushed.map(|((index, echo), sent)| OperationResult::push(*index, echo, sent));
        let acked = self.acks.iter().zip(&done.settles);
        let acked = acked.map(|((index, id), outcome)| OperationResult::ack(*index, id, outcome));
        let told = self.instances.iter().zip(&done.envelopes);
        let told = told.map(|((index, kind, instance), outcome)| {
            let status = match (*kind, outcome) {
                ("start", EnqueueOutcome::Queued) => "started",
                ("start", _) => "duplicate",
                _ => "accepted",
            };
            OperationResult::orchestration((*index, kind), instance, status)
        });
        let emitted = self.emits.iter().zip(&done.emits);
        let emitted = emitted.map(|(index, outcome)| emit_result(*index, outcome));
        let mut results: Vec<_> =
            pushed.chain(acked).chain(told).chain(emitted).chain(set).collect();
        results.sort_by_key(|result| result.index);
        TransactionAnswer { transaction_id: id(), success: true, error: None, results, timers }
    }

    fn refused(&self, why: &Refusal) -> (StatusCode, Json<TransactionAnswer>) {
        let (error, result) = match why {
            Refusal::Settle { index, outcome } => {
                let (index, transaction_id) = &self.acks[*index];
                let result = OperationResult::ack(*index, transaction_id, outcome);
                let why = refusal(outcome).unwrap_or_default();
                (format!("ACK operation failed: {why}"), result)
            }
            Refusal::Envelope { index } => {
                let (index, kind, instance) = &self.instances[*index];
                let why = "The instance has ended";
                let result = OperationResult::refused((*index, kind), why);
                (format!("{} operation failed: {why}: {instance}", kind.to_uppercase()), result)
            }
            Refusal::Emit { index, outcome } => {
                let why = match outcome {
                    EmitOutcome::NoApplication => "There is no such application",
                    EmitOutcome::Refused(_) => "The payload does not fit its event type",
                    _ => "The idempotency key was used for another message",
                };
                let result = OperationResult::refused((self.emits[*index], "emit"), why);
                (format!("EMIT operation failed: {why}"), result)
            }
        };
        let answer = TransactionAnswer {
            transaction_id: id(),
            success: false,
            error: Some(error),
            results: vec![result],
            timers: Vec::new(),
        };
        (StatusCode::CONFLICT, Json(answer))
    }
}

fn emit_result(index: usize, outcome: &EmitOutcome) -> OperationResult {
    let (status, id) = match outcome {
        EmitOutcome::Stored(message, _) => ("stored", message.id.to_string()),
        EmitOutcome::Repeated(message) | EmitOutcome::Taken(message) => {
            ("duplicate", message.id.to_string())
        }
        EmitOutcome::KeyReused | EmitOutcome::NoApplication | EmitOutcome::Refused(_) => {
            ("refused", String::new())
        }
    };
    OperationResult::emit(index, status, id)
}

/// An id of a transaction, for logs.
fn id() -> String {
    Uuid::now_v7().to_string()
}

fn required<T>(value: Option<T>, field: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| ApiError::invalid_field(field, format!("{field} is required")))
}

fn json(raw: Option<&serde_json::value::RawValue>) -> Result<Value, ApiError> {
    match raw {
        None => Ok(Value::null()),
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|error| ApiError::invalid(format!("Invalid JSON: {error}"))),
    }
}
