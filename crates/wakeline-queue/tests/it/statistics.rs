//! Laws of statistics: they are correct, and cost nothing while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    GroupName, MessageId, PartitionName, QueueLine, QueueName, Selector, Subscription,
    TransactionId,
};
use wakeline_queue::{PopCommand, PopOutcome, QueueService, QueueServiceOptions};
use wakeline_store::{PushItem, QueueStats, StatsQuery, StatsStore as _};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

const MINUTE: Duration = Duration::from_secs(60);

struct Node {
    service: QueueService,
    shutdown: CancellationToken,
    counting: tokio::task::JoinHandle<()>,
}

impl Node {
    fn start(store: &Arc<FaultingStore>) -> Self {
        let service = QueueService::start(store.clone(), QueueServiceOptions::default());
        let shutdown = CancellationToken::new();
        let (counted, stop) = (service.clone(), shutdown.clone());
        let counting = tokio::spawn(async move { counted.run_statistics(stop).await });
        Self { service, shutdown, counting }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.counting.await.expect("it ends");
    }

    async fn push(&self, len: usize) {
        let item = || PushItem {
            queue: queue(),
            partition: PartitionName::default_partition(),
            id: MessageId::generate(),
            transaction_id: TransactionId::generate(),
            trace_id: None,
            payload: Bytes::from_static(b"1"),
            producer: None,
        };
        self.service.push((0..len).map(|_| item()).collect()).await.expect("pushed");
    }

    async fn pop(&self, wait: Option<Duration>) -> PopOutcome {
        let line = QueueLine { selector: Selector::Queue(queue()), group: GroupName::queue_mode() };
        let pop = PopCommand {
            line,
            subscription: Subscription::All,
            batch_len_max: 10,
            bytes_max: u64::MAX,
            partitions_len_max: 1,
            auto_ack: true,
            worker: None,
            wait,
        };
        self.service.pop(pop).await.expect("popped")
    }
}

fn queue() -> QueueName {
    QueueName::new("q").expect("valid")
}

fn store() -> Arc<FaultingStore> {
    Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())))
}

async fn read(store: &FaultingStore) -> QueueStats {
    let query = StatsQuery { span: 60 * MINUTE, ..StatsQuery::default() };
    let mut sum = QueueStats::default();
    for point in store.queue_stats(query).await.expect("read").1 {
        sum.add(&point.counts);
    }
    sum
}

fn writes(store: &FaultingStore) -> usize {
    store.calls().iter().filter(|call| **call == "record_stats").count()
}

#[tokio::test(start_paused = true)]
async fn statistics_are_written_a_minute_after_something_happened_and_not_otherwise() {
    let store = store();
    let node = Node::start(&store);
    for _ in 0..3 {
        assert!(matches!(node.pop(Some(MINUTE)).await, PopOutcome::Empty));
    }
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(writes(&store), 0, "a pop without messages is no reason to write");
    node.push(3).await;
    assert!(matches!(node.pop(None).await, PopOutcome::Claimed(_)));
    tokio::time::sleep(MINUTE / 2).await;
    assert_eq!(writes(&store), 0);
    tokio::time::sleep(MINUTE).await;
    let counts = read(&store).await;
    assert_eq!((counts.push_requests, counts.push_messages), (1, 3));
    assert_eq!((counts.pop_requests, counts.pop_messages, counts.pop_empty), (4, 3, 3));
    assert_eq!((counts.ack_success, counts.ack_requests), (3, 0), "settled by the pop itself");
    tokio::time::sleep(60 * MINUTE).await;
    assert_eq!(writes(&store), 1);
    node.stop().await;
    assert_eq!(writes(&store), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_counted_twice_whatever_fails_and_restarts() {
    for fault in [Fault::Before, Fault::After] {
        let store = store();
        let node = Node::start(&store);
        node.push(1).await;
        store.fail_operation("record_stats", 1, fault);
        tokio::time::sleep(2 * MINUTE).await;
        node.push(2).await;
        tokio::time::sleep(2 * MINUTE).await;
        assert_eq!(read(&store).await.push_messages, 3, "{fault:?}");
        node.push(4).await;
        assert_eq!(node.service.write_statistics().await.expect("written"), 1);
        node.push(8).await;
        assert_eq!(read(&store).await.push_messages, 7, "{fault:?}");
        node.stop().await;
        assert_eq!(read(&store).await.push_messages, 15, "{fault:?}: the last ones, too");
        let next = Node::start(&store);
        next.push(1).await;
        next.stop().await;
        assert_eq!(read(&store).await.push_messages, 16, "{fault:?}: after a restart");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_pops_are_counted_while_they_wait() {
    let store = store();
    let node = Node::start(&store);
    let other = QueueName::new("other").expect("valid");
    let service = node.service.clone();
    let waiting = tokio::spawn(async move {
        let group = GroupName::queue_mode();
        let line = QueueLine { selector: Selector::Queue(other), group };
        let (subscription, wait) = (Subscription::All, Some(60 * MINUTE));
        let (batch_len_max, partitions_len_max, auto_ack) = (1, 1, false);
        let pop = PopCommand {
            line,
            subscription,
            batch_len_max,
            bytes_max: u64::MAX,
            partitions_len_max,
            auto_ack,
            worker: None,
            wait,
        };
        service.pop(pop).await
    });
    while node.service.wake_snapshot().waiters == 0 {
        tokio::task::yield_now().await;
    }
    node.push(1).await;
    node.service.write_statistics().await.expect("written");
    let query = StatsQuery { span: 60 * MINUTE, ..StatsQuery::default() };
    let (_, nodes) = store.node_stats(query).await.expect("read");
    assert_eq!(nodes[0].counts.waiters, 1);
    waiting.abort();
    node.stop().await;
}
