//! The hub on a toy store, under paused time.

mod failing;
mod figures;
mod idle;
mod leaving;
mod store;
mod waking;
