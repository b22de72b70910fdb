//! Reading orchestrations: lists, histories, executions and key-value state.

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use wakeline_core::{InstanceId, OrchestrationName, Realm, Timestamp, Verb};
use wakeline_flow::provider::EventPage;
use wakeline_flow::{Json as Value, UNCLAIMED_AFTER};
use wakeline_store::flow::{InstanceState, ListInstances};

use super::{activities, exists};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{self, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::flow::{ExecutionAnswer, HistoryAnswer, OrchestrationsAnswer};

/// The maximum size of the history events in one response.
const PAGE_BYTES: usize = 1 << 20;

/// List instances, newest first.
#[utoipa::path(
    get, path = "/api/v1/orchestrations", tag = "orchestrations",
    params(
        ("name" = Option<String>, Query, description = "Only instances of this orchestration"),
        ("state" = Option<String>, Query,
            description = "Only in these states, separated by commas: pending, running, completed, \
                failed, cancelled, terminated, suspended; or only `waiting`: instances with work \
                that no worker has claimed for 30 seconds, longest wait first, without other \
                filters and pages"),
        ("prefix" = Option<String>, Query,
            description = "Only instances whose id begins with this text"),
        ("parent" = Option<String>, Query, description = "Only children of this instance"),
        ("createdFrom" = Option<String>, Query,
            description = "Only instances created at or after this time"),
        ("createdBefore" = Option<String>, Query,
            description = "Only instances created before this time"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 100)"),
        ("cursor" = Option<String>, Query, description = "The `nextCursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page of results", body = OrchestrationsAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<OrchestrationsAnswer>, ApiError> {
    if params.text("state") == Some("waiting") {
        return waiting(&state, &permit, &params).await;
    }
    let (states, suspended) = states(params.text("state").unwrap_or_default())?;
    let time = |name| params.parsed(name, |text| input::timestamp(name, text));
    let limit = params.number("limit", 100, 1..=1_000)?;
    let filter = ListInstances {
        name: params.parsed("name", |text| Ok(OrchestrationName::new(text)?))?,
        states,
        suspended,
        id_prefix: params.text("prefix").map(str::to_owned),
        parent: params.parsed("parent", |text| Ok(InstanceId::new(text)?))?,
        created_from: time("createdFrom")?,
        created_before: time("createdBefore")?,
        after: params.parsed("cursor", read_cursor)?,
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
    };
    let (mut instances, next) = state.flow().list(filter).await?;
    // A page may have fewer items than the limit, or none; the cursor continues the list.
    instances.retain(|one| permit.may(Realm::Flow, Verb::Read, one.instance.as_str()));
    Ok(Json(OrchestrationsAnswer {
        orchestrations: instances.iter().map(Into::into).collect(),
        next_cursor: next.map(|(at, instance)| cursor(at, &instance)),
    }))
}

/// Lists the instances with work that waits for a worker, longest wait first.
async fn waiting(
    state: &AppState,
    permit: &Permit,
    params: &QueryParams,
) -> Result<Json<OrchestrationsAnswer>, ApiError> {
    for name in ["name", "prefix", "parent", "createdFrom", "createdBefore", "cursor"] {
        if params.text(name).is_some() {
            return Err(ApiError::invalid(format!("{name} cannot be used with state=waiting")));
        }
    }
    let limit = params.number("limit", 100, 1..=1_000)?;
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let (mut orchestrations, mut seen) = (Vec::new(), HashSet::new());
    for unclaimed in state.flow().unclaimed(UNCLAIMED_AFTER, limit).await? {
        let id = unclaimed.instance.as_str();
        if !seen.insert(unclaimed.instance.clone()) || !permit.may(Realm::Flow, Verb::Read, id) {
            continue;
        }
        orchestrations.extend(state.flow().status(id).await?.instance().map(Into::into));
    }
    Ok(Json(OrchestrationsAnswer { orchestrations, next_cursor: None }))
}

fn states(text: &str) -> Result<(Vec<InstanceState>, Option<bool>), ApiError> {
    let (mut states, mut suspended) = (Vec::new(), None);
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match InstanceState::parse(word) {
            _ if word == "suspended" => suspended = Some(true),
            Some(InstanceState::ContinuedAsNew) | None => {
                return Err(ApiError::invalid(format!(
                    "state must be pending, running, suspended, completed, failed, cancelled, \
                     terminated, or waiting alone, not {word:?}"
                )));
            }
            Some(state) => states.push(state),
        }
    }
    Ok((states, suspended))
}

/// Encodes the end of a page as a cursor.
fn cursor(at: Timestamp, instance: &InstanceId) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}/{instance}", at.0))
}

