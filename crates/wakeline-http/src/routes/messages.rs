//! `GET /api/v1/dlq` and `GET /api/v1/messages/{partitionId}/{transactionId}`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use wakeline_core::{GroupName, PartitionId, PartitionName, QueueName, TransactionId};
use wakeline_store::DeadLetterFilter;

use crate::error::{ApiError, Problem};
use crate::input::{Params, Parted};
use crate::state::AppState;
use crate::wire::messages::{DeadLetterAnswer, DeadLettersAnswer, MessageAnswer, Pagination};

/// Dead letters, newest first.
#[utoipa::path(
    get, path = "/api/v1/dlq", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("partition" = Option<String>, Query, description = "Only of this partition"),
        ("consumerGroup" = Option<String>, Query, description = "Only of this group"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 1000 (100)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "The dead letters", body = DeadLettersAnswer<'_>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn dead_letters(
    State(state): State<AppState>,
    params: Params,
) -> Result<Response, ApiError> {
    let filter = DeadLetterFilter {
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        group: params.parsed("consumerGroup", |text| Ok(GroupName::new(text)?))?,
        partition: params.parsed("partition", |text| Ok(PartitionName::new(text)?))?,
        limit: params.number("limit", 100, 1..=1000)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    };
    let (limit, offset) = (filter.limit, filter.offset);
    let letters = state.queue().store().dead_letters(filter).await?;
    let messages = letters.iter().map(DeadLetterAnswer::new).collect::<Result<_, _>>()?;
    let pagination = Pagination { limit, offset };
    Ok(Json(DeadLettersAnswer { messages, pagination }).into_response())
}

/// One message, and how each group stands with it.
#[utoipa::path(
    get, path = "/api/v1/messages/{partitionId}/{transactionId}", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The name of the message's push"),
    ),
    responses(
        (status = 200, description = "The message", body = MessageAnswer<'_>),
        (status = 404, description = "There is no such message", body = Problem),
    )
)]
pub(crate) async fn message(
    State(state): State<AppState>,
    Parted((partition, transaction_id)): Parted<(String, String)>,
) -> Result<Response, ApiError> {
    let missing = || ApiError::not_found("Message not found");
    let partition: PartitionId = partition.parse().map_err(|_| missing())?;
    let transaction_id = TransactionId::new(transaction_id)?;
    let detail = state.queue().store().message(partition, &transaction_id).await?;
    let detail = detail.ok_or_else(missing)?;
    Ok(Json(MessageAnswer::new(partition, &detail)?).into_response())
}
