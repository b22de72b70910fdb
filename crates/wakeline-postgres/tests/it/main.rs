//! The PostgreSQL store against a real PostgreSQL.

mod incoming;
mod listener;
mod migrate;
mod support;
mod trigger;
