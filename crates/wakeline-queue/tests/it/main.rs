//! The queue service over the oracle, under paused time.

mod figures;
mod keeper;
mod lost_answers;
mod maintenance;
mod room;
mod service;
mod slow;
mod slow_stats;
mod slow_tally;
mod traces;
