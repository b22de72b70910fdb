//! `/api/v1/app…`: applications.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationId, ApplicationRef, Realm, Uid, Verb};
use wakeline_hook::{ApplicationIn as NewApplication, HookError, RESERVED_UID};
use wakeline_store::Deed;
use wakeline_store::hook::{Application, Created, Page, PageOrder, PageRequest, UpdateOutcome};

use super::{app_ref, find_app, key_reused, no_application};
use crate::access::permit::Permit;
use crate::error::ApiError;
use crate::input::{Body, Params, Parted, Repeatable};
use crate::state::AppState;
use crate::wire::hook::application::{ApplicationIn, ApplicationOut, ApplicationPatch};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List applications by age.
#[utoipa::path(
    get, path = "/api/v1/app", tag = "webhooks",
    params(
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("order" = Option<String>, Query, description = "ascending or descending"),
    ),
    responses(
        (status = 200, description = "A page", body = List<ApplicationOut>),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<List<ApplicationOut>>, ApiError> {
    let paging = Paging::<ApplicationId>::read(&params, PageOrder::Ascending, |t| t.parse().ok())?;
    let (request, given) = paging.split();
    let page = visible(&state, &permit, request).await?;
    let key = |application: &Application| application.id.to_string();
    List::new(page, given.as_deref(), key, ApplicationOut::new).map(Json)
}

/// A page of what the caller may see.
async fn visible(
    state: &AppState,
    permit: &Permit,
    mut request: PageRequest<ApplicationId>,
) -> Result<Page<Application>, ApiError> {
    let (limit, mut found) = (request.limit as usize, Vec::new());
    loop {
        let page = state.hook().store().applications(request.clone(), RESERVED_UID).await?;
        if permit.may_all(Realm::Hook, Verb::Read) {
            return Ok(page);
        }
        // Pages that lead back are in the list's order: what they go on from is their first.
        let edge = if request.backwards { page.items.first() } else { page.items.last() };
        request.after = edge.map(|application| application.id).or(request.after);
        let mut seen: Vec<_> = page.items.into_iter().collect();
        seen.retain(|application| permit.may_application(Verb::Read, application));
        match request.backwards {
            true => found.splice(..0, seen).for_each(drop),
            false => found.extend(seen),
        }
        if page.done || found.len() >= limit {
            let done = page.done && found.len() <= limit;
            match request.backwards {
                true => drop(found.drain(..found.len().saturating_sub(limit))),
                false => found.truncate(limit),
            }
            return Ok(Page { items: found, done });
        }
    }
}

/// Make an application: one tenant.
#[utoipa::path(
    post, path = "/api/v1/app", tag = "webhooks", request_body = ApplicationIn,
    params(
        ("get_if_exists" = Option<bool>, Query, description = "Take the one with its uid"),
        ("idempotency-key" = Option<String>, Header, description = "Makes repeating it harmless"),
    ),
    responses(
        (status = 201, description = "Made", body = ApplicationOut),
        (status = 200, description = "It is there", body = ApplicationOut),
        (status = 409, description = "Its uid is taken, or the key was used", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    (permit, Repeatable(key)): (Permit, Repeatable),
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    let get_if_exists = params.flag("get_if_exists")?;
    let new = body.parse::<ApplicationIn>()?.into_new(None)?;
    need_name(&permit, new.uid.as_ref())?;
    Deed::tell(new.uid.as_ref().map(ToString::to_string), None);
    let (status, made) = match state.hook().create_application(new, key).await? {
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

/// Whether the caller may give an application this name; one without is covered by no pattern.
fn need_name(permit: &Permit, uid: Option<&Uid>) -> Result<(), ApiError> {
    match uid {
        Some(uid) => permit.need(Realm::Hook, Verb::Configure, uid.as_str()),
        None => permit.need_all(Realm::Hook, Verb::Configure),
    }
}

/// A change of an application, unless it gives it a name that the caller may not give.
fn renamed(
    permit: &Permit,
    old: Option<Uid>,
    new: NewApplication,
) -> Result<NewApplication, ApiError> {
    if new.uid != old {
        need_name(permit, new.uid.as_ref())?;
    }
    Ok(new)
}

/// One application.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}", tag = "webhooks",
    params(("app_id" = String, Path, description = "Its id or your own")),
    responses(
        (status = 200, description = "It", body = ApplicationOut),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<Json<ApplicationOut>, ApiError> {
    let found = find_app(&state, &app_ref(&named)?).await?;
    ApplicationOut::new(found).map(Json)
}

/// Make or replace an application.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}", tag = "webhooks", request_body = ApplicationIn,
    params(("app_id" = String, Path, description = "Its id or your own")),
    responses(
        (status = 200, description = "Replaced", body = ApplicationOut),
        (status = 201, description = "Made", body = ApplicationOut),
        (status = 404, description = "There is none with this id", body = HookProblem),
        (status = 409, description = "Its uid is taken", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    permit: Permit,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let named = app_ref(&named)?;
    let body: ApplicationIn = body.parse()?;
    let replace =
        |now: Application| renamed(&permit, now.uid.clone(), body.clone().into_new(now.uid)?);
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

/// Change some of an application.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}", tag = "webhooks", request_body = ApplicationPatch,
    params(("app_id" = String, Path, description = "Its id or your own")),
    responses(
        (status = 200, description = "Changed", body = ApplicationOut),
        (status = 404, description = "There is none", body = HookProblem),
        (status = 409, description = "Its uid is taken", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    permit: Permit,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<Json<ApplicationOut>, ApiError> {
    let named = app_ref(&named)?;
    let body: ApplicationPatch = body.parse()?;
    let change = |now: Application| renamed(&permit, now.uid.clone(), body.clone().over(now)?);
    let updated = state.hook().change_application(&named, change).await?;
    ApplicationOut::new(found(&named, updated)?).map(Json)
}

/// Remove an application with all that is its own.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}", tag = "webhooks",
    params(("app_id" = String, Path, description = "Its id or your own")),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "There is none", body = HookProblem),
        (status = 422, description = "It is the server's own", body = HookInvalid),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<StatusCode, ApiError> {
    let named = app_ref(&named)?;
    match state.hook().delete_application(&named).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_application(&named)),
    }
}

fn found(
    named: &ApplicationRef,
    outcome: UpdateOutcome<Application>,
) -> Result<Application, ApiError> {
    match outcome {
        UpdateOutcome::Updated(application) => Ok(application),
        UpdateOutcome::Missing => Err(no_application(named)),
        UpdateOutcome::Taken => Err(ApiError::conflict("another application has this uid")),
        UpdateOutcome::Stale => Err(ApiError::from(HookError::Contended)),
    }
}

fn taken(found: &Application) -> ApiError {
    ApiError::conflict(format!("the application {} has this uid", found.id))
}
