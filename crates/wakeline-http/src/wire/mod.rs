//! The JSON types of requests and responses, with the field names of the published Queen clients.
//!
//! Payloads are borrowed from the request body, so that parsing does not copy messages.

pub(crate) mod access;
pub(crate) mod ack;
pub(crate) mod configure;
pub(crate) mod counts;
pub(crate) mod dead;
pub(crate) mod flow;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod hook;
pub(crate) mod mailbox;
pub(crate) mod maintenance;
pub(crate) mod messages;
pub(crate) mod nodes;
pub(crate) mod options;
pub(crate) mod partitions;
pub(crate) mod pop;
pub(crate) mod push;
pub(crate) mod resources;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod timers;
pub(crate) mod traces;
pub(crate) mod transaction;
