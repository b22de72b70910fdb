//! `/api/v1/messages…`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use wakeline_core::{PartitionId, TransactionId};

use crate::error::{ApiError, Problem};
use crate::input::Parted;
use crate::state::AppState;
use crate::wire::messages::MessageAnswer;

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
