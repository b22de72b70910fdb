//! The hook face against the oracle, with real receivers on loopback.

mod announce;
mod catalog;
mod delivery;
mod failures;
mod fifo;
mod guard;
mod isolation;
mod pull;
mod shutdown;
mod support;
mod tls;
mod wake;
