//! Laws of the service: commits are hinted, claim results are not lost, waits end when they should.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wakeline_core::{
    GroupName, MessageId, PartitionName, QueueLine, QueueName, Selector, Subscription,
    TransactionId,
};
use wakeline_queue::{PopCommand, PopOutcome, QueueService, QueueServiceOptions};
use wakeline_store::PushItem;
use wakeline_testkit::oracle::MemoryStore;
use wakeline_wake::LongPollConfig;

use crate::slow::{SLOW, SlowStore};

fn service() -> QueueService {
    service_with(LongPollConfig::default())
}

fn service_with(long_poll: LongPollConfig) -> QueueService {
    let store = Arc::new(SlowStore(MemoryStore::new()));
    QueueService::start(store, QueueServiceOptions { long_poll, ..Default::default() })
}

pub(crate) fn queue() -> QueueName {
    QueueName::new("q").expect("valid")
}

pub(crate) fn item(partition: &str) -> PushItem {
    PushItem {
        queue: queue(),
        partition: PartitionName::new(partition).expect("valid"),
        id: MessageId::generate(),
        transaction_id: TransactionId::generate(),
        trace_id: None,
        payload: Bytes::from_static(b"1"),
        producer: None,
    }
}

pub(crate) fn pop(selector: Selector, wait: Option<Duration>) -> PopCommand {
    PopCommand {
        line: QueueLine { selector, group: GroupName::queue_mode() },
        subscription: Subscription::All,
        batch_len_max: 1,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: false,
        worker: None,
        wait,
    }
}

fn any_queue() -> Selector {
    Selector::Filter { namespace: None, task: None }
}

const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

#[tokio::test(start_paused = true)]
async fn a_commit_whose_caller_went_away_is_still_hinted() {
    let service = service();
    let waiting = tokio::spawn({
        let service = service.clone();
        async move { service.pop(pop(Selector::Queue(queue()), MINUTE)).await }
    });
    // The first claim, which is empty, has ended.
    tokio::time::sleep(SLOW * 2).await;
    let started = Instant::now();
    let gone = tokio::time::timeout(SLOW / 2, service.push(vec![item("p")])).await;
    assert!(gone.is_err(), "the caller goes away before its answer");
    let popped = waiting.await.expect("no panic").expect("popped");
    assert!(matches!(popped, PopOutcome::Claimed(_)), "{popped:?}");
    assert!(started.elapsed() < SLOW * 4, "by the hint, not by the sweep");
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_for_a_client_that_left_goes_to_another_line() {
    let service = service();
    let leaving = tokio::spawn({
        let service = service.clone();
        async move { service.pop(pop(Selector::Queue(queue()), MINUTE)).await }
    });
    tokio::time::sleep(SLOW * 2).await;
    let staying = tokio::spawn({
        let service = service.clone();
        async move { service.pop(pop(any_queue(), MINUTE)).await }
    });
    tokio::time::sleep(SLOW * 2).await;
    let started = Instant::now();
    service.push(vec![item("p")]).await.expect("pushed");
    // The claim is in flight, and has leased the message to the first waiter.
    tokio::time::sleep(SLOW / 2).await;
    leaving.abort();
    let popped = staying.await.expect("no panic").expect("popped");
    let PopOutcome::Claimed(result) = popped else { panic!("{popped:?}") };
    assert_eq!(result.partitions[0].messages[0].attempt, 1, "uncounted");
    assert!(started.elapsed() < Duration::from_secs(20), "by the release, not by the sweep");
    assert_eq!(service.wake_snapshot().waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_starts_again_for_its_waiters() {
    let service = service();
    service.push(vec![item("p")]).await.expect("pushed");
    let first = PopCommand { auto_ack: true, ..pop(Selector::Queue(queue()), None) };
    let popped = service.pop(first).await.expect("popped");
    assert!(matches!(popped, PopOutcome::Claimed(_)), "{popped:?}");
    let waiting = tokio::spawn({
        let service = service.clone();
        async move { service.pop(pop(Selector::Queue(queue()), MINUTE)).await }
    });
    tokio::time::sleep(SLOW * 2).await;
    let started = Instant::now();
    let deleted = service.delete_group(GroupName::queue_mode(), Some(queue())).await;
    assert!(deleted.is_ok_and(|cursors| cursors > 0));
    let popped = waiting.await.expect("no panic").expect("popped");
    assert!(matches!(popped, PopOutcome::Claimed(_)), "{popped:?}");
    assert!(started.elapsed() < SLOW * 4, "by the deletion, not by the sweep");
}

#[tokio::test(start_paused = true)]
async fn a_wait_may_be_longer_than_one_stretch_of_the_hub() {
    let long_poll =
        LongPollConfig { max_wait_time: Duration::from_secs(10), ..LongPollConfig::default() };
    let service = service_with(long_poll);
    let started = Instant::now();
    let popped = service.pop(pop(Selector::Queue(queue()), MINUTE)).await.expect("popped");
    assert!(matches!(popped, PopOutcome::Empty), "{popped:?}");
    let waited = started.elapsed().as_secs();
    assert!((60..=62).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn without_long_polling_nothing_waits() {
    let long_poll = LongPollConfig { enabled: false, ..LongPollConfig::default() };
    let service = service_with(long_poll);
    let started = Instant::now();
    let popped = service.pop(pop(Selector::Queue(queue()), MINUTE)).await.expect("popped");
    assert!(matches!(popped, PopOutcome::Empty), "{popped:?}");
    assert!(started.elapsed() <= SLOW * 2);
}
