//! What one request gets: from where, how much, and under which lease.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{QueueName, QueueOptions};
use wakeline_store::{PushItem, QueueClaimResult};

use super::{Bench, ClaimSpec, item};

/// A claim of a queue gets messages of all its partitions, and of no other queue.
pub async fn a_queue_is_read_with_all_its_partitions_and_no_other(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("q2"));
    for partition in ["x", "y", "z"] {
        bench.push(&queue, partition, &[partition]).await;
    }
    bench.push(&other, "x", &["other"]).await;
    let mut ids = bench.drain(&ClaimSpec::queue(&queue)).await;
    ids.sort();
    assert_eq!(ids, ["x", "y", "z"]);
}

/// A claim of a partition gets messages of that partition only, not of others in its queue or of
/// the same name elsewhere.
pub async fn a_partition_is_read_alone(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("q2"));
    bench.push(&queue, "x", &["a", "b"]).await;
    bench.push(&queue, "y", &["c"]).await;
    bench.push(&other, "x", &["d"]).await;
    assert_eq!(bench.drain(&ClaimSpec::partition(&queue, "x")).await, ["a", "b"]);
    bench.nothing(&ClaimSpec::partition(&queue, "missing")).await;
}

/// Queues are selected by namespace, by task, or by both.
pub async fn namespace_and_task_select_queues(bench: &Bench) {
    let (here, there) = (bench.namespace("here"), bench.namespace("there"));
    let (ship, bill) = (bench.task("ship"), bench.task("bill"));
    for (namespace, task, id) in
        [("here", &ship, "here-ship"), ("here", &bill, "here-bill"), ("there", &ship, "there-ship")]
    {
        bench.push(&bench.queue(&format!("{namespace}.{task}")), "p", &[id]).await;
    }
    let views = [
        (Some(&here), None, vec!["here-bill", "here-ship"]),
        (None, Some(&ship), vec!["here-ship", "there-ship"]),
        (Some(&here), Some(&bill), vec!["here-bill"]),
        (Some(&there), Some(&bill), vec![]),
    ];
    for (n, (namespace, task, expected)) in views.into_iter().enumerate() {
        let spec = ClaimSpec::filter(namespace.cloned(), task.cloned())
            .group(&bench.group(&n.to_string()));
        let mut ids = bench.drain(&spec).await;
        ids.sort();
        assert_eq!(ids, expected, "{namespace:?} {task:?}");
    }
}

/// A filter without namespace and task reads all queues.
pub async fn without_namespace_and_task_all_queues_are_read(bench: &Bench) {
    let (dotted, plain) = (bench.queue("n.t"), bench.queue("plain"));
    bench.push(&dotted, "p", &["dotted"]).await;
    bench.push(&plain, "p", &["plain"]).await;
    let spec = ClaimSpec::filter(None, None).group(&bench.group("g")).batch(100).partitions(100);
    let ids = bench.drain(&spec).await;
    assert!(ids.contains(&"dotted".to_owned()) && ids.contains(&"plain".to_owned()), "{ids:?}");
}

/// A claim of an unknown queue finds nothing, has no next due time, and creates nothing.
pub async fn an_unknown_queue_gives_nothing(bench: &Bench) {
    let queue = bench.queue("unknown");
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    assert_eq!(bench.nothing(&ClaimSpec::partition(&queue, "p")).await, None);
    let filter = ClaimSpec::filter(Some(bench.namespace("unknown")), None);
    assert_eq!(bench.nothing(&filter).await, None);
    assert_eq!(bench.store.queue(&queue).await.expect("a queue is looked up"), None);
}

/// A batch has at most as many messages as were requested, and at most those that are available.
pub async fn a_batch_is_as_large_as_requested_and_available(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c", "d", "e"]).await;
    let first = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    assert_eq!(first.ids(), ["a", "b"]);
    bench.complete(&first).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(10)).await.ids(), ["c", "d", "e"]);
}

/// A batch may span pushes of any size.
pub async fn a_batch_spans_pushes(bench: &Bench) {
    let queue = bench.queue("q");
    let ids: Vec<_> = (0..260).map(|n| n.to_string()).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    bench.push(&queue, "p", &ids[..1]).await;
    bench.push(&queue, "p", &ids[1..131]).await;
    bench.push(&queue, "p", &ids[131..]).await;
    let mut read = Vec::new();
    for batch in [1, 99, 2, 100, 57, 1000] {
        let taken = bench.take(&ClaimSpec::queue(&queue).batch(batch)).await;
        read.extend(taken.ids());
        bench.complete(&taken).await;
    }
    assert_eq!(read, ids);
}

/// A batch is of one partition by default, even if it could hold more messages.
pub async fn a_batch_is_of_one_partition_by_default(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "x", &["a"]).await;
    bench.push(&queue, "y", &["b"]).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(10)).await.ids().len(), 1);
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(10)).await.ids().len(), 1);
}

/// Several partitions come under one lease, each partition once and each in order.
pub async fn several_partitions_come_under_one_lease(bench: &Bench) {
    let queue = bench.queue("q");
    for partition in ["x", "y", "z"] {
        let ids = ["1", "2"].map(|n| format!("{partition}{n}"));
        bench.push(&queue, partition, &[&ids[0], &ids[1]]).await;
    }
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10).partitions(10)).await;
    let mut partitions = taken.partitions();
    partitions.sort();
    assert_eq!(partitions, ["x", "y", "z"]);
    assert_eq!(taken.lease().cursors.len(), 3);
    for claimed in &taken.result.partitions {
        let ids: Vec<_> = claimed.messages.iter().map(|m| m.transaction_id.to_string()).collect();
        assert_eq!(ids, [format!("{}1", claimed.partition), format!("{}2", claimed.partition)]);
    }
    bench.nothing(&ClaimSpec::queue(&queue)).await;
    bench.complete(&taken).await;
}

