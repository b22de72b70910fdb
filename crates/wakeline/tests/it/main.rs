//! Orchestrations as users run them: on real stores, in real processes.

mod crash;
mod modes;
mod seeds;
mod sleepers;
mod support;
mod testing;
