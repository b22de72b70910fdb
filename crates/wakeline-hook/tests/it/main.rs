//! The hook face against the oracle and a SQLite file, with real receivers on loopback.

mod announce;
mod catalog;
mod delivery;
mod failures;
mod faults;
mod fifo;
mod guard;
mod isolation;
mod pull;
mod shutdown;
mod sqlite;
mod support;
mod tls;
mod wake;
