//! `/api/v1/status/analytics`, `/api/v1/analytics/…`: statistics over time, as nodes stored them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use wakeline_core::{QueueName, Realm, Verb};
use wakeline_store::{QueuePoint, StatsQuery, StatsRange};

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::QueryParams;
use crate::state::AppState;
use crate::wire::nodes::{
    PostgresAnswer, RefreshAnswer, SharedStateAnswer, SystemAnswer, WorkersAnswer,
};
use crate::wire::stats::{
    AnalyticsAnswer, QueueLag, QueueOps, QueueParked, QueueSeriesAnswer, RetentionAnswer,
};

/// The length of a time range if the request does not say where it starts.
const SPAN: Duration = Duration::from_secs(3600);
/// The maximum length of a data point, in minutes.
const STEP_MAX: u32 = 31 * 24 * 60;

/// Parses the parameters that select statistics.
pub(super) fn query(params: &QueryParams) -> Result<StatsQuery, ApiError> {
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
    let (from, to) = (params.timestamp("from")?, params.timestamp("to")?);
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

/// Keeps the points that the caller may see: those of queues that they may read. Points that belong
/// to no queue require permission to read all queues.
pub(super) fn visible(permit: &Permit, points: Vec<QueuePoint>) -> Vec<QueuePoint> {
    let all = permit.may_all(Realm::Queue, Verb::Read);
    let seen = |point: &QueuePoint| match &point.queue {
        Some(queue) => all || permit.may(Realm::Queue, Verb::Read, queue.as_str()),
        None => all,
    };
    points.into_iter().filter(seen).collect()
}

/// Reads the statistics of queues that the caller may see.
pub(super) async fn points(
    state: &AppState,
    permit: &Permit,
    query: StatsQuery,
) -> Result<(StatsRange, Vec<QueuePoint>), ApiError> {
    let (range, points) = state.queue().store().queue_stats(query).await?;
    Ok((range, visible(permit, points)))
}

/// Count the messages that were pushed, delivered and settled over time.
#[utoipa::path(
    get, path = "/api/v1/status/analytics", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Length of one data point: `minute`, `hour`, `day`, or a number of \
                minutes (default chosen by the time range)"),
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = AnalyticsAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn analytics(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<AnalyticsAnswer>, ApiError> {
    let (range, points) = points(&state, &permit, query(&params)?).await?;
    let interval = params.text("interval").map(ToOwned::to_owned);
    let interval = interval.unwrap_or_else(|| range.step_minutes.to_string());
    Ok(Json(AnalyticsAnswer::new(interval, range, &points)))
}

/// Count the operations of each queue over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/queue-ops", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Length of one data point: `minute`, `hour`, `day`, or a number of \
                minutes (default chosen by the time range)"),
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = QueueSeriesAnswer<QueueOps>),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn queue_ops(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<QueueSeriesAnswer<QueueOps>>, ApiError> {
    let (range, points) = points(&state, &permit, query(&params)?).await?;
    let ops = |point: &QueuePoint| QueueOps::new(&range, point);
    Ok(Json(QueueSeriesAnswer::new(range, &points, ops)))
}

/// Measure how long messages waited for delivery over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/queue-lag", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Length of one data point: `minute`, `hour`, `day`, or a number of \
                minutes (default chosen by the time range)"),
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = QueueSeriesAnswer<QueueLag>),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn queue_lag(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<QueueSeriesAnswer<QueueLag>>, ApiError> {
    let (range, mut points) = points(&state, &permit, query(&params)?).await?;
    points.retain(|point| point.counts.pop_messages > 0);
    Ok(Json(QueueSeriesAnswer::new(range, &points, |point| point.into())))
}

/// Count the waiting pops of each queue and node over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/queue-parked-replicas", tag = "queues",
    params(
        ("interval" = Option<String>, Query,
            description = "Length of one data point: `minute`, `hour`, `day`, or a number of \
                minutes (default chosen by the time range)"),
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
    ),
    responses(
        (status = 200, description = "The statistics", body = QueueSeriesAnswer<QueueParked>),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn queue_parked(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<QueueSeriesAnswer<QueueParked>>, ApiError> {
    let query = StatsQuery { by_node: true, ..query(&params)? };
    let (range, points) = points(&state, &permit, query).await?;
    Ok(Json(QueueSeriesAnswer::new(range, &points, |point| point.into())))
}

/// Count the messages that expired, were evicted, dropped or removed over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/retention", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
        ("interval" = Option<String>, Query,
            description = "Length of one data point: `minute`, `hour`, `day`, or a number of \
                minutes (default chosen by the time range)"),
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
    ),
    responses(
        (status = 200, description = "The statistics", body = RetentionAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn retention(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<RetentionAnswer>, ApiError> {
    let (range, points) = points(&state, &permit, query(&params)?).await?;
    let with_removed = permit.may_all(Realm::Queue, Verb::Read);
    Ok(Json(RetentionAnswer::new(with_removed, range, &points)))
}

/// Measure processor time, memory, waiting pops and store errors of each node over time.
#[utoipa::path(
    get, path = "/api/v1/analytics/system-metrics", tag = "operation",
    params(
        ("interval" = Option<String>, Query,
            description = "Length of one data point: `minute`, `hour`, `day`, or a number of \
                minutes (default chosen by the time range)"),
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
    ),
    responses(
        (status = 200, description = "The statistics", body = SystemAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn system_metrics(
    State(state): State<AppState>,
    params: QueryParams,
) -> Result<Json<SystemAnswer>, ApiError> {
    let (range, points) = state.queue().store().node_stats(query(&params)?).await?;
    Ok(Json(SystemAnswer::new(range, &points)))
}

/// Count the operations of each node in the time range.
#[utoipa::path(
    get, path = "/api/v1/analytics/worker-metrics", tag = "operation",
    params(
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
    ),
    responses(
        (status = 200, description = "The statistics", body = WorkersAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn worker_metrics(
    State(state): State<AppState>,
    params: QueryParams,
) -> Result<Json<WorkersAnswer>, ApiError> {
    let query = StatsQuery { by_node: true, ..query(&params)? };
    let (range, points) = state.queue().store().queue_stats(query).await?;
    Ok(Json(WorkersAnswer::new(range, &points)))
}

/// Get statistics of PostgreSQL. With another store, `available` is false.
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
        None => PostgresAnswer::unavailable(store.info().kind),
    }))
}

/// Store the statistics that this node has collected now, instead of up to a minute later.
///
/// Message counts of queues need no refresh: they are counted when they are read.
#[utoipa::path(
    post, path = "/api/v1/stats/refresh", tag = "operation",
    responses((status = 200, description = "The statistics were written", body = RefreshAnswer))
)]
pub(crate) async fn refresh(
    State(state): State<AppState>,
) -> Result<Json<RefreshAnswer>, ApiError> {
    Ok(Json(RefreshAnswer::new(state.queue().write_statistics().await?)))
}

/// Get the state of this node and how it receives notifications from other nodes.
#[utoipa::path(
    get, path = "/api/v1/system/shared-state", tag = "operation",
    responses((status = 200, description = "The state of this node", body = SharedStateAnswer))
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
