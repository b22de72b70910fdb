//! Statistics over time: what nodes counted and recorded.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{QueueName, Timestamp};
use wakeline_store::{
    Housekeeping, MINUTE, NodeStats, QueuePoint, QueueStats, StatsQuery, StatsRecord, StatsSlot,
};

use super::Bench;

const WEEK: Duration = Duration::from_secs(7 * 86_400);
const HOUR: Duration = Duration::from_secs(3600);

fn pushed(messages: i64) -> QueueStats {
    QueueStats { push_messages: messages, ..QueueStats::default() }
}

fn slot(number: u32, queue: &QueueName, counts: QueueStats) -> StatsSlot {
    StatsSlot {
        number,
        age: Duration::from_secs(1),
        node: NodeStats::default(),
        queues: vec![(Some(queue.clone()), counts)],
    }
}

async fn record(bench: &Bench, node: Uuid, slots: Vec<StatsSlot>) {
    let node_now = bench.now().await;
    let record = StatsRecord { node, node_now, keep: WEEK, slots };
    bench.store.record_stats(record).await.expect("statistics are recorded");
}

async fn read(bench: &Bench, query: StatsQuery) -> Vec<QueuePoint> {
    bench.store.queue_stats(query).await.expect("statistics are read").1
}

fn of(queue: &QueueName) -> StatsQuery {
    StatsQuery { queue: Some(queue.clone()), span: HOUR, ..StatsQuery::default() }
}

/// Recording a slot of the same minute again replaces its first version.
pub async fn a_slot_that_is_written_again_counts_once(bench: &Bench) {
    let (queue, node) = (bench.queue("q"), Uuid::new_v4());
    record(bench, node, vec![slot(0, &queue, pushed(2))]).await;
    let first = read(bench, of(&queue)).await;
    assert_eq!((first.len(), first[0].counts), (1, pushed(2)));
    bench.advance(90).await;
    record(bench, node, vec![slot(0, &queue, pushed(5)), slot(1, &queue, pushed(1))]).await;
    let points = read(bench, of(&queue)).await;
    let plain: Vec<_> = points.iter().map(|point| (point.at, point.counts)).collect();
    assert_eq!(plain.len(), 2, "{plain:?}");
    assert_eq!(plain[0], (first[0].at, pushed(5)));
    assert_eq!(plain[1].1, pushed(1));
    assert!(plain[1].0.0 - plain[0].0.0 >= MINUTE);
}

/// Statistics of several nodes add up, unless they are requested by node.
pub async fn nodes_add_up(bench: &Bench) {
    let queue = bench.queue("q");
    let nodes = [Uuid::new_v4(), Uuid::new_v4()];
    for node in nodes {
        let counts = QueueStats { lag_max: 9, pop_messages: 1, parked: 3, ..pushed(2) };
        record(bench, node, vec![slot(0, &queue, counts), slot(1, &queue, counts)]).await;
    }
    let together = read(bench, of(&queue)).await;
    assert_eq!((together.len(), together[0].node), (1, None));
    let counts = together[0].counts;
    assert_eq!((counts.push_messages, counts.lag_max, counts.parked), (8, 9, 6));
    let apart = read(bench, StatsQuery { by_node: true, ..of(&queue) }).await;
    assert_eq!(apart.len(), 2);
    for point in apart {
        assert!(nodes.contains(&point.node.expect("a node")));
        assert_eq!((point.counts.push_messages, point.counts.parked), (4, 3));
    }
}

/// Points are of whole steps, within the requested range.
pub async fn points_are_of_whole_steps(bench: &Bench) {
    let (queue, node) = (bench.queue("q"), Uuid::new_v4());
    let began = bench.now().await;
    for number in 0..5 {
        record(bench, node, vec![slot(number, &queue, pushed(1))]).await;
        bench.advance(60).await;
    }
    let wide = StatsQuery { step_minutes: 10, ..of(&queue) };
    let points = read(bench, wide).await;
    assert!(points.iter().all(|point| point.at.0 % (10 * MINUTE) == 0), "{points:?}");
    assert_eq!(points.iter().map(|point| point.counts.push_messages).sum::<i64>(), 5);
    let from = Timestamp(began.0 + 2 * MINUTE);
    let to = Timestamp(began.0 + 4 * MINUTE);
    let some = StatsQuery { from: Some(from), to: Some(to), step_minutes: 1, ..of(&queue) };
    let (range, points) = bench.store.queue_stats(some).await.expect("statistics are read");
    assert!(points.iter().all(|point| range.from <= point.at && point.at < to), "{points:?}");
    assert!((2..=3).contains(&points.len()), "{points:?}");
}

