//! The queue service over the oracle, under paused time.

mod keeper;
mod room;
mod service;
mod slow;
mod slow_tally;
mod traces;
