//! Which partition comes first.

use wakeline_core::QueueOptions;

use super::{Ask, Bench};

/// Over several queues, higher priority first; equal ones by age.
pub async fn queues_of_higher_priority_go_first(bench: &Bench) {
    let namespace = bench.namespace("n");
    for (name, priority) in [("low", -5), ("zero", 0), ("high", 7)] {
        let queue = bench.queue(&format!("n.{name}"));
        bench.configure(&queue, QueueOptions { priority, ..Default::default() }).await;
        bench.push(&queue, "p", &[name]).await;
        bench.advance(1).await;
    }
    let ask = Ask::filter(Some(namespace), None);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.extend(bench.take(&ask).await.ids());
    }
    assert_eq!(ids, ["high", "zero", "low"]);
}

/// The partition that has waited longest goes first.
pub async fn the_oldest_due_partition_goes_first(bench: &Bench) {
    let queue = bench.queue("q");
    let names = ["m", "a", "z", "k", "b"];
    for name in names {
        bench.push(&queue, name, &[name, "more"]).await;
        bench.advance(1).await;
    }
    for name in names {
        assert_eq!(bench.take(&Ask::queue(&queue)).await.ids(), [name]);
    }
}

/// A partition that was served goes behind those that wait, so none starves.
pub async fn a_busy_partition_does_not_starve_the_others(bench: &Bench) {
    let queue = bench.queue("q");
    for partition in ["busy", "second", "third"] {
        bench.push(&queue, partition, &["1", "2", "3", "4"]).await;
        bench.advance(1).await;
    }
    let mut served = Vec::new();
    for round in 0..6 {
        bench.push(&queue, "busy", &[&format!("more {round}")]).await;
        let taken = bench.take(&Ask::queue(&queue)).await;
        served.extend(taken.partitions());
        bench.advance(1).await;
        bench.complete(&taken).await;
        bench.advance(1).await;
    }
    assert_eq!(served, ["busy", "second", "third", "busy", "second", "third"]);
}

/// autoAck goes to the back as well.
pub async fn auto_ack_does_not_starve_the_others(bench: &Bench) {
    let queue = bench.queue("q");
    for partition in ["busy", "second"] {
        bench.push(&queue, partition, &["1", "2", "3"]).await;
        bench.advance(1).await;
    }
    let mut served = Vec::new();
    for _ in 0..4 {
        served.extend(bench.take(&Ask::queue(&queue).auto_ack()).await.partitions());
        bench.advance(1).await;
    }
    assert_eq!(served, ["busy", "second", "busy", "second"]);
}

/// First deliveries of a partition are in the order of its log, whoever reads.
pub async fn first_deliveries_are_in_order(bench: &Bench) {
    let queue = bench.queue("q");
    let mut pushed = Vec::new();
    let mut read = Vec::new();
    for round in 0..10 {
        let ids: Vec<_> = (0..round + 1).map(|n| format!("{round}-{n}")).collect();
        bench.push(&queue, "p", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        pushed.extend(ids);
        let taken = bench.take(&Ask::queue(&queue).batch(1 + round * 7 % 4)).await;
        read.extend(taken.ids());
        bench.complete(&taken).await;
    }
    read.extend(bench.drain(&Ask::queue(&queue).batch(3)).await);
    assert_eq!(read, pushed);
}
