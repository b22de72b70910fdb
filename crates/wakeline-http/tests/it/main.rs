//! The HTTP face over the in-memory oracle: wire shapes, statuses, limits, connections.

mod connections;
mod dead;
mod flow;
mod hook;
mod hostile;
mod policy;
mod queue;
mod support;
