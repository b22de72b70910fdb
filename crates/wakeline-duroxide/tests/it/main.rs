//! Tests of the adapter: duroxide's own validation suite on both stores, and behaviour that the
//! suite does not cover.

mod order;
mod settled;
mod stores;
mod suite;
mod waking;

mod postgres;
mod sqlite;
