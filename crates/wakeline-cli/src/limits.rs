//! The limit of open files, which bounds the number of client connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wakeline_core::error_chain;

/// Descriptors reserved for the store, the listener and everything else.
const RESERVE: u64 = 256;

/// Raises the soft limit to the hard limit. Returns how many client connections fit under it,
/// beside `outgoing` connections to endpoints of webhooks, which get a quarter of it at most.
pub(crate) fn connections_max(outgoing: u32) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "cannot raise the limit of open files (ulimit -n): the server accepts fewer \
                 connections"
            );
            limit.current
        }
    };
    let most = limit.unwrap_or(1 << 20);
    let reserve = RESERVE + u64::from(outgoing).min(most / 4);
    usize::try_from(most.saturating_sub(reserve).max(64)).unwrap_or(usize::MAX)
}
