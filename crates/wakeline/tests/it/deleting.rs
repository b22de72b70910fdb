//! Who waits for an instance learns that it was deleted, in every process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use wakeline::{Client, ClientError, LongPollConfig};

use crate::support::{Node, Store, eventually};

const PATIENCE: Duration = Duration::from_secs(30);

/// Nothing but a hint ends a wait on it within the test.
async fn node(store: &Store) -> Node {
    let hour = Duration::from_secs(3600);
    let long_poll = LongPollConfig {
        fallback_poll_interval: hour,
        max_wait_time: hour,
        ..LongPollConfig::default()
    };
    store.node(long_poll).await
}

/// Starts an instance, which nobody runs, and waits for its end, until a time.
async fn waiting(node: &Node, id: &str, until: Instant) -> JoinHandle<Result<(), ClientError>> {
    let client = Arc::new(Client::new(node.provider()));
    client.start(id, "nobody", &()).await.expect("started");
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
        let wait = waiting(&a, "i", Instant::now() + PATIENCE).await;
        assert_eq!(b.delete("i", true).await.expect("deleted").instances, 1);
        is_gone(wait, &store).await;
    }
}

/// Its program ends right after the deletion: nothing is left to send the hint later.
#[tokio::test]
async fn deletion_by_a_program_that_ends_at_once_ends_waits() {
    for store in Store::both().await {
        let a = node(&store).await;
        // Sooner or later a deletion is noticed without its hint: not twenty times in a row.
        let until = Instant::now() + PATIENCE;
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
