//! Orchestrations in one binary.

mod basics;
mod script;
