//! kill -9 of the server at random times under load: the recorded history violates no guarantee.

use std::time::Duration;

use wakeline_testkit::history::{self, ClientHistory};

use crate::support::{Dice, Load, Server, Store, long};

/// Kills and restarts a server under load, waits until all messages are consumed, and returns the
/// history.
async fn survive(store: &Store, kills: u64, seed: u64) -> ClientHistory {
    let mut dice = Dice::new(seed);
    let mut server = Server::start(store, &[]).await;
    let load = Load::begin(&[&server], seed).await;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(200 + dice.below(800))).await;
        server.kill().await;
        server = Server::start(store, &[]).await;
        load.set_servers(&[&server]);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    load.end(&server).await
}

#[tokio::test]
async fn killed_servers_lose_nothing_keep_order_and_never_lease_twice() {
    let kills = if long() { 50 } else { 5 };
    for store in Store::both().await {
        let seed = u64::from(std::process::id()) + 7;
        eprintln!("{}: {kills} kills, seed {seed}", store.name());
        let history = survive(&store, kills, seed).await;
        let report = history::check(&history);
        eprintln!("{}: {report}", store.name());
        assert!(report.acknowledged > 0 && report.settled > 0, "{report}");
        report.assert_clean();
    }
}
