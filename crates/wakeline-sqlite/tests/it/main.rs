//! The SQLite store against the rules that every store is held to, and against its own.

mod access;
mod clock;
mod corrupt;
mod files;
mod fixture;
mod flow;
mod flow_plans;
mod flow_processes;
mod flow_rules;
mod full;
mod hook;
mod hook_plans;
mod hook_processes;
mod hook_rules;
mod hook_spoilt;
mod keyed;
mod listening;
mod plans;
mod processes;
mod rules;
mod writer;
