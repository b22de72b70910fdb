//! `/api/v1/status/analytics`, `/api/v1/analytics/…`: figures over time, as nodes wrote them down.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use wakeline_core::{QueueName, Realm, Verb};
use wakeline_store::{QueuePoint, StatsQuery, StatsRange};

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::Params;
use crate::state::AppState;
use crate::wire::nodes::{
    PostgresAnswer, RefreshAnswer, SharedStateAnswer, SystemAnswer, WorkersAnswer,
};
use crate::wire::stats::{
    AnalyticsAnswer, QueueLag, QueueOps, QueueParked, QueueSeriesAnswer, RetentionAnswer,
};

/// How long a series is that does not say from when.
const SPAN: Duration = Duration::from_secs(3600);
/// The longest step, in minutes.
const STEP_MAX: u32 = 31 * 24 * 60;

/// Which figures a request asks for.
pub(super) fn query(params: &Params) -> Result<StatsQuery, ApiError> {
    let step = params.parsed("interval", |text| match text {
        "minute" => Ok(1),
        "hour" => Ok(60),
        "day" => Ok(24 * 60),
        _ => match text.parse::<u32>() {
            Ok(minutes) if (1..=STEP_MAX).contains(&minutes) => Ok(minutes),
            _ => {
                let message = format!(
                    "interval must be minute, hour, day, or from 1 to {STEP_MAX} minutes, not \
                     {text:?}"
                );
                Err(ApiError::invalid_param("interval", message))
            }
        },
    })?;
    let (from, to) = (params.moment("from")?, params.moment("to")?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(ApiError::invalid_param("from", "from must not be after to"));
    }
    Ok(StatsQuery {
        from,
        to,
        span: SPAN,
        step_minutes: step.unwrap_or(0),
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        by_node: false,
    })
}

/// What a caller may see: of the queues that they may read; what belongs to no queue only if they
/// may read all.
pub(super) fn visible(permit: &Permit, points: Vec<QueuePoint>) -> Vec<QueuePoint> {
    let all = permit.may_all(Realm::Queue, Verb::Read);
    let seen = |point: &QueuePoint| match &point.queue {
        Some(queue) => all || permit.may(Realm::Queue, Verb::Read, queue.as_str()),
        None => all,
    };
    points.into_iter().filter(seen).collect()
}

/// Figures that the caller may see.
pub(super) async fn points(
    state: &AppState,
    permit: &Permit,
    query: StatsQuery,
) -> Result<(StatsRange, Vec<QueuePoint>), ApiError> {
    let (range, points) = state.queue().store().queue_stats(query).await?;
    Ok((range, visible(permit, points)))
}

/// Messages over time.
#[utoipa::path(
    get, path = "/api/v1/status/analytics", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Of a point: `minute`, `hour`, `day`, or minutes (by the time range)"),
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
        ("queue" = Option<String>, Query, description = "Only of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = AnalyticsAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn analytics(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<AnalyticsAnswer>, ApiError> {
    let (range, points) = points(&state, &permit, query(&params)?).await?;
    let interval = params.text("interval").map(ToOwned::to_owned);
    let interval = interval.unwrap_or_else(|| range.step_minutes.to_string());
    Ok(Json(AnalyticsAnswer::new(interval, range, &points)))
}

/// What happened in queues, over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/queue-ops", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Of a point: `minute`, `hour`, `day`, or minutes (by the time range)"),
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
        ("queue" = Option<String>, Query, description = "Only of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = QueueSeriesAnswer<QueueOps>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn queue_ops(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<QueueSeriesAnswer<QueueOps>>, ApiError> {
    let (range, points) = points(&state, &permit, query(&params)?).await?;
    let ops = |point: &QueuePoint| QueueOps::new(&range, point);
    Ok(Json(QueueSeriesAnswer::new(range, &points, ops)))
}

/// How long messages waited for their delivery, over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/queue-lag", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Of a point: `minute`, `hour`, `day`, or minutes (by the time range)"),
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
        ("queue" = Option<String>, Query, description = "Only of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = QueueSeriesAnswer<QueueLag>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn queue_lag(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<QueueSeriesAnswer<QueueLag>>, ApiError> {
    let (range, mut points) = points(&state, &permit, query(&params)?).await?;
    points.retain(|point| point.counts.pop_messages > 0);
    Ok(Json(QueueSeriesAnswer::new(range, &points, |point| point.into())))
}

