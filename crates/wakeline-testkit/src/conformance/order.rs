//! The order in which partitions are delivered.

use wakeline_core::QueueOptions;

use super::{Bench, ClaimSpec, partition_name};

/// Among several queues those of higher priority come first, and equal ones by age.
pub async fn queues_of_higher_priority_go_first(bench: &Bench) {
    let namespace = bench.namespace("n");
    for (name, priority) in [("low", -5), ("zero", 0), ("high", 7)] {
        let queue = bench.queue(&format!("n.{name}"));
        bench.configure(&queue, QueueOptions { priority, ..Default::default() }).await;
        bench.push(&queue, "p", &[name]).await;
        bench.advance(1).await;
    }
    let spec = ClaimSpec::filter(Some(namespace), None);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.extend(bench.take(&spec).await.ids());
    }
    assert_eq!(ids, ["high", "zero", "low"]);
}

fn ranked(priority: i32, partitions: &[(&str, i32)]) -> QueueOptions {
    let partitions = partitions.iter().map(|(name, rank)| (partition_name(name), *rank));
    let partition_priorities = partitions.collect();
    QueueOptions { priority, partition_priorities, ..QueueOptions::default() }
}

/// Partitions of higher priority come first. Partitions without a priority have 0, and equal ones
/// come by age.
pub async fn partitions_of_higher_priority_go_first(bench: &Bench) {
    let queue = bench.queue("q");
    let ranks = [("low", -5), ("high", 7), ("also high", 7), ("missing", 9), ("level", 0)];
    bench.configure(&queue, ranked(0, &ranks)).await;
    for name in ["low", "level", "zero", "also high", "other", "high"] {
        bench.push(&queue, name, &[name]).await;
        bench.advance(1).await;
    }
    let expected = ["also high", "high", "level", "zero", "other", "low"];
    for name in expected {
        assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), [name]);
    }
    bench.nothing(&ClaimSpec::queue(&queue)).await;
    // The same order holds when one request takes several partitions.
    let queue = bench.queue("r");
    bench.configure(&queue, ranked(0, &ranks)).await;
    for name in ["low", "zero", "high"] {
        bench.push(&queue, name, &[name]).await;
        bench.advance(1).await;
    }
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(9).partitions(9)).await;
    assert_eq!(taken.ids(), ["high", "zero", "low"]);
}

/// Among several queues, the priority of the queue counts before that of the partition.
pub async fn queues_come_before_partitions(bench: &Bench) {
    let namespace = bench.namespace("n");
    let (first, second) = (bench.queue("n.first"), bench.queue("n.second"));
    bench.configure(&first, ranked(1, &[("a", -3)])).await;
    bench.configure(&second, ranked(0, &[("a", 3), ("c", -1)])).await;
    for (queue, name) in
        [(&second, "c"), (&second, "b"), (&second, "a"), (&first, "a"), (&first, "b")]
    {
        let id = if *queue == first { format!("1{name}") } else { format!("2{name}") };
        bench.push(queue, name, &[&id]).await;
        bench.advance(1).await;
    }
    let spec = ClaimSpec::filter(Some(namespace), None);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.extend(bench.take(&spec).await.ids());
    }
    assert_eq!(ids, ["1b", "1a", "2a", "2b", "2c"]);
}

/// The priorities of partitions are those that the queue has at the time of the claim.
pub async fn a_changed_priority_of_a_partition_takes_effect_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    for name in ["a", "b", "c"] {
        bench.push(&queue, name, &[name]).await;
        bench.advance(1).await;
    }
    bench.configure(&queue, ranked(0, &[("c", 1)])).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), ["c"]);
    bench.configure(&queue, ranked(0, &[("a", -1)])).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), ["b"]);
    bench.configure(&queue, QueueOptions::default()).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), ["a"]);
}

/// The partition that has waited longest comes first.
pub async fn the_oldest_due_partition_goes_first(bench: &Bench) {
    let queue = bench.queue("q");
    let names = ["m", "a", "z", "k", "b"];
    for name in names {
        bench.push(&queue, name, &[name, "more"]).await;
        bench.advance(1).await;
    }
    for name in names {
        assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), [name]);
    }
}

/// A partition that was served goes behind those that wait, so that none starves.
pub async fn a_busy_partition_does_not_starve_the_others(bench: &Bench) {
    let queue = bench.queue("q");
    for partition in ["busy", "second", "third"] {
        bench.push(&queue, partition, &["1", "2", "3", "4"]).await;
        bench.advance(1).await;
    }
    let mut served = Vec::new();
    for round in 0..6 {
        bench.push(&queue, "busy", &[&format!("more {round}")]).await;
        let taken = bench.take(&ClaimSpec::queue(&queue)).await;
        served.extend(taken.partitions());
        bench.advance(1).await;
        bench.complete(&taken).await;
        bench.advance(1).await;
    }
    assert_eq!(served, ["busy", "second", "third", "busy", "second", "third"]);
}

/// A partition that was served with autoAck also goes behind those that wait.
pub async fn auto_ack_does_not_starve_the_others(bench: &Bench) {
    let queue = bench.queue("q");
    for partition in ["busy", "second"] {
        bench.push(&queue, partition, &["1", "2", "3"]).await;
        bench.advance(1).await;
    }
    let mut served = Vec::new();
    for _ in 0..4 {
        served.extend(bench.take(&ClaimSpec::queue(&queue).auto_ack()).await.partitions());
        bench.advance(1).await;
    }
    assert_eq!(served, ["busy", "second", "busy", "second"]);
}

/// First deliveries of a partition are in the order of its log, for any mix of consumers.
pub async fn first_deliveries_are_in_order(bench: &Bench) {
    let queue = bench.queue("q");
    let mut pushed = Vec::new();
    let mut read = Vec::new();
    for round in 0..10 {
        let ids: Vec<_> = (0..round + 1).map(|n| format!("{round}-{n}")).collect();
        bench.push(&queue, "p", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        pushed.extend(ids);
        let taken = bench.take(&ClaimSpec::queue(&queue).batch(1 + round * 7 % 4)).await;
        read.extend(taken.ids());
        bench.complete(&taken).await;
    }
    read.extend(bench.drain(&ClaimSpec::queue(&queue).batch(3)).await);
    assert_eq!(read, pushed);
}
