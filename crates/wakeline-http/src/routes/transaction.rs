//! `POST /api/v1/transaction`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use uuid::Uuid;
use wakeline_core::LeaseId;
use wakeline_store::{PushOutcome, SettleOutcome, TransactCommand, TransactOutcome};

use super::push::{into_items, stamp};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::Body;
use crate::state::AppState;
use crate::wire::ack::{Settlement, refusal};
use crate::wire::push::PushEcho;
use crate::wire::transaction::{
    OperationKind, OperationResult, TransactionAnswer, TransactionBody,
};

/// Push and settle, all or nothing.
#[utoipa::path(
    post, path = "/api/v1/transaction", tag = "queue", request_body = TransactionBody<'_>,
    responses(
        (status = 200, description = "All of it happened", body = TransactionAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
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
    permit.need_transaction(&state, &plan.command).await?;
    stamp(&mut plan.command.pushes, &permit);
    let id = Uuid::now_v7().to_string();
    if let Some((ack, outcome)) = &plan.refused {
        return Ok(refused(id, &plan.acks[*ack], outcome));
    }
    let outcome = state.queue().transact(plan.command).await?;
    Ok(match outcome {
        TransactOutcome::Committed { pushes, settles } => {
            let results = results(&plan.pushes, &pushes, &plan.acks, &settles);
            let answer =
                TransactionAnswer { transaction_id: id, success: true, error: None, results };
            (StatusCode::OK, Json(answer))
        }
        TransactOutcome::Refused { settle, outcome } => refused(id, &plan.acks[settle], &outcome),
    })
}

/// A validated transaction.
struct Plan {
    command: TransactCommand,
    /// Operation index and echo of each pushed message.
    pushes: Vec<(usize, PushEcho)>,
    /// Operation index and transaction id of each acknowledgment.
    acks: Vec<(usize, String)>,
    /// The first acknowledgment that cannot succeed, known without the store.
    refused: Option<(usize, SettleOutcome)>,
}

impl Plan {
    fn check(state: &AppState, body: &Body) -> Result<Self, ApiError> {
        let parsed: TransactionBody<'_> = body.parse()?;
        let operations = parsed.operations;
        let operations =
            operations.ok_or_else(|| ApiError::invalid("operations array required"))?;
        if operations.is_empty() {
            return Err(ApiError::invalid("operations array cannot be empty"));
        }
        let required = parsed.required_leases.unwrap_or_default();
        let required: Vec<LeaseId> = required.iter().filter_map(|id| id.parse().ok()).collect();
        let mut plan = Self {
            command: TransactCommand::default(),
            pushes: Vec::new(),
            acks: Vec::new(),
            refused: None,
        };
        for (index, mut operation) in operations.into_iter().enumerate() {
            let at = format!("operations[{index}]");
            if operation.kind == OperationKind::Push {
                let items = operation.items.take();
                let items =
                    items.ok_or_else(|| ApiError::invalid(format!("{at}.items is required")))?;
                let items = into_items(items, body, state).map_err(|error| error.at(&at))?;
                plan.pushes.extend(items.iter().map(|item| (index, PushEcho::from(item))));
                plan.command.pushes.extend(items);
                continue;
            }
            let ack = operation.ack();
            let settlement = ack.check(None, &required).map_err(|error| error.at(&at))?;
            match settlement {
                Settlement::Ask(item) => plan.command.settles.push(item),
                Settlement::Known(outcome) => {
                    plan.refused.get_or_insert((plan.acks.len(), outcome));
                }
            }
            plan.acks.push((index, ack.transaction_id.unwrap_or_default()));
        }
        Ok(plan)
    }
}

fn results(
    echoes: &[(usize, PushEcho)],
    pushes: &[PushOutcome],
    acks: &[(usize, String)],
    settles: &[SettleOutcome],
) -> Vec<OperationResult> {
    let pushed = echoes
        .iter()
        .zip(pushes)
        .map(|((index, echo), outcome)| (*index, OperationResult::push(*index, echo, outcome)));
    let acked = acks
        .iter()
        .zip(settles)
        .map(|((index, id), outcome)| (*index, OperationResult::ack(*index, id, outcome)));
    let mut all: Vec<_> = pushed.chain(acked).collect();
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

fn refused(
    id: String,
    (index, transaction_id): &(usize, String),
    outcome: &SettleOutcome,
) -> (StatusCode, Json<TransactionAnswer>) {
    let why = refusal(outcome).unwrap_or_default();
    let answer = TransactionAnswer {
        transaction_id: id,
        success: false,
        error: Some(format!("ACK operation failed: {why}")),
        results: vec![OperationResult::ack(*index, transaction_id, outcome)],
    };
    (StatusCode::CONFLICT, Json(answer))
}
