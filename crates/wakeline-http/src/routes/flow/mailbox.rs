//! Messages that wait for orchestrations, also for those that were never started.

use axum::Json;
use axum::extract::State;
use wakeline_core::{InstanceId, Realm, Verb};
use wakeline_store::flow::ListMailboxes;

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{Params, Parted};
use crate::state::AppState;
use crate::wire::mailbox::{MailboxAnswer, MailboxItemAnswer, MailboxesAnswer};

/// Ids under which events wait and that were never started, page by page.
///
/// `early=true` of an event makes them; `DELETE /api/v1/orchestrations/{instance}?force=true`
/// removes them.
#[utoipa::path(
    get, path = "/api/v1/mailboxes", tag = "orchestrations",
    params(
        ("prefix" = Option<String>, Query, description = "Only ids that begin with this"),
        ("limit" = Option<u32>, Query, description = "At most so many (100)"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before"),
    ),
    responses(
        (status = 200, description = "A page, by id", body = MailboxesAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
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
    // A page may have fewer than asked for, or none: the cursor leads on.
    mailboxes.retain(|one| permit.may(Realm::Flow, Verb::Read, one.instance.as_str()));
    Ok(Json(MailboxesAnswer {
        mailboxes: mailboxes.into_iter().map(Into::into).collect(),
        next_cursor,
    }))
}

/// Messages that wait for an instance, or under an id that was never started, in order.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/mailbox", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("limit" = Option<u32>, Query, description = "At most so many (100)"),
    ),
    responses(
        (status = 200, description = "The messages; none if nothing waits", body = MailboxAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn messages(
    State(state): State<AppState>,
    Parted(instance): Parted<String>,
    params: Params,
) -> Result<Json<MailboxAnswer>, ApiError> {
    let limit = params.number("limit", 100, 1..=1_000)?;
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let waiting = state.flow().mailbox(&instance, limit).await?;
    let messages: Vec<MailboxItemAnswer> = waiting.into_iter().map(Into::into).collect();
    Ok(Json(MailboxAnswer { instance, messages }))
}
