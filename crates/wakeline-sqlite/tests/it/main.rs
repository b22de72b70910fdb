//! The SQLite store: the conformance rules of all stores, and its own tests.

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
mod hook_corrupt;
mod hook_plans;
mod hook_processes;
mod hook_rules;
mod keyed;
mod listening;
mod plans;
mod processes;
mod rules;
mod writer;
