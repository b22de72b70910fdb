//! Figures over time: what nodes counted and wrote down.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{QueueName, Timestamp};
use wakeline_store::{
    Housekeeping, MINUTE, NodeCounts, QueueCounts, QueuePoint, StatsQuery, StatsRecord, StatsSlot,
};

use super::Bench;

const WEEK: Duration = Duration::from_secs(7 * 86_400);
const HOUR: Duration = Duration::from_secs(3600);

fn pushed(messages: i64) -> QueueCounts {
    QueueCounts { push_messages: messages, ..QueueCounts::default() }
}

fn slot(number: u32, queue: &QueueName, counts: QueueCounts) -> StatsSlot {
    StatsSlot {
        number,
        age: Duration::from_secs(1),
        node: NodeCounts::default(),
        queues: vec![(Some(queue.clone()), counts)],
    }
}

async fn record(bench: &Bench, node: Uuid, slots: Vec<StatsSlot>) {
    let node_now = bench.now().await;
    let record = StatsRecord { node, node_now, keep: WEEK, slots };
    bench.store.record_stats(record).await.expect("figures are written");
}

async fn read(bench: &Bench, query: StatsQuery) -> Vec<QueuePoint> {
    bench.store.queue_stats(query).await.expect("figures are read").1
}

fn of(queue: &QueueName) -> StatsQuery {
    StatsQuery { queue: Some(queue.clone()), span: HOUR, ..StatsQuery::default() }
}

/// A slot that is written again replaces what was written of it, in the same minute.
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

/// Figures of several nodes add up, unless they are kept apart.
pub async fn nodes_add_up(bench: &Bench) {
    let queue = bench.queue("q");
    let nodes = [Uuid::new_v4(), Uuid::new_v4()];
    for node in nodes {
        let counts = QueueCounts { lag_max: 9, pop_messages: 1, parked: 3, ..pushed(2) };
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

/// Points are of whole steps, within the range that was asked for.
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
    let (range, points) = bench.store.queue_stats(some).await.expect("figures are read");
    assert!(points.iter().all(|point| range.from <= point.at && point.at < to), "{points:?}");
    assert!((2..=3).contains(&points.len()), "{points:?}");
}

/// What is too old goes when something new is written.
pub async fn old_figures_go(bench: &Bench) {
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

/// Housekeeping removes what was kept for long enough, in pieces, also if nobody writes figures.
pub async fn housekeeping_removes_old_figures(bench: &Bench) {
    let (queue, node) = (bench.queue("q"), Uuid::new_v4());
    let slots = (0..5).map(|number| slot(number, &queue, pushed(1))).collect();
    record(bench, node, slots).await;
    let whole = || StatsQuery { span: WEEK * 3, ..of(&queue) };
    let there = async || {
        let points = read(bench, whole()).await;
        points.iter().map(|point| point.counts.push_messages).sum::<i64>()
    };
    let keep = async |stats_keep| {
        let how = Housekeeping { rows_max: 2, stats_keep, ..Housekeeping::default() };
        while bench.store.housekeep(how).await.expect("done").next_due == Some(Duration::ZERO) {}
    };
    bench.advance(WEEK.as_secs() - 300).await;
    keep(Some(WEEK)).await;
    assert_eq!(there().await, 5, "they are young enough");
    bench.advance(600).await;
    keep(None).await;
    assert_eq!(there().await, 5, "nobody said how long they are kept");
    keep(Some(WEEK)).await;
    assert_eq!(there().await, 0);
    let (_, nodes) = bench.store.node_stats(whole()).await.expect("read");
    assert!(nodes.iter().all(|point| point.node != node), "{nodes:?}");
}

/// Lags that a node measured by a clock that is wrong are right once they are written.
pub async fn lags_are_by_the_stores_clock(bench: &Bench) {
    let (queue, node) = (bench.queue("q"), Uuid::new_v4());
    let counts = QueueCounts {
        pop_messages: 2,
        lag_sum: 7_000_010_000,
        lag_max: 3_600_006_000,
        ..QueueCounts::default()
    };
    let node_now = Timestamp(bench.now().await.0 + 3_500_000_000);
    let slots = vec![slot(0, &queue, counts)];
    let record = StatsRecord { node, node_now, keep: WEEK, slots };
    bench.store.record_stats(record).await.expect("figures are written");
    let counts = read(bench, of(&queue)).await[0].counts;
    assert_eq!((counts.lag_sum, counts.lag_max), (10_000, 100_006_000));
}

/// Of a node what it used is added up, and what it held most is told; what belongs to no queue has
/// no name.
pub async fn nodes_tell_how_they_were(bench: &Bench) {
    let node = Uuid::new_v4();
    let unnamed = vec![(None, pushed(1))];
    let one = |number, memory| {
        let counts = NodeCounts { cpu: 5, memory, waiters: 2, store_errors: 1 };
        let age = Duration::from_secs(1);
        StatsSlot { number, age, node: counts, queues: unnamed.clone() }
    };
    record(bench, node, vec![one(0, 70), one(1, 50)]).await;
    let query = StatsQuery { span: HOUR, step_minutes: 60, ..StatsQuery::default() };
    let (_, points) = bench.store.node_stats(query.clone()).await.expect("figures are read");
    let ours: Vec<_> = points.iter().filter(|point| point.node == node).collect();
    let counts = NodeCounts { cpu: 10, memory: 70, waiters: 2, store_errors: 2 };
    assert_eq!((ours.len(), ours[0].counts), (1, counts));
    let points = read(bench, StatsQuery { by_node: true, ..query }).await;
    let ours: Vec<_> = points.iter().filter(|point| point.node == Some(node)).collect();
    assert_eq!((ours.len(), &ours[0].queue, ours[0].counts), (1, &None, pushed(2)));
}
