//! Laws of housekeeping: it runs when it is due, and not otherwise.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use wakeline_core::{MessageId, PartitionName, QueueName, QueueOptions, TransactionId};
use wakeline_queue::{QueueService, QueueServiceOptions};
use wakeline_store::{ConfigureQueue, Housekeeping, PushItem, QueueKeeper as _};
use wakeline_testkit::oracle::MemoryStore;

fn queue() -> QueueName {
    QueueName::new("q").expect("valid")
}

fn item() -> PushItem {
    PushItem {
        queue: queue(),
        partition: PartitionName::default_partition(),
        id: MessageId::generate(),
        transaction_id: TransactionId::generate(),
        trace_id: None,
        payload: Bytes::from_static(b"1"),
        producer: None,
    }
}

#[tokio::test(start_paused = true)]
async fn housekeeping_is_done_when_it_is_due() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let service = QueueService::start(store.clone(), QueueServiceOptions::default());
    let shutdown = CancellationToken::new();
    let (housekeeper, stop) = (service.clone(), shutdown.clone());
    let keeping =
        tokio::spawn(
            async move { housekeeper.run_housekeeping(Housekeeping::default(), stop).await },
        );
    // This is long after the first run, which found nothing to wait for.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let options = QueueOptions { ttl_secs: 10, dedup_window_secs: 0, ..QueueOptions::default() };
    let command = ConfigureQueue { queue: queue(), namespace: None, task: None, options };
    service.configure(command).await.expect("configured");
    service.push(vec![item(), item()]).await.expect("pushed");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(store.losses(&queue()).await.expect("read").expired, 2);
    shutdown.cancel();
    keeping.await.expect("it ends");
}
