//! The PostgreSQL store against a real PostgreSQL.

mod conformance;
mod hot;
mod incoming;
mod listener;
mod migrate;
mod support;
mod trigger;
