//! Interventions into orchestrations: cancel, terminate, hold back, delete, prune.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use wakeline_core::{InstanceId, Realm, Verb};
use wakeline_store::Deed;
use wakeline_store::flow::{InstanceFilter, PruneOptions};

use super::{accepted, exists, missing};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{self, Body, Params, Parted};
use crate::state::AppState;
use crate::wire::flow::{
    AcceptedAnswer, ChangedAnswer, DeletedAnswer, PrunedAnswer, PurgeBody, ReasonBody,
};

/// Ask an instance to end. Its code may clean up first.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/cancel", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    request_body = Option<ReasonBody>,
    responses(
        (status = 202, description = "The instance is notified", body = AcceptedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
        (status = 409, description = "The instance has ended", body = Problem),
    )
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    Parted(instance): Parted<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let reason = reason(&body, "cancelled over HTTP")?;
    state.flow().cancel(&instance, &reason).await?;
    Ok(accepted(instance))
}

/// End an instance at once, without its code.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/terminate", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    request_body = Option<ReasonBody>,
    responses(
        (status = 200, description = "Whether it ran", body = ChangedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn terminate(
    State(state): State<AppState>,
    Parted(instance): Parted<String>,
    body: Body,
) -> Result<Json<ChangedAnswer>, ApiError> {
    let reason = reason(&body, "terminated over HTTP")?;
    exists(state.flow(), &instance).await?;
    let changed = state.flow().terminate(&instance, &reason).await?;
    Ok(Json(ChangedAnswer { instance, changed }))
}

/// Hold an instance back: it takes no turns until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/suspend", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    request_body = Option<ReasonBody>,
    responses(
        (status = 200, description = "Whether that changed anything", body = ChangedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn suspend(
    State(state): State<AppState>,
    Parted(instance): Parted<String>,
    body: Body,
) -> Result<Json<ChangedAnswer>, ApiError> {
    let reason = reason(&body, "suspended over HTTP")?;
    exists(state.flow(), &instance).await?;
    let changed = state.flow().suspend(&instance, &reason).await?;
    Ok(Json(ChangedAnswer { instance, changed }))
}

/// Let an instance go on that was held back.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/resume", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "Whether it was held back", body = ChangedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    Parted(instance): Parted<String>,
) -> Result<Json<ChangedAnswer>, ApiError> {
    exists(state.flow(), &instance).await?;
    let changed = state.flow().resume(&instance).await?;
    Ok(Json(ChangedAnswer { instance, changed }))
}

/// Delete an instance with all below it.
#[utoipa::path(
    delete, path = "/api/v1/orchestrations/{instance}", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("force" = Option<bool>, Query,
            description = "Even if it has not ended, or has only early events (false)"),
    ),
    responses(
        (status = 200, description = "What was deleted", body = DeletedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
        (status = 409, description = "It has not ended, or a parent has it", body = Problem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Parted(instance): Parted<String>,
    params: Params,
) -> Result<Json<DeletedAnswer>, ApiError> {
    let force = params.flag("force")?;
    // By force also what waits for an instance that was never started.
    if !force {
        exists(state.flow(), &instance).await?;
    }
    let report = state.flow().delete(&instance, force).await?;
    let words = |what: &str, ids: &[InstanceId]| {
        let ids: Vec<_> = ids.iter().take(10).map(InstanceId::as_str).collect();
        ApiError::not_deleted(format!("{what}: {}", ids.join(", ")))
    };
    if !report.running.is_empty() {
        return Err(words("not ended", &report.running));
    }
    if !report.orphans.is_empty() {
        return Err(words("children of another instance", &report.orphans));
    }
    if report.instances == 0 {
        return Err(missing(&instance));
    }
    Ok(Json(report.into()))
}

/// Delete ended instances, with all below them.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/purge", tag = "orchestrations",
    request_body = PurgeBody,
    responses(
        (status = 200, description = "What was deleted", body = DeletedAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn purge(
    State(state): State<AppState>,
    permit: Permit,
    body: Body,
) -> Result<Json<DeletedAnswer>, ApiError> {
    let body: PurgeBody = body.parse()?;
    permit_all(&permit, &body)?;
    if body.keep_last.is_some() {
        return Err(ApiError::invalid(
            "keepLast is a field of /api/v1/orchestrations/prune, not of purge",
        ));
    }
    if body.instances.is_none() && body.ended_before.is_none() {
        return Err(ApiError::invalid("instances or endedBefore is required"));
    }
    Ok(Json(state.flow().delete_matching(filter(&body)?).await?.into()))
}

/// Remove old executions of instances; the current ones stay.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/prune", tag = "orchestrations",
    request_body = PurgeBody,
    responses(
        (status = 200, description = "What was removed", body = PrunedAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn prune(
    State(state): State<AppState>,
    permit: Permit,
    body: Body,
) -> Result<Json<PrunedAnswer>, ApiError> {
    let body: PurgeBody = body.parse()?;
    permit_all(&permit, &body)?;
    if body.keep_last.is_none() && body.ended_before.is_none() {
        return Err(ApiError::invalid(
            "keepLast or endedBefore is required: it says which executions are kept",
        ));
    }
    let filter = InstanceFilter { ended_before: None, ..filter(&body)? };
    let options = PruneOptions { keep_last: body.keep_last, ended_before: ended_before(&body)? };
    Ok(Json(state.flow().prune(filter, options).await?.into()))
}

/// Whether the caller may do it to the instances that a request names, or to all if it names none.
fn permit_all(permit: &Permit, body: &PurgeBody) -> Result<(), ApiError> {
    let Some(instances) = &body.instances else {
        return permit.need_all(Realm::Flow, Verb::Admin);
    };
    Deed::tell(Some(instances.join(",")), None);
    instances.iter().try_for_each(|one| permit.need(Realm::Flow, Verb::Admin, one))
}

fn filter(body: &PurgeBody) -> Result<InstanceFilter, ApiError> {
    let named = |ids: &Vec<String>| ids.iter().map(InstanceId::new).collect::<Result<_, _>>();
    let limit = body.limit.unwrap_or(1_000);
    if !(1..=10_000).contains(&limit) {
        return Err(ApiError::invalid(format!("limit must be from 1 to 10000, not {limit}")));
    }
    Ok(InstanceFilter {
        instances: body.instances.as_ref().map(named).transpose()?,
        ended_before: ended_before(body)?,
        limit,
    })
}

fn ended_before(body: &PurgeBody) -> Result<Option<wakeline_core::Timestamp>, ApiError> {
    let text = body.ended_before.as_deref();
    text.map(|text| input::timestamp("endedBefore", text)).transpose()
}

fn reason(body: &Body, usual: &str) -> Result<String, ApiError> {
    let body: ReasonBody = body.parse_or_default()?;
    Ok(body.reason.unwrap_or_else(|| usual.to_owned()))
}
