//! The PostgreSQL store against a real PostgreSQL.

mod conformance;
mod incoming;
mod listener;
mod migrate;
mod support;
mod trigger;
