//! Several nodes on one store that are restarted one after the other under load: no message is
//! lost, and the order is kept.

use std::time::Duration;

use wakeline_testkit::history::{self, ClientHistory};

use crate::support::{Dice, Load, Server, Store, long};

/// How a node ends: by SIGTERM or by SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Terminated,
    Killed,
}

/// Restarts every node `rounds` times, one at a time, while the others serve.
async fn roll(store: &Store, nodes: usize, rounds: usize, exits: &[Exit]) -> ClientHistory {
    let seed = u64::from(std::process::id()) + nodes as u64;
    let mut dice = Dice::new(seed);
    let mut servers = Vec::new();
    for _ in 0..nodes {
        servers.push(Server::start(store, &[]).await);
    }
    let load = Load::begin(&servers.iter().collect::<Vec<_>>(), seed).await;
    for turn in 0..rounds * nodes {
        tokio::time::sleep(Duration::from_millis(200 + dice.below(400))).await;
        let leaving = servers.remove(0);
        match exits[turn % exits.len()] {
            Exit::Terminated => {
                // Like a load balancer: first no new calls, then the signal.
                load.set_servers(&servers.iter().collect::<Vec<_>>());
                assert_eq!(leaving.terminate().await, Some(0));
            }
            Exit::Killed => {
                leaving.kill().await;
                load.set_servers(&servers.iter().collect::<Vec<_>>());
            }
        }
        servers.push(Server::start(store, &[]).await);
        load.set_servers(&servers.iter().collect::<Vec<_>>());
    }
    load.end(&servers[0]).await
}

#[tokio::test]
async fn restarting_nodes_one_by_one_loses_nothing_and_keeps_order() {
    let plans: &[(usize, usize)] = if long() { &[(2, 10), (3, 7), (5, 4)] } else { &[(2, 1)] };
    for (nodes, rounds) in plans {
        for store in Store::both().await {
            let history = roll(&store, *nodes, *rounds, &[Exit::Terminated, Exit::Killed]).await;
            let report = history::check(&history);
            eprintln!("{} with {nodes} nodes, {rounds} rounds: {report}", store.name());
            assert!(report.acknowledged > 0 && report.settled > 0, "{report}");
            report.assert_clean();
        }
    }
}
