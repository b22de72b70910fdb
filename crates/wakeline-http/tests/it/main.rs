//! The HTTP face over the in-memory oracle: wire shapes, statuses, limits, connections.

mod access;
mod analytics;
mod connections;
mod cors;
mod dead;
mod flow;
mod hook;
mod hostile;
mod inspect;
mod keys;
mod maintenance;
mod messages;
mod neighbours;
mod policy;
mod queue;
mod schedule;
mod support;
mod traces;
