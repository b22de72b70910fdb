//! Helpers of the tests of the whole binary: servers, databases, a client and proxies.

mod client;
mod dice;
mod hook;
mod load;
mod node;
mod pooler;
mod postgres;
mod proxy;
mod receiver;
mod server;
mod statements;

pub(crate) use client::{Answer, Client, Parked};
pub(crate) use dice::Dice;
pub(crate) use hook::{Hook, KEYS, ended, parse_time};
pub(crate) use load::Load;
pub(crate) use node::Node;
pub(crate) use pooler::Pooler;
pub(crate) use postgres::OwnPostgres;
pub(crate) use proxy::Proxy;
pub(crate) use receiver::{Behaviour, Receiver, SECRET, now};
pub(crate) use server::{Server, Store, output_of, wakeline};
pub(crate) use statements::{StatementProxy, When};

use std::future::Future;
use std::time::{Duration, Instant};

/// Whether to run the long versions of the tests (`cargo xtask test --long`).
pub(crate) fn long() -> bool {
    std::env::var_os("WAKELINE_LONG").is_some()
}

/// Waits until a condition is true, for at most 30 seconds.
pub(crate) async fn eventually<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(30), "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
