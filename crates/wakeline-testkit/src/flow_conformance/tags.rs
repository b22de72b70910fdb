//! Rules of tags: which workers take which activities.

use wakeline_store::flow::TurnCommit;

use super::{FlowBench, Worker, step, tagged, work};

async fn with_tags(bench: &FlowBench) {
    bench.add_work(work("a", 1)).await;
    bench.add_work(tagged("a", 2, "gpu")).await;
    bench.add_work(tagged("a", 3, "cpu")).await;
    bench.add_work(tagged("a", 4, "gpu")).await;
    bench.add_work(work("a", 5)).await;
}

/// A worker without tags takes untagged activities only.
pub async fn untagged_workers_take_only_untagged_work(bench: &FlowBench) {
    with_tags(bench).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [1, 5]);
}

/// A worker with tags takes activities of these tags only.
pub async fn tagged_workers_take_only_their_tags(bench: &FlowBench) {
    with_tags(bench).await;
    assert_eq!(bench.all_work(&Worker::of(false, &["gpu"])).await, [2, 4]);
    assert_eq!(bench.all_work(&Worker::of(false, &["gpu", "cpu", "tpu"])).await, [3]);
    assert_eq!(bench.no_work(&Worker::of(false, &["GPU"])).await, None, "as they are spelt");
}

/// A worker may take both.
pub async fn workers_may_take_tags_and_what_has_none(bench: &FlowBench) {
    with_tags(bench).await;
    assert_eq!(bench.all_work(&Worker::of(true, &["cpu"])).await, [1, 3, 5]);
}

/// A worker for any tag takes all activities, in one order.
pub async fn any_takes_everything_in_order(bench: &FlowBench) {
    with_tags(bench).await;
    assert_eq!(bench.all_work(&Worker::any()).await, [1, 2, 3, 4, 5]);
}

/// A worker with an empty filter takes nothing.
pub async fn workers_without_tags_at_all_take_nothing(bench: &FlowBench) {
    with_tags(bench).await;
    assert_eq!(bench.no_work(&Worker::of(false, &[])).await, None);
}

/// The tag of an activity does not change.
pub async fn a_tag_survives_turn_abandon_and_expiry(bench: &FlowBench) {
    bench.running("a").await;
    bench.turned("a", |turn| TurnCommit { work: vec![tagged("a", 1, "gpu")], ..step(turn) }).await;
    let gpu = Worker::of(false, &["gpu"]);
    let item = bench.work(&gpu).await;
    assert_eq!(item.tag, Some(super::tag("gpu")));
    bench.abandon(item.token, 0, false).await;
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
    assert_eq!(bench.work(&gpu).await.tag, item.tag);
    bench.advance(30).await;
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
    assert_eq!(bench.work(&gpu).await.attempt, 3);
}

/// The filter of the line counts, not that of a request.
pub async fn the_filter_of_the_line_counts(bench: &FlowBench) {
    with_tags(bench).await;
    let mut claim = Worker::of(false, &["cpu"]).claim(1);
    claim.requests[0].filter = Worker::any().filter;
    let answer = bench.claim_work(vec![claim]).await.remove(0);
    assert_eq!(answer.work[0].as_ref().map(|work| work.key.activity), Some(3));
}
