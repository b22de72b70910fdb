//! Tests of orchestrations as users run them: on real stores and in real processes.

mod closing;
mod commits;
mod crash;
mod deleting;
mod designs;
mod errors;
mod interrupted_deletions;
mod mailboxes;
mod model;
mod modes;
mod pending;
mod program;
mod refusals;
mod retries;
mod reused_ids;
mod shutdown;
mod skew;
mod sleepers;
mod slow;
mod support;
mod testing;
mod wording;
