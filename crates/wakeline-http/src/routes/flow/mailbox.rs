//! Messages that wait for orchestrations, including instances that were never started.

use axum::Json;
use axum::extract::State;
use wakeline_core::{InstanceId, Realm, Verb};
use wakeline_store::flow::ListMailboxes;

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::mailbox::{MailboxAnswer, MailboxItemAnswer, MailboxesAnswer};

/// List the mailboxes of instances that have events waiting but were never started.
///
/// Raising an event with `early=true` creates such a mailbox;
/// `DELETE /api/v1/orchestrations/{instance}?force=true` deletes it.
#[utoipa::path(
    get, path = "/api/v1/mailboxes", tag = "orchestrations",
    params(
        ("prefix" = Option<String>, Query,
            description = "Only instances whose id begins with this text"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 100)"),
        ("cursor" = Option<String>, Query, description = "The `nextCursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page of mailboxes, ordered by id", body = MailboxesAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<MailboxesAnswer>, ApiError> {
    let limit = params.number("limit", 100, 1..=1_000)?;
    let list = ListMailboxes {
        id_prefix: params.text("prefix").map(str::to_owned),
        after: params.parsed("cursor", |text| Ok(InstanceId::new(text)?))?,
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
    };
    let mut mailboxes = state.flow().early_mailboxes(list).await?;
    let full = mailboxes.len() as u64 == limit;
    let last = mailboxes.last().filter(|_| full);
    let next_cursor = last.map(|last| last.instance.to_string());
    // A page may have fewer items than the limit, or none; the cursor continues the list.
    mailboxes.retain(|one| permit.may(Realm::Flow, Verb::Read, one.instance.as_str()));
    Ok(Json(MailboxesAnswer {
        mailboxes: mailboxes.into_iter().map(Into::into).collect(),
        next_cursor,
    }))
}

/// List the messages that wait for an instance in order, even if it was never started.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/mailbox", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 100)"),
    ),
    responses(
        (status = 200, description = "The waiting messages; may be empty", body = MailboxAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn messages(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
    params: QueryParams,
) -> Result<Json<MailboxAnswer>, ApiError> {
    let limit = params.number("limit", 100, 1..=1_000)?;
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let waiting = state.flow().mailbox(&instance, limit).await?;
    let messages: Vec<MailboxItemAnswer> = waiting.into_iter().map(Into::into).collect();
    Ok(Json(MailboxAnswer { instance, messages }))
}
