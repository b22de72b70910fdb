//! The PostgreSQL store against a real PostgreSQL.

mod listener;
mod migrate;
mod support;
mod trigger;
