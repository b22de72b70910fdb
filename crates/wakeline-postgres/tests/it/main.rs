//! Tests the PostgreSQL store on a real server.

mod access;
mod claims;
mod clock;
mod conformance;
mod durability;
mod flow;
mod hook;
mod hot;
mod incoming;
mod keyed;
mod leading;
mod listener;
mod measured;
mod migrate;
mod plans;
mod releases;
mod repeats;
mod scheduled;
mod sql_configure;
mod sql_emit;
mod sql_pop;
mod sql_push;
mod support;
mod trigger;
mod trigger_rows;
