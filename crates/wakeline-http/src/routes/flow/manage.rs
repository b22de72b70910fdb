//! Managing orchestrations: cancelling, terminating, suspending, deleting and pruning.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use wakeline_core::{InstanceId, Realm, Verb};
use wakeline_store::AuditAction;
use wakeline_store::flow::{InstanceFilter, PruneOptions};

use super::{accepted, exists, missing};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{self, JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::flow::{
    AcceptedAnswer, ChangedAnswer, DeletedAnswer, PrunedAnswer, PurgeBody, ReasonBody,
};

/// Request the cancellation of an instance. Its code may clean up before it ends.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/cancel", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    request_body = Option<ReasonBody>,
    responses(
        (status = 202, description = "The cancellation was requested", body = AcceptedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
        (status = 409, description = "The instance has ended", body = Problem),
    )
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let reason = reason(&body, "cancelled over HTTP")?;
    state.flow().cancel(&instance, &reason).await?;
    Ok(accepted(instance))
}

/// Terminate an instance immediately, without running its code.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/terminate", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    request_body = Option<ReasonBody>,
    responses(
        (status = 200, description = "Whether the instance was running", body = ChangedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn terminate(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
    body: JsonBody,
) -> Result<Json<ChangedAnswer>, ApiError> {
    let reason = reason(&body, "terminated over HTTP")?;
    exists(state.flow(), &instance).await?;
    let changed = state.flow().terminate(&instance, &reason).await?;
    Ok(Json(ChangedAnswer { instance, changed }))
}

/// Suspend an instance. It takes no turns until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/suspend", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    request_body = Option<ReasonBody>,
    responses(
        (status = 200, description = "Whether the instance was changed", body = ChangedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn suspend(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
    body: JsonBody,
) -> Result<Json<ChangedAnswer>, ApiError> {
    let reason = reason(&body, "suspended over HTTP")?;
    exists(state.flow(), &instance).await?;
    let changed = state.flow().suspend(&instance, &reason).await?;
    Ok(Json(ChangedAnswer { instance, changed }))
}

/// Resume a suspended instance.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/resume", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "Whether the instance was suspended", body = ChangedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
) -> Result<Json<ChangedAnswer>, ApiError> {
    exists(state.flow(), &instance).await?;
    let changed = state.flow().resume(&instance).await?;
    Ok(Json(ChangedAnswer { instance, changed }))
}

/// Delete an instance and all its descendants.
#[utoipa::path(
    delete, path = "/api/v1/orchestrations/{instance}", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("force" = Option<bool>, Query,
            description = "Also delete an instance that has not ended or was never started \
                (default false)"),
    ),
    responses(
        (status = 200, description = "Counts of what was deleted", body = DeletedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
        (status = 409, description = "The instance has not ended, or it is the child of another \
            instance",
            body = Problem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
    params: QueryParams,
) -> Result<Json<DeletedAnswer>, ApiError> {
    let force = params.flag("force")?;
    // With `force`, messages that wait for an instance that was never started are deleted too.
    if !force {
        exists(state.flow(), &instance).await?;
    }
    let report = state.flow().delete(&instance, force).await?;
    let not_deleted = |what: &str, ids: &[InstanceId]| {
        let ids: Vec<_> = ids.iter().take(10).map(InstanceId::as_str).collect();
        ApiError::not_deleted(format!("{what}: {}", ids.join(", ")))
    };
    if !report.running.is_empty() {
        return Err(not_deleted(
            "terminate these instances first, or use force=true",
            &report.running,
        ));
    }
    if !report.orphans.is_empty() {
        return Err(not_deleted(
            "delete the parents of these child instances instead",
            &report.orphans,
        ));
    }
    if report.instances == 0 {
        return Err(missing(&instance));
    }
    Ok(Json(report.into()))
}

/// Delete ended instances and all their descendants.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/purge", tag = "orchestrations",
    request_body = PurgeBody,
    responses(
        (status = 200, description = "Counts of what was deleted", body = DeletedAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn purge(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
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

/// Delete old executions of instances. The current executions are kept.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/prune", tag = "orchestrations",
    request_body = PurgeBody,
    responses(
        (status = 200, description = "Counts of what was removed", body = PrunedAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn prune(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<Json<PrunedAnswer>, ApiError> {
    let body: PurgeBody = body.parse()?;
    permit_all(&permit, &body)?;
    if body.keep_last.is_none() && body.ended_before.is_none() {
        return Err(ApiError::invalid(
            "keepLast or endedBefore is required: it determines which executions are kept",
        ));
    }
    let filter = InstanceFilter { ended_before: None, ..filter(&body)? };
    let options = PruneOptions { keep_last: body.keep_last, ended_before: ended_before(&body)? };
    Ok(Json(state.flow().prune(filter, options).await?.into()))
}

/// Fails unless the caller may administer the instances that a request names, or all instances if
/// it names none.
fn permit_all(permit: &Permit, body: &PurgeBody) -> Result<(), ApiError> {
    let Some(instances) = &body.instances else {
        return permit.need_all(Realm::Flow, Verb::Admin);
    };
    AuditAction::amend(Some(instances.join(",")), None);
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

fn reason(body: &JsonBody, default: &str) -> Result<String, ApiError> {
    let body: ReasonBody = body.parse_or_default()?;
    Ok(body.reason.unwrap_or_else(|| default.to_owned()))
}
