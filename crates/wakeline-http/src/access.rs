//! Authentication and authorization of requests, and request metrics.
//!
//! # Where it sits
//! Around all routes: [`guard`] looks up the [`policy`] of a route, authenticates the caller, and
//! either runs the request or rejects it. A route whose body names resources, or whose list must be
//! filtered, checks the caller's [`Permit`] itself.
//!
//! # Invariants
//! * No side effect happens before access to every resource that the request names was checked.
//! * A resource on which the caller has no permission at all answers 404, whether it exists or not.
//!   A resource on which the caller has other permissions answers 403.
//! * An administrative action runs under an [`AuditAction`], which the store records in the same
//!   transaction.

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
use wakeline_store::AuditAction;

use crate::browser;
use crate::error::ApiError;
use crate::input::strict;
use crate::state::AppState;
use permit::Permit;
use policy::{Name, Policy, PolicyLookup};

/// Path prefixes of the routes that follow the Svix API, including its error format.
const HOOK_PATHS: [&str; 4] =
    ["/api/v1/app", "/api/v1/event-type", "/api/v1/operational-webhook", "/api/v1/background-task"];

/// Whether a path is one of [`HOOK_PATHS`] or below one of them.
fn is_hook(path: &str) -> bool {
    let below = |base: &&str| {
        path.strip_prefix(*base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    HOOK_PATHS.iter().any(below)
}

/// Checks access to a route, runs the request and records its metrics. Errors are rendered in the
/// format of the route.
pub(crate) async fn guard(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let pattern = route.as_ref().map(MatchedPath::as_str);
    let hook = is_hook(request.uri().path());
    let result = check_and_run(&state, pattern, request, next).await;
    let mut response = result.unwrap_or_else(IntoResponse::into_response);
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

/// Runs a request if its caller may make it; otherwise returns why not.
async fn check_and_run(
    state: &AppState,
    route: Option<&str>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let found = route.map_or(PolicyLookup::NoRoute, |route| policy::find(request.method(), route));
    let public = matches!(found, PolicyLookup::Policy(Policy { name: Name::Public, .. }));
    if state.access().allows_anonymous() {
        browser::check(state.settings(), &request, public)?;
    }
    if public {
        return Ok(next.run(request).await);
    }
    let permit = authenticate(state, request.headers()).await?;
    let policy = match found {
        PolicyLookup::Policy(policy) => policy,
        PolicyLookup::NoRoute => return Ok(next.run(request).await),
        PolicyLookup::OtherMethods(allowed) => {
            return Err(ApiError::method_not_allowed(request.method().as_str(), allowed));
        }
        PolicyLookup::NoPolicy if permit.is_everything() => return Ok(next.run(request).await),
        PolicyLookup::NoPolicy => return Err(ApiError::forbidden("*:*:*")),
    };
    let params = if needs_params(&policy) { Some(params(&mut request).await?) } else { None };
    if !permit.is_everything() {
        permit.check(state, &policy, params.as_ref()).await?;
    }
    if let Some(schema) = route.and_then(|route| strict::find(request.method(), route)) {
        schema.check_query(request.uri())?;
    }
    request.extensions_mut().insert(permit.clone());
    if policy.action.is_empty() {
        return Ok(next.run(request).await);
    }
    let action = audit_action(&permit, &policy, params.as_ref(), &request);
    let response = Box::pin(action.during(next.run(request))).await;
    if response.status().is_success() {
        state.access().prune_audit();
    }
    Ok(response)
}

async fn authenticate(state: &AppState, headers: &HeaderMap) -> Result<Permit, ApiError> {
    let given = headers.get(header::AUTHORIZATION);
    let bearer = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    match state.access().authenticate(bearer).await {
        Ok(caller) => Ok(Permit::new(caller)),
        Err(Denied::Nothing) if given.is_some() => {
            Err(ApiError::unauthorized("the Authorization header does not begin with `Bearer `"))
        }
        Err(Denied::Nothing) => Err(ApiError::unauthorized("the request has no credentials")),
        Err(Denied::Invalid(why)) => {
            log_refused_credentials(why);
            metrics::counter!("wakeline_http_refused_credentials_total").increment(1);
            Err(ApiError::unauthorized(why))
        }
        Err(Denied::Store(error)) => Err(error.into()),
    }
}

/// Logs why credentials were refused, at most once a second, because anyone can send any number of
/// wrong credentials.
fn log_refused_credentials(why: &'static str) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock();
    if last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1)) {
        *last = Some(Instant::now());
        tracing::warn!(why, "the credentials of a request are not valid");
    }
}

/// Whether the access check or the audit entry needs the path parameters.
fn needs_params(policy: &Policy) -> bool {
    let not_in_path = [Name::Body, Name::Listed, Name::AnyResource, Name::All];
    !policy.action.is_empty() || !not_in_path.contains(&policy.name)
}

async fn params(request: &mut Request) -> Result<RawPathParams, ApiError> {
    let read = request.extract_parts::<RawPathParams>().await;
    read.map_err(|error| {
        ApiError::invalid_in("path", "", format!("the path is not valid: {error}"))
    })
}

/// The audit entry for a request. Its target is made of the path parameters, unless the route
/// replaces it.
fn audit_action(
    permit: &Permit,
    policy: &Policy,
    params: Option<&RawPathParams>,
    request: &Request,
) -> AuditAction {
    let parts: Vec<&str> = params.into_iter().flatten().map(|(_, value)| value).collect();
    AuditAction {
        actor: permit.actor().to_owned(),
        action: policy.action,
        target: parts.join("/"),
        detail: request.uri().query().unwrap_or_default().to_owned(),
    }
}

/// The policy of a route, for tests: its realm and verb, and where its resource is named.
#[doc(hidden)]
pub fn policy_of(method: &str, route: &str) -> Option<(String, String)> {
    let method: Method = method.parse().ok()?;
    match policy::find(&method, route) {
        PolicyLookup::Policy(found) => {
            let verb = found.verb.as_str(Some(found.realm));
            Some((format!("{}:{verb}", found.realm.as_str()), format!("{:?}", found.name)))
        }
        PolicyLookup::NoRoute | PolicyLookup::OtherMethods(_) | PolicyLookup::NoPolicy => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_paths_match_whole_path_segments() {
        for path in ["/api/v1/app", "/api/v1/app/x/msg", "/api/v1/background-task/1"] {
            assert!(is_hook(path), "{path}");
        }
        for path in ["/api/v1/apple", "/api/v1/push", "/events", "/api/v1/health"] {
            assert!(!is_hook(path), "{path}");
        }
    }
}
