//! Webhooks on a SQLite file.

use std::path::Path;
use std::sync::Arc;

use wakeline_core::{EndpointOptions, FifoOptions, HookMessageId};
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::hook::DeliveryState;

use crate::support::{Answer, Bench, Receiver, eventually, options, schedule};

async fn open(folder: &Path) -> Arc<SqliteStore> {
    let options = SqliteOptions { ballast_bytes: 0, ..SqliteOptions::new(folder.join("hook.db")) };
    Arc::new(SqliteStore::open(options).await.expect("opens"))
}

#[tokio::test]
async fn messages_arrive_both_leased_on_insert_and_by_retries() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::over(open(folder.path()).await, options()).await;
    let mut receiver = Receiver::start(|request| match request {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let endpoint = bench.endpoint(&receiver.url(), schedule(&[50])).await;
    eventually(async || bench.service.wake_snapshot().waiters == 5).await;
    eventually(async || bench.service.wake_snapshot().claims_in_flight == 0).await;
    let message = bench.emit("{}").await;
    receiver.next().await;
    receiver.next().await;
    let attempts = bench.attempted(2).await;
    assert_eq!(
        attempts.iter().map(|attempt| attempt.status).collect::<Vec<_>>(),
        [Some(500), Some(200)]
    );
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Delivered);
    assert_eq!(bench.service.wake_snapshot().counters.leased_on_insert, 1);
    bench.stop().await;
}

#[tokio::test]
async fn a_retry_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::over(open(folder.path()).await, options()).await;
    let mut receiver = Receiver::start(|request| match request {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let options_of_it = EndpointOptions { fifo: Some(FifoOptions::default()), ..schedule(&[300]) };
    bench.endpoint(&receiver.url(), options_of_it).await;
    let message = bench.emit("{}").await;
    receiver.next().await;
    bench.attempted(1).await;
    let application = bench.application;
    bench.stop().await;
    let next = Bench { application, ..Bench::over(open(folder.path()).await, options()).await };
    assert_eq!(receiver.next().await.header("webhook-id"), message.to_string());
    let numbers = next.attempted(2).await.into_iter().map(|attempt| attempt.attempt_no);
    assert_eq!(numbers.max(), Some(2));
    next.stop().await;
}

#[tokio::test]
async fn all_of_many_messages_for_several_endpoints_arrive() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::over(open(folder.path()).await, options()).await;
    let mut receivers = Vec::new();
    for _ in 0..3 {
        let receiver = Receiver::always(Answer::Status(200)).await;
        bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
        receivers.push(receiver);
    }
    let emits = (0..100).map(|_| bench.emit("{}"));
    let mut sent: Vec<_> = futures_util::future::join_all(emits).await;
    sent.sort();
    for receiver in &mut receivers {
        let mut got: Vec<HookMessageId> = Vec::new();
        for _ in 0..100 {
            let id = receiver.next().await.header("webhook-id").to_owned();
            got.push(id.parse().expect("an id"));
        }
        got.sort();
        assert_eq!(got, sent);
    }
    bench.attempted(300).await;
    bench.stop().await;
}
