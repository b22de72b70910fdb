//! The queue service over the oracle, under paused time.

mod keeper;
mod room;
mod service;
mod slow;
mod traces;