/// Pops that waited for queues, node by node, over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/queue-parked-replicas", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Of a point: `minute`, `hour`, `day`, or minutes (by the time range)"),
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
        ("queue" = Option<String>, Query, description = "Only of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = QueueSeriesAnswer<QueueParked>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn queue_parked(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<QueueSeriesAnswer<QueueParked>>, ApiError> {
    let query = StatsQuery { by_node: true, ..query(&params)? };
    let (range, points) = points(&state, &permit, query).await?;
    Ok(Json(QueueSeriesAnswer::new(range, &points, |point| point.into())))
}

/// What left queues by their limits, over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/retention", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("interval" = Option<String>, Query,
            description = "Of a point: `minute`, `hour`, `day`, or minutes (by the time range)"),
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
    ),
    responses(
        (status = 200, description = "The statistics", body = RetentionAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn retention(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<RetentionAnswer>, ApiError> {
    let (range, points) = points(&state, &permit, query(&params)?).await?;
    let whole = permit.may_all(Realm::Queue, Verb::Read);
    Ok(Json(RetentionAnswer::new(whole, range, &points)))
}

/// How nodes were, over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/system-metrics", tag = "operation",
    params(
        ("interval" = Option<String>, Query,
            description = "Of a point: `minute`, `hour`, `day`, or minutes (by the time range)"),
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
    ),
    responses(
        (status = 200, description = "The statistics", body = SystemAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn system_metrics(
    State(state): State<AppState>,
    params: Params,
) -> Result<Json<SystemAnswer>, ApiError> {
    let (range, points) = state.queue().store().node_stats(query(&params)?).await?;
    Ok(Json(SystemAnswer::new(range, &points)))
}

/// What each node did in the time range.
#[utoipa::path(
    get, path = "/api/v1/analytics/worker-metrics", tag = "operation",
    params(
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
    ),
    responses(
        (status = 200, description = "The statistics", body = WorkersAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn worker_metrics(
    State(state): State<AppState>,
    params: Params,
) -> Result<Json<WorkersAnswer>, ApiError> {
    let query = StatsQuery { by_node: true, ..query(&params)? };
    let (range, points) = state.queue().store().queue_stats(query).await?;
    Ok(Json(WorkersAnswer::new(range, &points)))
}

/// How PostgreSQL is; on another store it says that there is none.
#[utoipa::path(
    get, path = "/api/v1/analytics/postgres-stats", tag = "operation",
    responses((status = 200, description = "The statistics", body = PostgresAnswer))
)]
pub(crate) async fn postgres_stats(
    State(state): State<AppState>,
) -> Result<Json<PostgresAnswer>, ApiError> {
    let store = state.queue().store();
    Ok(Json(match store.database_stats().await? {
        Some(stats) => stats.into(),
        None => PostgresAnswer::without(store.info().kind),
    }))
}

/// Have this node write down what it has counted, instead of up to a minute later. How queues stand
/// needs no refresh: it is counted when it is read.
#[utoipa::path(
    post, path = "/api/v1/stats/refresh", tag = "operation",
    responses((status = 200, description = "It is written", body = RefreshAnswer))
)]
pub(crate) async fn refresh(
    State(state): State<AppState>,
) -> Result<Json<RefreshAnswer>, ApiError> {
    Ok(Json(RefreshAnswer::new(state.queue().write_figures().await?)))
}

/// What this node knows of itself and the others.
#[utoipa::path(
    get, path = "/api/v1/system/shared-state", tag = "operation",
    responses((status = 200, description = "What it knows", body = SharedStateAnswer))
)]
pub(crate) async fn shared_state(State(state): State<AppState>) -> Json<SharedStateAnswer> {
    Json(SharedStateAnswer {
        enabled: state.queue().uses_hints(),
        node: state.queue().node().to_string(),
        store: state.queue().store().info().kind,
        draining: state.is_draining(),
        wake: super::health::wake_health(&state, super::health::Detail::Full),
    })
}
