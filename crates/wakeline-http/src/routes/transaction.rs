//! `POST /api/v1/transaction`

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use uuid::Uuid;
use wakeline_core::{ApplicationRef, EventId};
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
use crate::wire::ack::{RequiredLeases, Settlement, refusal};
use crate::wire::hook::message::{CHANNELS_MAX, object};
use crate::wire::hook::{channels, type_name};
use crate::wire::push::PushEcho;
use crate::wire::timers::TimerOp;
use crate::wire::transaction::{
    Operation, OperationKind, OperationResult, TransactionAnswer, TransactionBody,
};

/// Push, settle, start and signal orchestrations, emit events, set timers: all or nothing.
///
/// Duplicates do not fail the transaction: their result is `duplicate`.
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
    let mut plan = Plan::check(&state, &body)?;
    plan.permit(&state, &permit).await?;
    stamp(&mut plan.command, &permit);
    if let Some(refusal) = plan.complete(&state).await? {
        return Ok(plan.echo.refused(&refusal));
    }
    let Plan { command, echo, .. } = plan;
    Ok(match state.queue().transact(command, state.others()).await? {
        TransactOutcome::Refused(refusal) => echo.refused(&refusal),
        TransactOutcome::Committed(done) => (StatusCode::OK, Json(echo.committed(done))),
    })
}

/// Most instances that one transaction may signal and that have to be looked up.
const SIGNALS_MAX: usize = 100;

/// A transaction on its way: what it names is checked first, and looked up only then.
#[derive(Default)]
struct Plan {
    command: TransactCommand,
    echo: Echo,
    settlements: Vec<Settlement>,
    /// Instances that must exist, with the operation that says so.
    signalled: BTreeMap<String, usize>,
    emits: Vec<Emit>,
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
    fn check(state: &AppState, body: &Body) -> Result<Self, ApiError> {
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
        let (len, most) = (operations.len(), state.settings().batch_len_max as usize);
        if len > most {
            let message = format!("operations has {len} entries, more than the limit of {most}");
            return Err(ApiError::invalid_field("operations", message));
        }
        let required = parsed.required_leases.unwrap_or_default();
        if required.len() > most {
            let message = format!(
                "requiredLeases has {} entries, more than the limit of {most}",
                required.len()
            );
            return Err(ApiError::invalid_field("requiredLeases", message));
        }
        let required = RequiredLeases::new(&required);
        let mut plan = Self::default();
        plan.echo.timers = Timers::check(timers, (body, "timers"), &mut plan.command)?;
        let operations = plan.timers(operations, body)?;
        for (index, operation) in operations {
            let added = match operation.kind {
                OperationKind::Push => plan.push(index, operation, (state, body)),
                OperationKind::Ack => plan.ack(index, &operation, &required),
                OperationKind::Start => plan.start(index, operation),
                OperationKind::Signal => plan.signal(index, operation),
                OperationKind::Emit => plan.emit(index, operation, body),
                OperationKind::Schedule | OperationKind::Cancel => Ok(()),
            };
            added.map_err(|error| error.at(&format!("operations[{index}]")))?;
        }
        if plan.signalled.len() > SIGNALS_MAX {
            let message = format!(
                "operations signal {} instances, more than the limit of {SIGNALS_MAX}: use several \
                 transactions, or `early` for instances that may not exist yet",
                plan.signalled.len()
            );
            return Err(ApiError::invalid_field("operations", message));
        }
        Ok(plan)
    }

    /// Fails unless everything in it is allowed.
    async fn permit(&self, state: &AppState, permit: &Permit) -> Result<(), ApiError> {
        permit.need_transaction(state, &self.command).await?;
        for emit in &self.emits {
            permit.need_emit(state, &emit.application).await?;
        }
        permit.need_settle(state, Settlement::items(&self.settlements)).await
    }

    /// Looks up what the store must say beforehand. Returns why it cannot succeed, if that is
    /// known by then.
    async fn complete(&mut self, state: &AppState) -> Result<Option<Refusal>, ApiError> {
        let at = |index: usize| format!("operations[{index}]");
        for (instance, index) in &self.signalled {
            exists(state.flow(), instance).await.map_err(|error| error.at(&at(*index)))?;
        }
        for (emit, index) in self.emits.drain(..).zip(&self.echo.emits) {
            let prepared = state.hook().prepare(emit).await;
            let prepared = prepared.map_err(|error| ApiError::from(error).at(&at(*index)))?;
            self.command.emits.push(prepared);
        }
        Settlement::name_groups(state, &mut self.settlements).await?;
        for (index, settlement) in self.settlements.drain(..).enumerate() {
            match settlement {
                Settlement::Ask(item, _) => self.command.settles.push(item),
                Settlement::Known(outcome) => return Ok(Some(Refusal::Settle { index, outcome })),
            }
        }
        Ok(None)
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
        required: &RequiredLeases,
    ) -> Result<(), ApiError> {
        let ack = operation.ack();
        self.settlements.push(ack.check(None, required)?);
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

    fn signal(&mut self, index: usize, operation: Operation<'_>) -> Result<(), ApiError> {
        let instance = required(operation.instance, "instance")?;
        let event = required(operation.event, "event")?;
        let begun = self.echo.instances.iter().any(|(_, _, known)| *known == instance);
        if !operation.early && !begun {
            self.signalled.entry(instance.clone()).or_insert(index);
        }
        let raised = Client::event_envelope(&instance, &event, json(operation.data)?)?;
        self.command.envelopes.push(raised);
        self.echo.instances.push((index, "signal", instance));
        Ok(())
    }

    fn emit(
        &mut self,
        index: usize,
        operation: Operation<'_>,
        body: &Body,
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
        self.emits.push(emit);
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
        TransactionAnswer {
            transaction_id: id(),
            success: true,
            error: None,
            code: None,
            results,
            timers,
        }
    }

    fn refused(&self, why: &Refusal) -> (StatusCode, Json<TransactionAnswer>) {
        let (error, code, result) = match why {
            Refusal::Settle { index, outcome } => {
                let (index, transaction_id) = &self.acks[*index];
                let result = OperationResult::ack(*index, transaction_id, outcome);
                let why = refusal(outcome).unwrap_or_default();
                let code = match outcome {
                    SettleOutcome::NotFound => "not_found",
                    _ => "stale_lease",
                };
                (format!("ACK operation failed: {why}"), code, result)
            }
            Refusal::Envelope { index } => {
                let (index, kind, instance) = &self.instances[*index];
                let why = "The instance has ended";
                let result = OperationResult::refused((*index, kind), why);
                let error = format!("{} operation failed: {why}: {instance}", kind.to_uppercase());
                (error, "orchestration_ended", result)
            }
            Refusal::Emit { index, outcome } => {
                let (why, code) = match outcome {
                    EmitOutcome::NoApplication => ("There is no such application", "not_found"),
                    EmitOutcome::Refused(_) => {
                        ("The payload does not fit its event type", "invalid_request")
                    }
                    _ => ("The idempotency key was used for another message", "conflict"),
                };
                let result = OperationResult::refused((self.emits[*index], "emit"), why);
                (format!("EMIT operation failed: {why}"), code, result)
            }
        };
        let answer = TransactionAnswer {
            transaction_id: id(),
            success: false,
            error: Some(error),
            code: Some(code),
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
        Some(raw) => serde_json::from_str(raw.get()).map_err(|error| {
            ApiError::invalid(format!("input or payload is not valid JSON: {error}"))
        }),
    }
}
