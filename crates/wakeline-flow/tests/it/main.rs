//! Orchestrations in one binary.

mod basics;
mod runtime;
mod script;
