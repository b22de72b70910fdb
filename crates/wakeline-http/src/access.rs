//! Who may call what, and what is counted of each call.
//!
//! # Where it sits
//! Around all routes: [`guard`] finds a route's [`policy`], asks who calls, and lets the call pass
//! or not. Where names are in a body, or a list must be cut, the route itself asks its [`Permit`].
//!
//! # Invariants
//! * Nothing is done before everything that a request names was allowed.
//! * A name on which a caller may do nothing answers 404, whether it exists or not; one on which
//!   they may do something else, 403.
//! * An administrative act runs under a [`Deed`], which the store records with it.

pub(crate) mod permit;
pub(crate) mod policy;

use std::time::{Duration, Instant};

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use wakeline_access::Denied;
use wakeline_store::Deed;

use crate::browser;
use crate::error::ApiError;
use crate::input::strict;
use crate::state::AppState;
use permit::Permit;
use policy::{Found, Name, Policy};

/// Where routes have Svix's shape, errors included.
const HOOK_PATHS: [&str; 4] =
    ["/api/v1/app", "/api/v1/event-type", "/api/v1/operational-webhook", "/api/v1/background-task"];

/// Whether a path is one of them, or below one.
fn is_hook(path: &str) -> bool {
    let below = |base: &&str| {
        path.strip_prefix(*base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    HOOK_PATHS.iter().any(below)
}

/// Lets a request pass, or not, and counts it. Tells failures in the shape of their route.
pub(crate) async fn guard(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let pattern = route.as_ref().map(MatchedPath::as_str);
    let hook = is_hook(request.uri().path());
    let passed = pass(&state, pattern, request, next).await;
    let mut response = passed.unwrap_or_else(IntoResponse::into_response);
    if hook && let Some(error) = response.extensions_mut().remove::<ApiError>() {
        response = error.into_hook_response();
    }
    let route = pattern.unwrap_or("unmatched").to_owned();
    let status = response.status().as_u16().to_string();
    metrics::counter!("wakeline_http_requests_total", "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("wakeline_http_request_seconds", "route" => route)
        .record(started.elapsed().as_secs_f64());
    response
}

async fn pass(
    state: &AppState,
    route: Option<&str>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let found = route.map_or(Found::NoRoute, |route| policy::find(request.method(), route));
    let public = matches!(found, Found::Policy(Policy { name: Name::Nobody, .. }));
    if state.access().is_open() {
        browser::check(state.settings(), &request, public)?;
    }
    if public {
        return Ok(next.run(request).await);
    }
    let permit = admit(state, request.headers()).await?;
    let policy = match found {
        Found::Policy(policy) => policy,
        Found::NoRoute => return Ok(next.run(request).await),
        Found::OtherMethods(allowed) => {
            return Err(ApiError::method_not_allowed(request.method().as_str(), allowed));
        }
        Found::Nothing if permit.is_everything() => return Ok(next.run(request).await),
        Found::Nothing => return Err(ApiError::forbidden("*:*:*")),
    };
    let params = match needs_params(&policy) {
        true => Some(params(&mut request).await?),
        false => None,
    };
    if !permit.is_everything() {
        permit.check(state, &policy, params.as_ref()).await?;
    }
    if let Some(known) = route.and_then(|route| strict::find(request.method(), route)) {
        known.check_query(request.uri())?;
    }
    request.extensions_mut().insert(permit.clone());
    if policy.act.is_empty() {
        return Ok(next.run(request).await);
    }
    let deed = deed(&permit, &policy, params.as_ref(), &request);
    let response = Box::pin(deed.during(next.run(request))).await;
    if response.status().is_success() {
        state.access().prune_audit();
    }
    Ok(response)
}

/// Who calls.
async fn admit(state: &AppState, headers: &HeaderMap) -> Result<Permit, ApiError> {
    let given = headers.get(header::AUTHORIZATION);
    let bearer = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    match state.access().authenticate(bearer).await {
        Ok(caller) => Ok(Permit::new(caller)),
        Err(Denied::Nothing) if given.is_some() => {
            Err(ApiError::unauthorized("the Authorization header does not begin with `Bearer `"))
        }
        Err(Denied::Nothing) => Err(ApiError::unauthorized("the request has no credentials")),
        Err(Denied::Invalid(why)) => {
            note_refused(why);
            metrics::counter!("wakeline_http_refused_credentials_total").increment(1);
            Err(ApiError::unauthorized(why))
        }
        Err(Denied::Store(error)) => Err(error.into()),
    }
}

/// Logs why credentials were refused, once a second: anybody may send any number of wrong ones.
fn note_refused(why: &'static str) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock();
    if last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1)) {
        *last = Some(Instant::now());
        tracing::warn!(why, "credentials were refused");
    }
}

/// Whether the parts of the path matter: to the check, or to the audit.
fn needs_params(policy: &Policy) -> bool {
    let inside = [Name::Body, Name::Listed, Name::Some, Name::All];
    !policy.act.is_empty() || !inside.contains(&policy.name)
}

async fn params(request: &mut Request) -> Result<RawPathParams, ApiError> {
    let read = request.extract_parts::<RawPathParams>().await;
    read.map_err(|error| {
        ApiError::invalid_in("path", "", format!("the path is not valid: {error}"))
    })
}

/// What the audit will tell: the parts of the path, unless the route knows better.
fn deed(
    permit: &Permit,
    policy: &Policy,
    params: Option<&RawPathParams>,
    request: &Request,
) -> Deed {
    let parts: Vec<&str> = params.into_iter().flatten().map(|(_, value)| value).collect();
    Deed {
        actor: permit.actor().to_owned(),
        act: policy.act,
        target: parts.join("/"),
        detail: request.uri().query().unwrap_or_default().to_owned(),
    }
}

/// Every route with a policy: method, pattern, realm and verb, and where the name is.
#[doc(hidden)]
pub fn policy_of(method: &str, route: &str) -> Option<(String, String)> {
    let method: Method = method.parse().ok()?;
    match policy::find(&method, route) {
        Found::Policy(found) => {
            let verb = found.verb.as_str(Some(found.realm));
            Some((format!("{}:{verb}", found.realm.as_str()), format!("{:?}", found.name)))
        }
        Found::NoRoute | Found::OtherMethods(_) | Found::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart_by_whole_parts() {
        for path in ["/api/v1/app", "/api/v1/app/x/msg", "/api/v1/background-task/1"] {
            assert!(is_hook(path), "{path}");
        }
        for path in ["/api/v1/apple", "/api/v1/push", "/events", "/api/v1/health"] {
            assert!(!is_hook(path), "{path}");
        }
    }
}
