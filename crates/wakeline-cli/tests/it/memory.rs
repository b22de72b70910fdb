//! Answered requests leave nothing in the memory of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::support::{Server, Store, long};

const CLIENTS: usize = 8;
/// Duration of the warm-up. It is longer than samples of metrics wait to be aggregated, so that the
/// warm-up includes their maximum memory.
const WARM: Duration = Duration::from_secs(8);

/// Sends requests while `go_on` returns true for the number of requests so far. Returns that
/// number.
async fn load(server: &Server, go_on: impl Fn(usize) -> bool + Clone + Send + 'static) -> usize {
    let made = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, made, go_on) = (server.client, Arc::clone(&made), go_on.clone());
        clients.spawn(async move {
            while go_on(made.fetch_add(1, Ordering::Relaxed)) {
                assert_eq!(client.get("/api/v1/pop/queue/q").await.status, 204);
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("all answers are 204");
    }
    made.load(Ordering::Relaxed)
}

#[tokio::test]
async fn answered_requests_leave_nothing_in_memory() {
    let requests = if long() { 1_000_000 } else { 40_000 };
    let [sqlite, postgres] = Store::both().await;
    // What a request leaves behind does not depend on the store; the long run shows that.
    let stores = if long() { vec![sqlite, postgres] } else { vec![sqlite] };
    for store in stores {
        let server = Server::start(&store, &[]).await;
        let warm_until = Instant::now() + WARM;
        load(&server, move |_| Instant::now() < warm_until).await;
        let before = server.memory();
        let made = load(&server, move |made| made < requests).await;
        let grown = server.memory().saturating_sub(before);
        eprintln!("{}: {grown} bytes more after {made} requests", store.name());
        // Two samples of eight bytes for each request would be more.
        assert!(grown < 8 * made as u64, "{grown} bytes for {made} requests");
    }
}
