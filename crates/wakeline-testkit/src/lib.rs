//! Tests that every store must pass: an oracle, the conformance rules, random sequences, histories,
//! faults.
//!
//! # Where it sits
//! Beside the stores. Their tests instantiate what is written here; nothing of it is part of the
//! server.
//!
//! # Invariants
//! * Time passes only by the store's test clock, which stands still until a test advances it.

pub mod access_conformance;
mod cases;
pub mod conformance;
pub mod database;
pub mod differential;
pub mod faults;
pub mod flow_conformance;
pub mod flow_differential;
pub mod history;
pub mod hook_conformance;
pub mod hook_differential;
pub mod keyed;
pub mod oracle;
pub mod rules;
pub mod skew;
pub mod timings;
