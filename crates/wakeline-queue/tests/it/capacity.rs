//! Laws of limits and lanes: which pushes are refused, what it costs, where messages go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName, QueueOptions, Selector, TimerKey, TransactionId};
use wakeline_queue::{PopOutcome, QueueError, QueueService, QueueServiceOptions};
use wakeline_store::flow::Visible;
use wakeline_store::{
    ConfigureQueue, FanOut, PushItem, PushOutcome, QueueCapacities, QueueCapacity, ScheduleItem,
    StoreError, TransactCommand,
};
use wakeline_testkit::faults::FaultingStore;
use wakeline_testkit::oracle::MemoryStore;

use crate::service::{item, pop, queue};
use crate::slow::SlowStore;

#[async_trait]
impl QueueCapacities for SlowStore {
    async fn capacity(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<QueueCapacity>, StoreError> {
        self.0.capacity(queue, partitions).await
    }
}

struct Node {
    store: Arc<FaultingStore>,
    service: QueueService,
}

fn node() -> Node {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())));
    let service = QueueService::start(store.clone(), QueueServiceOptions::default());
    Node { store, service }
}

impl Node {
    async fn configure(&self, options: QueueOptions) {
        let command = ConfigureQueue { queue: queue(), namespace: None, task: None, options };
        self.service.configure(command).await.expect("configured");
    }

    async fn take_all(&self) -> usize {
        let mut sum = 0;
        let command = wakeline_queue::PopCommand {
            batch_len_max: 100,
            bytes_max: u64::MAX,
            partitions_len_max: 100,
            auto_ack: true,
            ..pop(Selector::Queue(queue()), None)
        };
        while let PopOutcome::Claimed(result) =
            self.service.pop(command.clone()).await.expect("popped")
        {
            sum += result.partitions.iter().map(|part| part.messages.len()).sum::<usize>();
        }
        sum
    }

    fn reads(&self) -> usize {
        self.store.calls().into_iter().filter(|call| *call == "capacity").count()
    }
}

fn items(partition: &str, count: usize) -> Vec<PushItem> {
    (0..count).map(|_| item(partition)).collect()
}

