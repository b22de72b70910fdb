//! The queue service on the oracle, with paused time.

mod capacity;
mod housekeeper;
mod lost_answers;
mod maintenance;
mod service;
mod slow;
mod slow_counts;
mod slow_stats;
mod statistics;
mod traces;
