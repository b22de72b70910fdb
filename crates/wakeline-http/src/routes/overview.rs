//! All queues together: their message counts and recent statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use wakeline_core::{PartitionId, Realm, Verb};
use wakeline_store::{MessageCounts, QueueCounts, StatsQuery};

use super::analytics::{points, query, visible};
use super::resources::{ALL_QUEUES, queue_counts};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::QueryParams;
use crate::render;
use crate::state::AppState;
use crate::wire::stats::{rounded_quotient, sum, throughput};
use crate::wire::status::{
    DeadAnswer, ErrorsAnswer, LagAnswer, LeasesAnswer, OverviewAnswer, Spread, StatusAnswer,
    StatusMessages, StatusQueue, Throughput, TopError,
};

/// The number of newest dead letters whose errors are counted.
const ERRORS_NEWEST: u32 = 10_000;
/// The maximum number of errors in a response.
const ERRORS_LISTED: usize = 10;
/// The time range of the throughput in the overview.
const RECENT: Duration = Duration::from_secs(300);

/// The message counts of all queues together.
fn total(queues: &[QueueCounts]) -> MessageCounts {
    let mut sum = MessageCounts::default();
    queues.iter().for_each(|one| sum.add(one.messages));
    sum
}

/// Seconds since this node last stored its statistics.
pub(super) fn stats_age(state: &AppState) -> Option<f64> {
    state.queue().statistics_age().map(|age| (age.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// Get totals over all queues: message counts, consumer lag and throughput.
#[utoipa::path(
    get, path = "/api/v1/resources/overview", tag = "queues",
    responses((status = 200, description = "The overview", body = OverviewAnswer))
)]
pub(crate) async fn overview(
    State(state): State<AppState>,
    permit: Permit,
) -> Result<Json<OverviewAnswer>, ApiError> {
    let queues = queue_counts(&state, &permit, ALL_QUEUES).await?;
    let mut groups = state.queue().store().groups(None).await?;
    groups.retain(|one| permit.may(Realm::Queue, Verb::Read, one.queue.as_str()));
    let recent = StatsQuery { span: RECENT, step_minutes: 1, ..StatsQuery::default() };
    let (range, points) = state.queue().store().queue_stats(recent).await?;
    let counts = sum(&visible(&permit, points));
    let secs = RECENT.as_secs_f64();
    let namespaces: BTreeSet<_> = queues.iter().filter_map(|one| one.namespace.as_ref()).collect();
    let tasks: BTreeSet<_> = queues.iter().filter_map(|one| one.task.as_ref()).collect();
    Ok(Json(OverviewAnswer {
        queues: queues.len() as u64,
        partitions: queues.iter().map(|one| one.partitions).sum(),
        namespaces: namespaces.len() as u64,
        tasks: tasks.len() as u64,
        messages: total(&queues).into(),
        lag: LagAnswer {
            time: Spread::of(groups.iter().map(|one| one.behind.as_secs() as f64).collect()),
            offset: Spread::of(groups.iter().map(|one| one.lag as f64).collect()),
        },
        throughput: Throughput {
            ingested_per_second: rounded_quotient(counts.push_messages, secs),
            processed_per_second: rounded_quotient(counts.ack_success, secs),
        },
        stats_age: stats_age(&state),
        timestamp: render::time(range.to),
    }))
}

/// Get the status of all queues: current counts, and statistics of the time range.
#[utoipa::path(
    get, path = "/api/v1/status", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
        ("from" = Option<String>, Query,
            description = "Start of the time range (default one hour before `to`)"),
        ("to" = Option<String>, Query, description = "End of the time range (default now)"),
        ("interval" = Option<String>, Query,
            description = "Length of one data point: `minute`, `hour`, `day`, or a number of \
                minutes (default chosen by the time range)"),
    ),
    responses(
        (status = 200, description = "The status", body = StatusAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn status(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<StatusAnswer>, ApiError> {
    let query = query(&params)?;
    let queues = queue_counts(&state, &permit, ALL_QUEUES).await?;
    let (range, points) = points(&state, &permit, query.clone()).await?;
    let counts = sum(&points);
    let nodes = if permit.may_all(Realm::Server, Verb::Read) {
        Some(state.queue().store().node_stats(query).await?.1)
    } else {
        None
    };
    let store_errors = |nodes: &Vec<wakeline_store::NodePoint>| {
        nodes.iter().map(|point| point.counts.store_errors).sum()
    };
    let workers: BTreeSet<_> = nodes.iter().flatten().map(|point| point.node).collect();
    let throughput = throughput(&range, &points);
    let all = total(&queues);
    Ok(Json(StatusAnswer {
        time_range: range.into(),
        bucket_minutes: range.step_minutes,
        point_count: throughput.len(),
        throughput,
        messages: StatusMessages::new(all.into(), &counts),
        leases: LeasesAnswer {
            active: queues.iter().map(|one| one.leases).sum(),
            partitions_with_leases: queues.iter().map(|one| one.partitions_leased).sum(),
            total_batch_size: all.processing,
            total_acked: None,
        },
        dead_letter_queue: DeadAnswer {
            total_messages: all.dead_letters,
            affected_partitions: queues.iter().map(|one| one.partitions_dead).sum(),
            top_errors: top_errors(&state, &permit, all).await?,
        },
        errors: ErrorsAnswer {
            db_errors: nodes.as_ref().map(store_errors),
            ack_failed: counts.ack_failed,
            dlq_messages: counts.dead_letters,
        },
        queues: queues.into_iter().map(status_queue).collect(),
        workers: workers.into_iter().map(|node| node.to_string()).collect(),
        stats_age: stats_age(&state),
    }))
}

fn status_queue(queue: QueueCounts) -> StatusQueue {
    let MessageCounts { total, pending, processing, .. } = queue.messages;
    StatusQueue {
        id: PartitionId(queue.id).to_string(),
        name: queue.queue.into(),
        namespace: queue.namespace.map(Into::into),
        task: queue.task.map(Into::into),
        partitions: queue.partitions,
        total_consumed: total.saturating_sub(pending + processing),
    }
}

async fn top_errors(
    state: &AppState,
    permit: &Permit,
    all: MessageCounts,
) -> Result<Vec<TopError>, ApiError> {
    if all.dead_letters == 0 {
        return Ok(Vec::new());
    }
    let mut counts: BTreeMap<Option<String>, u64> = BTreeMap::new();
    for one in state.queue().store().dead_letter_errors(ERRORS_NEWEST).await? {
        if permit.may(Realm::Queue, Verb::Read, one.queue.as_str()) {
            *counts.entry(one.error).or_default() += one.len;
        }
    }
    let each = counts.into_iter().map(|(error, count)| TopError { error, count });
    let mut errors: Vec<_> = each.collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    errors.truncate(ERRORS_LISTED);
    Ok(errors)
}
