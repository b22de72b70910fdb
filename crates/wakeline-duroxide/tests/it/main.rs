//! Tests of the adapter: duroxide's own validation suite on both stores, and what it does not ask.

mod bed;
mod sample;
mod settled;
mod suite;
mod waking;

mod postgres;
mod sqlite;
