//! The PostgreSQL store against a real PostgreSQL.

mod claims;
mod conformance;
mod hot;
mod incoming;
mod listener;
mod migrate;
mod plans;
mod support;
mod trigger;
