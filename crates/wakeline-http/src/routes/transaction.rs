//! `POST /api/v1/transaction`: writes to queues, orchestrations and webhooks that are committed
//! together.

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
use super::push::{ValidatedPush, in_order, set_producer};
use super::timers::TimerOperations;
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::JsonBody;
use crate::state::AppState;
use crate::wire::ack::{RequiredLeases, Settlement, refusal};
use crate::wire::hook::message::{CHANNELS_MAX, object};
use crate::wire::hook::{channels, type_name};
use crate::wire::push::PushEcho;
use crate::wire::timers::TimerOp;
use crate::wire::transaction::{
    Operation, OperationKind, OperationResult, TransactionAnswer, TransactionBody,
};

/// Commit several operations together, or none of them.
///
/// The operations push and settle messages, start and signal orchestrations, send webhook messages,
/// and set and cancel timers. Duplicates do not fail the transaction; their result is `duplicate`.
#[utoipa::path(
    post, path = "/api/v1/transaction", tag = "queue", request_body = TransactionBody<'_>,
    responses(
        (status = 200, description = "The transaction was committed", body = TransactionAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such instance to signal", body = Problem),
        (status = 409, description = "Refused; nothing was written", body = TransactionAnswer),
        (status = 429, description = "A queue is full; nothing was written", body = Problem),
    )
)]
pub(crate) async fn transaction(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<(StatusCode, Json<TransactionAnswer>), ApiError> {
    let mut plan = TransactionPlan::check(&state, &body)?;
    plan.permit(&state, &permit).await?;
    set_producer(&mut plan.command, &permit);
    if let Some(refusal) = plan.complete(&state).await? {
        return Ok(plan.echo.refused(&refusal));
    }
    let TransactionPlan { command, echo, .. } = plan;
    Ok(match state.queue().transact(command, state.others()).await? {
        TransactOutcome::Refused(refusal) => echo.refused(&refusal),
        TransactOutcome::Committed(done) => (StatusCode::OK, Json(echo.committed(done))),
    })
}

/// The maximum number of instances that a transaction may signal and that must be looked up.
const SIGNALS_MAX: usize = 100;

/// A transaction that is being prepared. Permissions are checked before anything that the
/// transaction names is looked up.
#[derive(Default)]
struct TransactionPlan {
    command: TransactCommand,
    echo: TransactionEcho,
    settlements: Vec<Settlement>,
    /// Instances that must exist, with the operation that signals them.
    signalled: BTreeMap<String, usize>,
    emits: Vec<Emit>,
}

/// What the response repeats of a transaction, with the indices of the operations.
#[derive(Default)]
struct TransactionEcho {
    /// The pushed messages.
    pushes: Vec<(usize, PushEcho)>,
    /// Whether each pushed message is for later.
    later: Vec<bool>,
    /// The transaction id of each acknowledgment.
    acks: Vec<(usize, String)>,
    /// Starts and signals.
    instances: Vec<InstanceEcho>,
    emits: Vec<usize>,
    /// The timers in the field `timers`.
    timers: TimerOperations,
    /// The timers among the operations: their indices and kinds, in the order of the next field.
    operation_timers: Vec<(usize, &'static str)>,
    operation_timer_echoes: TimerOperations,
}

/// What the response repeats of a start or a signal.
struct InstanceEcho {
    index: usize,
    /// The type of the operation: `start` or `signal`.
    kind: &'static str,
    instance: String,
}

impl TransactionPlan {
    fn check(state: &AppState, body: &JsonBody) -> Result<Self, ApiError> {
        let parsed: TransactionBody<'_> = body.parse()?;
        if parsed.kv.is_some_and(|kv| !kv.is_empty()) {
            let message = "kv is not supported: this server keeps no key-value state of queues";
            return Err(ApiError::invalid_field("kv", message));
        }
        let operations = parsed.operations;
        let operations =
            operations.ok_or_else(|| ApiError::invalid("operations array is required"))?;
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
        plan.echo.timers = TimerOperations::check(timers, body, "timers", &mut plan.command)?;
        let operations = plan.timers(operations, body)?;
        for (index, operation) in operations {
            let added = match operation.kind {
                OperationKind::Push => plan.push(index, operation, state, body),
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

    /// Fails unless the caller may do everything in the transaction.
    async fn permit(&self, state: &AppState, permit: &Permit) -> Result<(), ApiError> {
        permit.need_transaction(state, &self.command).await?;
        for emit in &self.emits {
            permit.need_emit(state, &emit.application).await?;
        }
        permit.need_settle(state, Settlement::items(&self.settlements)).await
    }

    /// Reads what must be known before the transaction. Returns a refusal if it is already certain
    /// that the transaction cannot succeed.
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
                Settlement::Command(item, _) => self.command.settles.push(item),
                Settlement::Known(outcome) => return Ok(Some(Refusal::Settle { index, outcome })),
            }
        }
        Ok(None)
    }

    /// Adds the operations on timers to the transaction and returns the others. Timers must come
    /// before the messages for later, which the transaction schedules too.
    fn timers<'a>(
        &mut self,
        operations: Vec<Operation<'a>>,
        body: &JsonBody,
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
            let echoes = &mut self.echo.operation_timer_echoes;
            let added = timer.and_then(|timer| echoes.add(timer, body, &mut self.command));
            added.map_err(|error| error.at(&format!("operations[{index}]")))?;
            self.echo.operation_timers.push((index, kind));
        }
        Ok(others)
    }

    fn push(
        &mut self,
        index: usize,
        operation: Operation<'_>,
        state: &AppState,
        body: &JsonBody,
    ) -> Result<(), ApiError> {
        let items = required(operation.items, "items")?;
        let ValidatedPush { echoes, later, pushes, schedules } =
            ValidatedPush::check(items, body, state)?;
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
        self.echo.instances.push(InstanceEcho { index, kind: "start", instance });
        Ok(())
    }

    fn signal(&mut self, index: usize, operation: Operation<'_>) -> Result<(), ApiError> {
        let instance = required(operation.instance, "instance")?;
        let event = required(operation.event, "event")?;
        let started = self.echo.instances.iter().any(|known| known.instance == instance);
        if !operation.early && !started {
            self.signalled.entry(instance.clone()).or_insert(index);
        }
        let raised = Client::event_envelope(&instance, &event, json(operation.data)?)?;
        self.command.envelopes.push(raised);
        self.echo.instances.push(InstanceEcho { index, kind: "signal", instance });
        Ok(())
    }

    fn emit(
        &mut self,
        index: usize,
        operation: Operation<'_>,
        body: &JsonBody,
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

impl TransactionEcho {
    fn committed(&self, done: Transacted) -> TransactionAnswer {
        let (mut schedules, mut cancels) = (done.schedules.iter(), done.cancels.iter());
        let timers = self.timers.results(&mut schedules, &mut cancels);
        let set = self.operation_timer_echoes.results(&mut schedules, &mut cancels);
        let set = self.operation_timers.iter().zip(set);
        let set = set.map(|((index, kind), result)| OperationResult::timer(*index, kind, result));
        let set: Vec<_> = set.collect();
        let schedules = schedules.cloned().collect();
        let outcomes = in_order(&self.later, done.pushes, schedules);
        let pushed = self.pushes.iter().zip(&outcomes);
        let pushed =
            pushed.map(|((index, echo), outcome)| OperationResult::push(*index, echo, outcome));
        let acked = self.acks.iter().zip(&done.settles);
        let acked = acked.map(|((index, id), outcome)| OperationResult::ack(*index, id, outcome));
        let enqueued = self.instances.iter().zip(&done.envelopes);
        let enqueued = enqueued.map(|(echo, outcome)| {
            let status = match (echo.kind, outcome) {
                ("start", EnqueueOutcome::Queued) => "started",
                ("start", _) => "duplicate",
                _ => "accepted",
            };
            OperationResult::orchestration(echo.index, echo.kind, &echo.instance, status)
        });
        let emitted = self.emits.iter().zip(&done.emits);
        let emitted = emitted.map(|(index, outcome)| emit_result(*index, outcome));
        let mut results: Vec<_> =
            pushed.chain(acked).chain(enqueued).chain(emitted).chain(set).collect();
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
                let InstanceEcho { index, kind, instance } = &self.instances[*index];
                let why = "The instance has ended";
                let result = OperationResult::refused(*index, kind, why);
                let error = format!("{} operation failed: {why}: {instance}", kind.to_uppercase());
                (error, "orchestration_ended", result)
            }
            Refusal::Emit { index, outcome } => {
                let (why, code) = match outcome {
                    EmitOutcome::NoApplication => ("There is no such application", "not_found"),
                    EmitOutcome::Refused(_) => (
                        "The payload does not match the schema of its event type",
                        "invalid_request",
                    ),
                    _ => ("The idempotency key was used for another message", "conflict"),
                };
                let result = OperationResult::refused(self.emits[*index], "emit", why);
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

/// Generates the id of a transaction, for logs.
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
