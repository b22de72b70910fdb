//! `/api/v1/app…`: applications, which are the tenants of webhooks.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationId, ApplicationRef, Realm, Uid, Verb};
use wakeline_hook::{ApplicationIn as NewApplication, HookError, RESERVED_UID};
use wakeline_store::AuditAction;
use wakeline_store::hook::{Application, Created, HookPage, PageOrder, PageRequest, UpdateOutcome};

use super::{CreateRequest, app_ref, find_app, key_reused, no_application};
use crate::access::permit::Permit;
use crate::error::ApiError;
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::application::{ApplicationBody, ApplicationOut, ApplicationPatch};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List applications in the order of their creation.
#[utoipa::path(
    get, path = "/api/v1/app", tag = "webhooks",
    params(
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("order" = Option<String>, Query, description = "`ascending` or `descending`"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<ApplicationOut>),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<List<ApplicationOut>>, ApiError> {
    let paging = Paging::<ApplicationId>::read(&params, PageOrder::Ascending, |t| t.parse().ok())?;
    let (request, given) = paging.split();
    let page = visible(&state, &permit, request).await?;
    let key = |application: &Application| application.id.to_string();
    List::new(page, given.as_deref(), key, ApplicationOut::new).map(Json)
}

/// Reads a page of the applications that the caller may see.
async fn visible(
    state: &AppState,
    permit: &Permit,
    mut request: PageRequest<ApplicationId>,
) -> Result<HookPage<Application>, ApiError> {
    let (limit, mut found) = (request.limit as usize, Vec::new());
    loop {
        let page = state.hook().store().applications(request.clone(), RESERVED_UID).await?;
        if permit.may_all(Realm::Hook, Verb::Read) {
            return Ok(page);
        }
        // A page that leads backwards is in the list's order too, so its first item is the one to
        // continue from.
        let edge = if request.backwards { page.items.first() } else { page.items.last() };
        request.after = edge.map(|application| application.id).or(request.after);
        let mut seen: Vec<_> = page.items.into_iter().collect();
        seen.retain(|application| permit.may_application(Verb::Read, application));
        if request.backwards {
            found.splice(..0, seen).for_each(drop);
        } else {
            found.extend(seen);
        }
        if page.done || found.len() >= limit {
            let done = page.done && found.len() <= limit;
            if request.backwards {
                found.drain(..found.len().saturating_sub(limit));
            } else {
                found.truncate(limit);
            }
            return Ok(HookPage { items: found, done });
        }
    }
}

/// Create an application. An application represents one tenant.
#[utoipa::path(
    post, path = "/api/v1/app", tag = "webhooks", request_body = ApplicationBody,
    params(
        ("get_if_exists" = Option<bool>, Query,
            description = "Return the existing application with this uid (default false)"),
        ("idempotency-key" = Option<String>, Header,
            description = "Makes the request safe to retry"),
    ),
    responses(
        (status = 201, description = "Created", body = ApplicationOut),
        (status = 200, description = "The application already exists", body = ApplicationOut),
        (status = 409, description = "The uid is already in use, or the idempotency key was used \
            for another request",
            body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    request: CreateRequest,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let CreateRequest { permit, idempotency_key, params } = request;
    let get_if_exists = params.flag("get_if_exists")?;
    let new = body.parse::<ApplicationBody>()?.into_new(None)?;
    need_name(&permit, new.uid.as_ref())?;
    AuditAction::amend(new.uid.as_ref().map(ToString::to_string), None);
    let (status, made) = match state.hook().create_application(new, idempotency_key).await? {
        Created::New(made) | Created::Repeated(made) => (StatusCode::CREATED, made),
        Created::Taken(found) if get_if_exists => (StatusCode::OK, found),
        Created::Taken(found) => return Err(taken(&found)),
        Created::KeyReused => return Err(key_reused()),
        Created::NoApplication => {
            return Err(ApiError::not_found("the application was deleted at the same time"));
        }
    };
    Ok((status, Json(ApplicationOut::new(made)?)).into_response())
}

/// Fails unless the caller may give an application this uid. An application without a uid is not
/// matched by any pattern, so it requires permission on all applications.
fn need_name(permit: &Permit, uid: Option<&Uid>) -> Result<(), ApiError> {
    match uid {
        Some(uid) => permit.need(Realm::Hook, Verb::Configure, uid.as_str()),
        None => permit.need_all(Realm::Hook, Verb::Configure),
    }
}

/// Fails if a change gives an application a uid that the caller may not give.
fn check_change(
    permit: &Permit,
    old: Option<Uid>,
    new: NewApplication,
) -> Result<NewApplication, ApiError> {
    if new.uid != old {
        need_name(permit, new.uid.as_ref())?;
    }
    Ok(new)
}

/// Get an application.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}", tag = "webhooks",
    params(("app_id" = String, Path, description = "The application's id or uid")),
    responses(
        (status = 200, description = "The application", body = ApplicationOut),
        (status = 404, description = "There is no such application", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<Json<ApplicationOut>, ApiError> {
    let found = find_app(&state, &app_ref(&named)?).await?;
    ApplicationOut::new(found).map(Json)
}

/// Create or replace an application.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}", tag = "webhooks", request_body = ApplicationBody,
    params(("app_id" = String, Path, description = "The application's id or uid")),
    responses(
        (status = 200, description = "Replaced", body = ApplicationOut),
        (status = 201, description = "Created", body = ApplicationOut),
        (status = 404, description = "There is no such object, and an id chosen by the server \
            cannot be created",
            body = HookProblem),
        (status = 409, description = "The uid is already in use", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let named = app_ref(&named)?;
    let body: ApplicationBody = body.parse()?;
    let replace =
        |now: Application| check_change(&permit, now.uid.clone(), body.clone().into_new(now.uid)?);
    match state.hook().change_application(&named, replace).await? {
        UpdateOutcome::Missing => {}
        updated => {
            return Ok(Json(ApplicationOut::new(found(&named, updated)?)?).into_response());
        }
    }
    let ApplicationRef::Own(own) = &named else {
        return Err(no_application(&named));
    };
    let new = body.into_new(Some(own.clone()))?;
    need_name(&permit, new.uid.as_ref())?;
    match state.hook().create_application(new, None).await? {
        Created::New(made) | Created::Repeated(made) => {
            Ok((StatusCode::CREATED, Json(ApplicationOut::new(made)?)).into_response())
        }
        Created::Taken(found) => Err(taken(&found)),
        Created::KeyReused | Created::NoApplication => Err(no_application(&named)),
    }
}

/// Change the given fields of an application.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}", tag = "webhooks", request_body = ApplicationPatch,
    params(("app_id" = String, Path, description = "The application's id or uid")),
    responses(
        (status = 200, description = "Updated", body = ApplicationOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 409, description = "The uid is already in use", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<Json<ApplicationOut>, ApiError> {
    let named = app_ref(&named)?;
    let body: ApplicationPatch = body.parse()?;
    let change =
        |now: Application| check_change(&permit, now.uid.clone(), body.clone().apply_to(now)?);
    let updated = state.hook().change_application(&named, change).await?;
    ApplicationOut::new(found(&named, updated)?).map(Json)
}

/// Delete an application with its endpoints and messages.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}", tag = "webhooks",
    params(("app_id" = String, Path, description = "The application's id or uid")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "The application belongs to the server and cannot be deleted",
            body = HookInvalid),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    let named = app_ref(&named)?;
    if state.hook().delete_application(&named).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_application(&named))
    }
}

fn found(
    named: &ApplicationRef,
    outcome: UpdateOutcome<Application>,
) -> Result<Application, ApiError> {
    match outcome {
        UpdateOutcome::Updated(application) => Ok(application),
        UpdateOutcome::Missing => Err(no_application(named)),
        UpdateOutcome::Taken => Err(ApiError::conflict("another application already has this uid")),
        UpdateOutcome::Stale => Err(ApiError::from(HookError::Contended)),
    }
}

fn taken(found: &Application) -> ApiError {
    ApiError::conflict(format!("the application {} already has this uid", found.id))
}
