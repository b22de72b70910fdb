//! Orchestrations as users run them: on real stores, in real processes.

mod closing;
mod commits;
mod crash;
mod deleting;
mod errors;
mod leftovers;
mod lives;
mod mailboxes;
mod model;
mod modes;
mod pending;
mod program;
mod refusals;
mod retries;
mod seeds;
mod shutdown;
mod skew;
mod sleepers;
mod slow;
mod support;
mod testing;
mod wording;