/// Statistics that are too old are removed when new ones are recorded.
pub async fn old_statistics_are_removed(bench: &Bench) {
    let (queue, node) = (bench.queue("q"), Uuid::new_v4());
    let whole = || StatsQuery { span: 3 * WEEK, ..of(&queue) };
    record(bench, node, vec![slot(0, &queue, pushed(1))]).await;
    bench.advance(WEEK.as_secs() - 120).await;
    record(bench, node, vec![slot(1, &queue, pushed(2))]).await;
    let sum = |points: Vec<QueuePoint>| -> i64 {
        points.iter().map(|point| point.counts.push_messages).sum()
    };
    assert_eq!(sum(read(bench, whole()).await), 3);
    bench.advance(300).await;
    record(bench, Uuid::new_v4(), vec![slot(0, &queue, pushed(4))]).await;
    assert_eq!(sum(read(bench, whole()).await), 6);
}

/// Housekeeping removes old statistics in pieces, also if no node records new ones.
pub async fn housekeeping_removes_old_statistics(bench: &Bench) {
    let (queue, node) = (bench.queue("q"), Uuid::new_v4());
    let slots = (0..5).map(|number| slot(number, &queue, pushed(1))).collect();
    record(bench, node, slots).await;
    let whole = || StatsQuery { span: WEEK * 3, ..of(&queue) };
    let there = async || {
        let points = read(bench, whole()).await;
        points.iter().map(|point| point.counts.push_messages).sum::<i64>()
    };
    let keep = async |stats_keep| {
        let options = Housekeeping { rows_max: 2, stats_keep, ..Housekeeping::default() };
        while bench.store.housekeep(options).await.expect("done").next_due == Some(Duration::ZERO) {
        }
    };
    bench.advance(WEEK.as_secs() - 300).await;
    keep(Some(WEEK)).await;
    assert_eq!(there().await, 5, "they are young enough");
    bench.advance(600).await;
    keep(None).await;
    assert_eq!(there().await, 5, "without a retention nothing is removed");
    keep(Some(WEEK)).await;
    assert_eq!(there().await, 0);
    let (_, nodes) = bench.store.node_stats(whole()).await.expect("read");
    assert!(nodes.iter().all(|point| point.node != node), "{nodes:?}");
}

/// Lags that a node measured with a wrong clock are corrected when they are recorded.
pub async fn lags_use_the_stores_clock(bench: &Bench) {
    let (queue, node) = (bench.queue("q"), Uuid::new_v4());
    let counts = QueueStats {
        pop_messages: 2,
        lag_sum: 7_000_010_000,
        lag_max: 3_600_006_000,
        ..QueueStats::default()
    };
    let node_now = Timestamp(bench.now().await.0 + 3_500_000_000);
    let slots = vec![slot(0, &queue, counts)];
    let record = StatsRecord { node, node_now, keep: WEEK, slots };
    bench.store.record_stats(record).await.expect("statistics are recorded");
    let counts = read(bench, of(&queue)).await[0].counts;
    assert_eq!((counts.lag_sum, counts.lag_max), (10_000, 100_006_000));
}

/// A node's usage is summed, and of its levels the maximum is reported; counts that belong to no
/// queue have no queue name.
pub async fn node_statistics_are_summed_over_time(bench: &Bench) {
    let node = Uuid::new_v4();
    let unnamed = vec![(None, pushed(1))];
    let one = |number, memory| {
        let counts = NodeStats { cpu: 5, memory, waiters: 2, store_errors: 1 };
        let age = Duration::from_secs(1);
        StatsSlot { number, age, node: counts, queues: unnamed.clone() }
    };
    record(bench, node, vec![one(0, 70), one(1, 50)]).await;
    let query = StatsQuery { span: HOUR, step_minutes: 60, ..StatsQuery::default() };
    let (_, points) = bench.store.node_stats(query.clone()).await.expect("statistics are read");
    let ours: Vec<_> = points.iter().filter(|point| point.node == node).collect();
    let counts = NodeStats { cpu: 10, memory: 70, waiters: 2, store_errors: 2 };
    assert_eq!((ours.len(), ours[0].counts), (1, counts));
    let points = read(bench, StatsQuery { by_node: true, ..query }).await;
    let ours: Vec<_> = points.iter().filter(|point| point.node == Some(node)).collect();
    assert_eq!((ours.len(), &ours[0].queue, ours[0].counts), (1, &None, pushed(2)));
}
