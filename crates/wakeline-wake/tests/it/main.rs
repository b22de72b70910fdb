//! The hub on a toy store, with paused time.

mod failing;
mod hub_metrics;
mod idle;
mod leaving;
mod store;
mod waking;
