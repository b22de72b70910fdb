//! The queue service over the oracle, under paused time.

mod keeper;
mod service;
mod slow;