fn read_cursor(text: &str) -> Result<(Timestamp, InstanceId), ApiError> {
    let parse = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (at, instance) = text.split_once('/')?;
        Some((Timestamp(at.parse().ok()?), InstanceId::new(instance).ok()?))
    };
    parse().ok_or_else(|| ApiError::invalid("cursor must be one that an earlier response returned"))
}

/// Get the history of an execution in pages.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/history", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("execution" = Option<u64>, Query,
            description = "Number of the execution (default: the current one)"),
        ("from" = Option<u64>, Query, description = "Id of the first event to return (default 1)"),
    ),
    responses(
        (status = 200, description = "The events in order", body = HistoryAnswer),
        (status = 404, description = "There is no such instance or execution", body = Problem),
    )
)]
pub(crate) async fn history(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
    params: QueryParams,
) -> Result<Json<HistoryAnswer>, ApiError> {
    exists(state.flow(), &instance).await?;
    let execution = match params.text("execution") {
        Some(_) => Some(params.number("execution", 1, 1..=u64::MAX >> 1)?),
        None => None,
    };
    let from = params.number("from", 1, 1..=u64::MAX >> 1)?;
    let page = state.flow().history_page(&instance, execution, from, PAGE_BYTES).await?;
    if let Some(wanted) = execution
        && from == 1
        && page.events.is_empty()
    {
        return Err(ApiError::not_found(format!("{instance} has no execution {wanted}")));
    }
    let activities = match page.next {
        Some(_) => Vec::new(),
        None => activities(state.flow(), &instance).await?,
    };
    let EventPage { execution, events, next } = page;
    Ok(Json(HistoryAnswer { execution, events, next, activities }))
}

/// List the executions of an instance, oldest first.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/executions", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "The executions", body = Vec<ExecutionAnswer>),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn executions(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
) -> Result<Json<Vec<ExecutionAnswer>>, ApiError> {
    exists(state.flow(), &instance).await?;
    let executions = state.flow().executions(&instance).await?;
    Ok(Json(executions.into_iter().map(Into::into).collect()))
}

/// Get the key-value state of an instance.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/kv", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "The values by key", body = Object),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn kv_all(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
) -> Result<Json<BTreeMap<String, Value>>, ApiError> {
    exists(state.flow(), &instance).await?;
    Ok(Json(state.flow().kv_all(&instance).await?))
}

/// Get a value of an instance's key-value state.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/kv/{key}", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, description = "The value", body = Object),
        (status = 404, description = "There is no such value", body = Problem),
    )
)]
pub(crate) async fn kv_one(
    State(state): State<AppState>,
    PathParams((instance, key)): PathParams<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let value = state.flow().kv_get(&instance, &key).await?;
    let missing = || ApiError::not_found(format!("{instance} has no value {key:?}"));
    value.map(Json).ok_or_else(missing)
}

/// List an instance and all its descendants, parents before children.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/tree", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "The ids of the instances", body = Vec<String>),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn tree(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
) -> Result<Json<Vec<String>>, ApiError> {
    exists(state.flow(), &instance).await?;
    let tree = state.flow().tree(&instance).await?;
    Ok(Json(tree.iter().map(ToString::to_string).collect()))
}
