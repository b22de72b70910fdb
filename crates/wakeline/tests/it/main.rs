//! Orchestrations as users run them: on real stores, in real processes.

mod crash;
mod support;
mod testing;
