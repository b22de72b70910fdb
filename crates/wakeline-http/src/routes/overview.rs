//! All queues together: how they stand, and what happened lately.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use wakeline_core::{PartitionId, Realm, Verb};
use wakeline_store::{QueueTally, StatsQuery, Tally};

use super::analytics::{points, query, visible};
use super::resources::{EVERY, tallies};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::Params;
use crate::render;
use crate::state::AppState;
use crate::wire::stats::{rate, sum, throughput};
use crate::wire::status::{
    DeadAnswer, ErrorsAnswer, LagAnswer, LeasesAnswer, OverviewAnswer, Spread, StatusAnswer,
    StatusMessages, StatusQueue, Throughput, TopError,
};

/// Dead letters whose errors are looked at.
const ERRORS_NEWEST: u32 = 10_000;
/// Errors that are listed.
const ERRORS_LISTED: usize = 10;
/// The stretch that throughput is told of.
const LATELY: Duration = Duration::from_secs(300);

fn whole(tallies: &[QueueTally]) -> Tally {
    let mut sum = Tally::default();
    tallies.iter().for_each(|one| sum.add(one.tally));
    sum
}

pub(super) fn stats_age(state: &AppState) -> Option<f64> {
    state.queue().figures_age().map(|age| (age.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// All queues together, how far groups are behind, and how much comes and goes.
#[utoipa::path(
    get, path = "/api/v1/resources/overview", tag = "queues",
    responses((status = 200, description = "The overview", body = OverviewAnswer))
)]
pub(crate) async fn overview(
    State(state): State<AppState>,
    permit: Permit,
) -> Result<Json<OverviewAnswer>, ApiError> {
    let queues = tallies(&state, &permit, EVERY).await?;
    let mut groups = state.queue().store().groups(None).await?;
    groups.retain(|one| permit.may(Realm::Queue, Verb::Read, one.queue.as_str()));
    let lately = StatsQuery { span: LATELY, step_minutes: 1, ..StatsQuery::default() };
    let (range, points) = state.queue().store().queue_stats(lately).await?;
    let counts = sum(&visible(&permit, points));
    let secs = LATELY.as_secs_f64();
    let namespaces: BTreeSet<_> = queues.iter().filter_map(|one| one.namespace.as_ref()).collect();
    let tasks: BTreeSet<_> = queues.iter().filter_map(|one| one.task.as_ref()).collect();
    Ok(Json(OverviewAnswer {
        queues: queues.len() as u64,
        partitions: queues.iter().map(|one| one.partitions).sum(),
        namespaces: namespaces.len() as u64,
        tasks: tasks.len() as u64,
        messages: whole(&queues).into(),
        lag: LagAnswer {
            time: Spread::of(groups.iter().map(|one| one.behind.as_secs() as f64).collect()),
            offset: Spread::of(groups.iter().map(|one| one.lag as f64).collect()),
        },
        throughput: Throughput {
            ingested_per_second: rate(counts.push_messages, secs),
            processed_per_second: rate(counts.ack_success, secs),
        },
        stats_age: stats_age(&state),
        timestamp: render::time(range.to),
    }))
}

/// How the server's queues stand, and what happened in the time range.
#[utoipa::path(
    get, path = "/api/v1/status", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("from" = Option<String>, Query, description = "From this time on (an hour before `to`)"),
        ("to" = Option<String>, Query, description = "Up to this time (now)"),
        ("interval" = Option<String>, Query,
            description = "Of a point: `minute`, `hour`, `day`, or minutes (by the time range)"),
    ),
    responses(
        (status = 200, description = "The status", body = StatusAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn status(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<StatusAnswer>, ApiError> {
    let query = query(&params)?;
    let queues = tallies(&state, &permit, EVERY).await?;
    let (range, points) = points(&state, &permit, query.clone()).await?;
    let counts = sum(&points);
    let nodes = match permit.may_all(Realm::Server, Verb::Read) {
        true => Some(state.queue().store().node_stats(query).await?.1),
        false => None,
    };
    let store_errors = |nodes: &Vec<wakeline_store::NodePoint>| {
        nodes.iter().map(|point| point.counts.store_errors).sum()
    };
    let workers: BTreeSet<_> = nodes.iter().flatten().map(|point| point.node).collect();
    let throughput = throughput(&range, &points);
    let all = whole(&queues);
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

fn status_queue(queue: QueueTally) -> StatusQueue {
    let Tally { total, pending, processing, .. } = queue.tally;
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
    all: Tally,
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
