//! The queue service over the oracle, under paused time.

mod service;
mod slow;
