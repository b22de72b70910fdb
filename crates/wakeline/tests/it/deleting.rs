//! Tests that waiters for an instance are notified of its deletion in every process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use wakeline::{Client, ClientError, LongPollConfig};

use crate::support::{Node, Store, eventually};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// Creates a node on which only a hint ends a wait within the test.
async fn node(store: &Store) -> Node {
    let hour = Duration::from_secs(3600);
    let long_poll = LongPollConfig {
        fallback_poll_interval: hour,
        max_wait_time: hour,
        ..LongPollConfig::default()
    };
    store.node(long_poll).await
}

/// Starts an instance that no runtime runs, and waits for its end until a time.
async fn waiting(node: &Node, id: &str, until: Instant) -> JoinHandle<Result<(), ClientError>> {
    let client = Arc::new(Client::new(node.provider()));
    client.start(id, "unregistered", &()).await.expect("started");
    let (id, left) = (id.to_owned(), until.saturating_duration_since(Instant::now()));
    let wait = tokio::spawn(async move { client.wait::<()>(&id, left).await });
    let parked = async || {
        let now = node.snapshot();
        now.waiters == 1 && now.claims_in_flight + now.claims_queued == 0
    };
    eventually("it waits", parked).await;
    wait
}

async fn is_gone(wait: JoinHandle<Result<(), ClientError>>, store: &Store) {
    let ended = wait.await.expect("no panic");
    assert!(matches!(ended, Err(ClientError::NotFound(_))), "{}: {ended:?}", store.name());
}

#[tokio::test]
async fn deletion_by_another_process_ends_waits() {
    for store in Store::both().await {
        let (a, b) = (node(&store).await, store.client().await);
        let wait = waiting(&a, "i", Instant::now() + WAIT_MAX).await;
        assert_eq!(b.delete("i", true).await.expect("deleted").instances, 1);
        is_gone(wait, &store).await;
    }
}

/// The program ends right after the deletion, so nothing could send the hint later.
#[tokio::test]
async fn deletion_by_a_program_that_ends_at_once_ends_waits() {
    for store in Store::both().await {
        let a = node(&store).await;
        // A deletion may be noticed by chance without its hint, but not twenty times in a row.
        let until = Instant::now() + WAIT_MAX;
        for round in 0..20 {
            let id = format!("{round}");
            let wait = waiting(&a, &id, until).await;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut program = tokio::runtime::Builder::new_current_thread();
                    let program = program.enable_all().build().expect("a runtime");
                    program.block_on(async {
                        let client = store.client().await;
                        client.delete(&id, true).await.expect("deleted");
                    });
                    program.shutdown_background();
                });
            });
            is_gone(wait, &store).await;
        }
    }
}
