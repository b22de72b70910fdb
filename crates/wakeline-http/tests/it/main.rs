//! The HTTP API over the in-memory oracle: wire formats, statuses, limits and connections.

mod access;
mod analytics;
mod browsers;
mod connections;
mod cors;
mod dead;
mod flow;
mod hook;
mod hostile;
mod inspect;
mod keys;
mod lease;
mod maintenance;
mod messages;
mod names;
mod neighbours;
mod options;
mod policy;
mod queue;
mod schedule;
mod strict;
mod support;
mod traces;
mod wording;