fn is_full<T: std::fmt::Debug>(answer: Result<T, QueueError>) -> bool {
    matches!(answer, Err(QueueError::QueueFull { .. }))
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_the_whole_push_and_accepts_pushes_once_there_is_capacity() {
    let node = node();
    node.configure(QueueOptions { len_max: 5, ..Default::default() }).await;
    node.service.push(items("p", 3)).await.expect("there is capacity");
    assert!(is_full(node.service.push(items("q", 3)).await));
    node.service.push(items("q", 2)).await.expect("there is capacity for two");
    assert!(is_full(node.service.push(items("p", 1)).await));
    assert_eq!(node.take_all().await, 5, "what was refused left nothing behind");
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.service.push(items("p", 5)).await.expect("there is capacity again");
}

#[tokio::test(start_paused = true)]
async fn a_full_partition_refuses_and_leaves_the_others_alone() {
    let node = node();
    node.configure(QueueOptions { partition_len_max: 2, ..Default::default() }).await;
    node.service.push(items("p", 2)).await.expect("there is capacity");
    assert!(is_full(node.service.push([items("q", 1), items("p", 1)].concat()).await));
    node.service.push(items("q", 2)).await.expect("there is capacity");
    assert_eq!(node.take_all().await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_refused_where_its_pushes_are() {
    let node = node();
    node.configure(QueueOptions { len_max: 1, ..Default::default() }).await;
    let other = PushItem { queue: QueueName::new("other").expect("valid"), ..item("p") };
    let command = |pushes| TransactCommand { pushes, ..TransactCommand::default() };
    let no_sinks = || Arc::new(FanOut(Vec::new()));
    node.service.transact(command(items("p", 1)), no_sinks()).await.expect("there is capacity");
    let refused = node.service.transact(command(vec![other, item("p")]), no_sinks()).await;
    assert!(is_full(refused));
    assert!(node.store.calls().iter().filter(|call| **call == "transact").count() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_delay_does_not_get_a_push_past_a_full_queue() {
    let node = node();
    node.configure(QueueOptions { len_max: 2, ..Default::default() }).await;
    let delayed = |key: Option<&str>| {
        let key = key.map(|key| TimerKey::new(key).expect("valid"));
        let due = Visible::After(Duration::from_millis(1));
        let schedules = vec![ScheduleItem { message: item("p"), due, key }];
        TransactCommand { schedules, ..TransactCommand::default() }
    };
    let no_sinks = || Arc::new(FanOut(Vec::new()));
    node.service.transact(delayed(None), no_sinks()).await.expect("there is capacity");
    node.service.transact(delayed(None), no_sinks()).await.expect("there is capacity");
    assert!(is_full(node.service.transact(delayed(None), no_sinks()).await));
    assert!(is_full(node.service.push(items("p", 1)).await), "what is delayed counts");
    node.service.transact(delayed(Some("k")), no_sinks()).await.expect("a timer is set");
}

#[tokio::test(start_paused = true)]
async fn a_push_larger_than_the_limit_is_invalid() {
    let node = node();
    node.configure(QueueOptions { len_max: 2, ..Default::default() }).await;
    let error = node.service.push(items("p", 3)).await.expect_err("it does not fit");
    assert!(matches!(error, QueueError::Store(_)), "{error:?}");
    assert!(error.to_string().contains("maxSize is 2"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_limits_is_read_once() {
    let node = node();
    for _ in 0..100 {
        node.service.push(items("p", 1)).await.expect("stored");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(node.reads(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_limits_is_read_once_a_second() {
    let node = node();
    node.configure(QueueOptions { len_max: 1_000_000, ..Default::default() }).await;
    for _ in 0..100 {
        node.service.push(items("p", 1)).await.expect("stored");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!((9..=11).contains(&node.reads()), "{}", node.reads());
}

#[tokio::test(start_paused = true)]
async fn limits_set_by_another_node_take_effect() {
    let node = node();
    node.service.push(items("p", 1)).await.expect("stored");
    let command = ConfigureQueue {
        queue: queue(),
        namespace: None,
        task: None,
        options: QueueOptions { len_max: 1, ..Default::default() },
    };
    use wakeline_store::QueueAdmin as _;
    let (_, changes) = node.store.configure(command).await.expect("configured");
    node.service.push(items("p", 1)).await.expect("the change is not known yet");
    node.service.sink().changed(&changes, wakeline_store::HintOrigin::Notify);
    assert!(is_full(node.service.push(items("p", 1)).await));
}

#[tokio::test(start_paused = true)]
async fn pushes_without_a_partition_spread_over_lanes_and_are_still_recognised() {
    let node = node();
    node.configure(QueueOptions { lanes: 4, ..Default::default() }).await;
    let named = |n: usize| PushItem {
        transaction_id: TransactionId::new(format!("order-{n}")).expect("valid"),
        ..item("Default")
    };
    let first = node.service.push((0..40).map(named).collect()).await.expect("stored");
    let places = |outcomes: &[PushOutcome]| -> Vec<_> {
        outcomes.iter().map(PushOutcome::partition).collect()
    };
    let lanes: BTreeSet<_> = places(&first).into_iter().collect();
    assert_eq!(lanes.len(), 4);
    let again = node.service.push((0..40).map(named).collect()).await.expect("answered");
    assert!(again.iter().all(|outcome| matches!(outcome, PushOutcome::Duplicate { .. })));
    assert_eq!(places(&again), places(&first));
    let mine = node.service.push(items("mine", 1)).await.expect("stored");
    assert!(!lanes.contains(&places(&mine)[0]), "a partition that is named is kept");
    assert_eq!(node.take_all().await, 41);
}