/// The batch size is a limit over all partitions; the number of partitions is another limit.
pub async fn the_batch_caps_all_partitions_together(bench: &Bench) {
    let queue = bench.queue("q");
    for partition in ["w", "x", "y", "z"] {
        bench.push(&queue, partition, &["1", "2", "3"]).await;
    }
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(4).partitions(3)).await;
    let counts: Vec<_> = taken.result.partitions.iter().map(|p| p.messages.len()).collect();
    assert_eq!(counts, [3, 1]);
    let rest = bench.take(&ClaimSpec::queue(&queue).batch(100).partitions(1)).await;
    assert_eq!(rest.ids().len(), 3);
}

/// With autoAck, messages are delivered at most once: the cursor moves on and no lease is held.
pub async fn auto_ack_moves_on_without_a_lease(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2).auto_ack()).await;
    assert_eq!((taken.ids(), &taken.result.lease), (vec!["a".to_owned(), "b".to_owned()], &None));
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(2).auto_ack()).await.ids(), ["c"]);
    bench.advance(1_000_000).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
}

/// The answer says how long the lease lasts.
pub async fn a_lease_lasts_as_long_as_its_queue_says(bench: &Bench) {
    let (short, long) = (bench.queue("n.short"), bench.queue("n.long"));
    bench.configure(&short, QueueOptions { lease_secs: 20, ..Default::default() }).await;
    bench.configure(&long, QueueOptions { lease_secs: 70, ..Default::default() }).await;
    bench.push(&short, "p", &["a"]).await;
    bench.push(&long, "p", &["b"]).await;
    let lease = |spec: ClaimSpec| async move { bench.take(&spec).await.result.lease_for };
    let g = |name: &str| bench.group(name);
    assert_eq!(lease(ClaimSpec::queue(&long).group(&g("1"))).await, Duration::from_secs(70));
    let both = ClaimSpec::filter(Some(bench.namespace("n")), None).batch(2).partitions(2);
    assert_eq!(lease(both.group(&g("2"))).await, Duration::from_secs(20));
}

/// A message with a payload of a fixed size.
fn sized(queue: &QueueName, partition: &str, id: &str) -> PushItem {
    let payload = Bytes::from(format!("\"{}\"", "x".repeat(98)));
    PushItem { payload, ..item(queue, partition, id) }
}

/// A request for many messages gets no more once it has enough bytes; the rest stays, in order.
pub async fn a_pop_stops_once_it_has_enough_bytes(bench: &Bench) {
    let queue = bench.queue("q");
    let ids = ["a", "b", "c", "d", "e", "f", "g"];
    // The messages are pushed in one call and in several, so that they are in one segment and in
    // several.
    bench.push_items(ids[..4].iter().map(|id| sized(&queue, "p", id)).collect()).await;
    for id in &ids[4..] {
        bench.push_items(vec![sized(&queue, "p", id)]).await;
    }
    let spec = ClaimSpec::queue(&queue).batch(100).bytes(250);
    let taken = bench.take(&spec).await;
    assert_eq!(taken.ids(), ["a", "b", "c"], "300 bytes are enough, 200 are not");
    bench.complete(&taken).await;
    assert_eq!(bench.drain(&spec).await, ["d", "e", "f", "g"]);
}

/// The first message is delivered even if it alone exceeds the limit of bytes.
pub async fn the_first_message_comes_whatever_its_size(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push_items(vec![sized(&queue, "p", "a"), sized(&queue, "p", "b")]).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(100).bytes(1)).await.ids(), ["a"]);
}

/// The limit of bytes is over all partitions of a request, and each request has its own.
pub async fn bytes_count_over_all_partitions_of_a_request(bench: &Bench) {
    let queue = bench.queue("q");
    for n in 0..6 {
        bench.push_items(vec![sized(&queue, &format!("p{n}"), "a")]).await;
    }
    let claim = ClaimSpec::queue(&queue).batch(100).partitions(10).bytes(150).line_claim(4);
    let outcome = bench.claim(vec![claim]).await.remove(0);
    let partitions =
        |result: &Option<QueueClaimResult>| result.as_ref().map_or(0, |one| one.partitions.len());
    assert_eq!(outcome.results.iter().map(partitions).collect::<Vec<_>>(), [2, 2, 2, 0]);
}

/// The bytes of messages that are delivered again count as well.
pub async fn bytes_of_parked_messages_count(bench: &Bench) {
    let queue = bench.queue("q");
    let ids = ["a", "b", "c", "d"];
    bench.push_items(ids.iter().map(|id| sized(&queue, "p", id)).collect()).await;
    let spec = ClaimSpec::queue(&queue).batch(3);
    let taken = bench.take(&spec).await;
    bench.store.release(vec![taken.lease()]).await.expect("released");
    let few = spec.clone().batch(100).bytes(150);
    let taken = bench.take(&few).await;
    assert_eq!(taken.ids(), ["a", "b"]);
    bench.complete(&taken).await;
    assert_eq!(bench.take(&few).await.ids(), ["c", "d"], "one of them from the log");
}
