//! Capacity: what counts against the limits of queues and partitions.

use std::time::Duration;

use wakeline_core::{GroupName, QueueName, QueueOptions, Verdict};
use wakeline_store::QueueCapacity;
use wakeline_store::flow::Visible;

use super::schedule::{later, schedule};
use super::{Bench, ClaimSpec, at_once, item, partition_name};

async fn limited(bench: &Bench) -> QueueName {
    let queue = bench.queue("q");
    let options = QueueOptions { len_max: 100, partition_len_max: 10, ..at_once() };
    bench.configure(&queue, options).await;
    queue
}

/// Returns the number of messages of the queue, and of the partitions `p` and `q`.
async fn lens(bench: &Bench, queue: &QueueName) -> (u64, Vec<u64>) {
    let partitions = ["p", "q"].map(partition_name);
    let capacity = bench.store.capacity(queue, &partitions).await.expect("it is read");
    let capacity = capacity.expect("the queue exists");
    (capacity.len, capacity.partition_lens)
}

/// Without a group every stored message counts.
pub async fn without_a_group_everything_counts(bench: &Bench) {
    let queue = limited(bench).await;
    assert_eq!(lens(bench, &queue).await, (0, vec![0, 0]));
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.push(&queue, "q", &["a"]).await;
    bench.push(&queue, "q", &["a"]).await;
    assert_eq!(lens(bench, &queue).await, (3, vec![2, 1]));
}

/// Messages that are unread, leased or wait for a retry count; settled ones do not.
pub async fn what_is_not_settled_counts(bench: &Bench) {
    let queue = limited(bench).await;
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    bench.push(&queue, "q", &["x"]).await;
    let taken = bench.take(&ClaimSpec::partition(&queue, "p").batch(3)).await;
    assert_eq!(lens(bench, &queue).await, (5, vec![4, 1]));
    bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(lens(bench, &queue).await, (4, vec![3, 1]));
    bench.settled(&taken, "b", Verdict::Failed).await;
    bench.settled(&taken, "c", Verdict::Completed).await;
    assert_eq!(lens(bench, &queue).await, (3, vec![2, 1]));
    let taken = bench.take(&ClaimSpec::partition(&queue, "p").batch(10)).await;
    assert_eq!(lens(bench, &queue).await, (3, vec![2, 1]));
    bench.settled(&taken, "b", Verdict::DeadLetter).await;
    bench.settled(&taken, "d", Verdict::Completed).await;
    assert_eq!(lens(bench, &queue).await, (1, vec![0, 1]));
}

/// Of several groups, the one that is furthest behind in a partition counts.
pub async fn the_group_that_is_furthest_behind_counts(bench: &Bench) {
    let queue = limited(bench).await;
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    bench.push(&queue, "q", &["x", "y"]).await;
    let fast = GroupName::new("fast").expect("a name");
    let slow = GroupName::new("slow").expect("a name");
    bench.drain(&ClaimSpec::partition(&queue, "p").group(&fast).batch(10)).await;
    bench.drain(&ClaimSpec::partition(&queue, "q").group(&slow).batch(1)).await;
    assert_eq!(lens(bench, &queue).await, (5, vec![3, 2]));
    bench.drain(&ClaimSpec::queue(&queue).group(&slow).batch(10)).await;
    assert_eq!(lens(bench, &queue).await, (2, vec![0, 2]));
}

/// A scheduled message counts from the time at which it is stored.
pub async fn what_is_scheduled_counts(bench: &Bench) {
    let queue = limited(bench).await;
    bench.push(&queue, "p", &["a"]).await;
    let due = Visible::After(Duration::from_secs(5));
    schedule(bench, vec![later(item(&queue, "p", "b"), due)]).await;
    schedule(bench, vec![later(item(&queue, "q", "c"), due)]).await;
    assert_eq!(lens(bench, &queue).await, (3, vec![2, 1]));
    bench.drain(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(lens(bench, &queue).await, (2, vec![1, 1]));
    bench.advance(6).await;
    assert_eq!(lens(bench, &queue).await, (2, vec![1, 1]));
    bench.drain(&ClaimSpec::queue(&queue).batch(10).partitions(2)).await;
    assert_eq!(lens(bench, &queue).await, (0, vec![0, 0]));
}

/// The answer has the limits and the number of lanes; without limits nothing is counted, and an
/// unknown queue has none.
pub async fn limits_and_lanes_are_returned(bench: &Bench) {
    let queue = bench.queue("q");
    let partitions = [partition_name("p")];
    assert_eq!(bench.store.capacity(&queue, &partitions).await.expect("it is read"), None);
    bench.configure(&queue, QueueOptions { lanes: 7, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    let capacity = bench.store.capacity(&queue, &partitions).await.expect("it is read");
    assert_eq!(capacity, Some(QueueCapacity { lanes: 7, ..QueueCapacity::default() }));
    bench.configure(&queue, QueueOptions { len_max: 9, ..Default::default() }).await;
    let capacity = bench.store.capacity(&queue, &partitions).await.expect("it is read");
    assert_eq!(capacity, Some(QueueCapacity { len_max: 9, len: 1, ..QueueCapacity::default() }));
}
