//! The SQLite store against the rules that every store is held to, and against its own.

mod corrupt;
mod files;
mod fixture;
mod flow;
mod full;
mod plans;
mod processes;
mod rules;
mod writer;
