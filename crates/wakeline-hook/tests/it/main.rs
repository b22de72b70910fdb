//! Tests of webhooks with the oracle, a SQLite file and PostgreSQL, and real receivers on loopback.

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
mod tenants;
mod tls;
mod wake;
