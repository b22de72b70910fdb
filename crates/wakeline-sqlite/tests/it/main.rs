//! The SQLite store against the rules that every store is held to, and against its own.

mod fixture;
mod rules;
