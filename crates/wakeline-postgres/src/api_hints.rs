//! Notifies other nodes of orchestrations that can continue and webhooks that can be sent, off the
//! write path.
//!
//! # Where it sits
//! The workflow and the webhook domain have one each. Every writer calls [`ApiHints::notify`] after
//! its commit. Notifications go out over the notifier's connection, with a kind of their own for
//! each domain.
//!
//! # Invariants
//! * No write fails because a hint could not be sent, and turns do not wait for theirs. Writes from
//!   outside of turns wait for a short time until their hint was sent, because the caller may be a
//!   program that exits right afterwards ([`ApiHints::sent`]).
//! * A hint is sent at once if none was sent recently; otherwise it is sent together with those of
//!   a few milliseconds. The sending task ends when nothing is left to send.
//! * Nothing is sent while no other node listens; a node that joins gets a hint for everything (see
//!   [`crate::notifier`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use wakeline_core::{FlowChange, FlowChangeKind, HookChange, HookChangeKind, NodeId, error_chain};

use crate::Shared;
use crate::options::NotifyMode;
use crate::payload::Payload;

/// If more changes than this are pending, one hint for everything replaces them.
const PENDING_MAX: usize = 2000;

/// If more lease ends than this are remembered, they are forgotten, which only costs hints.
const LEASES_MAX: usize = 10_000;

/// The longest wait for a hint to be sent. If it is lost, other nodes notice the work in their
/// sweeps.
const SENT_WAIT: Duration = Duration::from_secs(1);

/// A hint of a domain: its subject, and the time until that is due.
pub(crate) trait ApiHint: Send + Sized + 'static {
    /// The subject of a hint.
    type What: Clone + Eq + Hash + Send + Sync;

    /// Creates a hint.
    fn of(what: Self::What, due_in: Duration) -> Self;

    /// Splits a hint into its subject and its due time.
    fn parts(self) -> (Self::What, Duration);

    /// The text of a notification; if it would be too long, that of a hint for everything.
    fn payload(node: NodeId, hints: Vec<Self>) -> String;
}

macro_rules! hint {
    ($change:ident, $what:ident, $payload:ident) => {
        impl ApiHint for $change {
            type What = $what;

            fn of(what: $what, due_in: Duration) -> Self {
                Self { what, due_in }
            }

            fn parts(self) -> ($what, Duration) {
                (self.what, self.due_in)
            }

            fn payload(node: NodeId, hints: Vec<Self>) -> String {
                Payload::$payload(node, hints)
            }
        }
    };
}

hint!(FlowChange, FlowChangeKind, of_flow_changes);
hint!(HookChange, HookChangeKind, of_hook_changes);

/// Sends hints about what this node committed to other nodes.
pub(crate) struct ApiHints<H: ApiHint> {
    outbox: Arc<ApiHintOutbox<H>>,
    tasks: TaskTracker,
}

impl<H: ApiHint> Default for ApiHints<H> {
    fn default() -> Self {
        Self { outbox: Arc::default(), tasks: TaskTracker::default() }
    }
}

/// The pending hints, and the callers that wait until they are sent.
struct ApiHintOutbox<H: ApiHint> {
    state: Mutex<OutboxState<H>>,
    /// The number of the last `notify` call whose hints were sent, or could not be.
    tried: watch::Sender<u64>,
    /// Notified when a caller waits: then the task stops collecting further hints.
    hurry: Notify,
}

impl<H: ApiHint> Default for ApiHintOutbox<H> {
    fn default() -> Self {
        Self { state: Mutex::default(), tried: watch::Sender::new(0), hurry: Notify::new() }
    }
}

struct OutboxState<H: ApiHint> {
    /// The subjects to send, and when they are due.
    pending: HashMap<H::What, Instant>,
    everything: bool,
    /// A task is sending.
    sending: bool,
    /// The number of the last call that added hints.
    added: u64,
    leases: HashMap<H::What, AnnouncedLease>,
}

impl<H: ApiHint> Default for OutboxState<H> {
    fn default() -> Self {
        Self {
            pending: HashMap::new(),
            everything: false,
            sending: false,
            added: 0,
            leases: HashMap::new(),
        }
    }
}

/// A lease end that other nodes were notified of.
struct AnnouncedLease {
    at: Instant,
    due: Instant,
}

impl<H: ApiHint> ApiHints<H> {
    /// Notifies other nodes that work may be available. Never blocks. Call it after the commit.
    pub(crate) fn notify(&self, shared: &Arc<Shared>, hints: impl IntoIterator<Item = H>) {
        if shared.options.notify == NotifyMode::Off {
            return;
        }
        let mut hints = hints.into_iter().peekable();
        if hints.peek().is_none() || !shared.notifier.has_listeners() {
            return;
        }
        let mut state = self.outbox.state.lock();
        state.added += 1;
        let now = Instant::now();
        for (what, due_in) in hints.map(H::parts) {
            // A due time that is too far away to compute needs no hint.
            let Some(due) = now.checked_add(due_in) else { continue };
            state.add(what, due);
        }
        if !std::mem::replace(&mut state.sending, true) {
            self.tasks.spawn(send(shared.clone(), self.outbox.clone()));
        }
    }

    /// Waits until all hints added before were sent, or could not be sent.
    pub(crate) async fn sent(&self) {
        let (added, sending) = {
            let state = self.outbox.state.lock();
            (state.added, state.sending)
        };
        let mut tried = self.outbox.tried.subscribe();
        if !sending || *tried.borrow() >= added {
            return;
        }
        self.outbox.hurry.notify_one();
        let sent = tried.wait_for(|tried| *tried >= added);
        if tokio::time::timeout(SENT_WAIT, sent).await.is_err() {
            tracing::debug!(
                "a notification was not sent in time: other nodes find the change at their next \
                 sweep"
            );
        }
    }

    /// Notifies other nodes of new leases; `due_in` is their end. Without these hints the others
    /// would notice the death of this node only in their sweeps. At most one hint is sent per
    /// subject and half lease.
    pub(crate) fn notify_leases(&self, shared: &Arc<Shared>, leases: Vec<H>) {
        let unannounced = self.outbox.state.lock().unannounced(leases);
        self.notify(shared, unannounced);
    }

    /// Sends the pending hints and stops.
    pub(crate) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl<H: ApiHint> OutboxState<H> {
    fn add(&mut self, what: H::What, due: Instant) {
        self.pending.entry(what).and_modify(|at| *at = due.min(*at)).or_insert(due);
        if self.pending.len() > PENDING_MAX {
            self.pending.clear();
            self.everything = true;
        }
    }

    /// Returns what the other nodes do not know yet: an earlier end, or any end once half a lease
    /// has passed.
    fn unannounced(&mut self, leases: Vec<H>) -> Vec<H> {
        let now = Instant::now();
        if self.leases.len() > LEASES_MAX {
            self.leases.clear();
        }
        let mut unannounced = Vec::new();
        for (what, due_in) in leases.into_iter().map(H::parts) {
            let Some(due) = now.checked_add(due_in) else { continue };
            let known = self
                .leases
                .get(&what)
                .is_some_and(|end| end.due > now && end.due <= due && end.at + due_in / 2 > now);
            if !known {
                self.leases.insert(what.clone(), AnnouncedLease { at: now, due });
                unannounced.push(H::of(what, due_in));
            }
        }
        unannounced
    }
}

/// Sends until no hint is pending.
async fn send<H: ApiHint>(shared: Arc<Shared>, outbox: Arc<ApiHintOutbox<H>>) {
    let timings = &shared.options.timings;
    let mut backoff = timings.reconnect_min;
    loop {
        let (pending, everything, added) = {
            let mut state = outbox.state.lock();
            if state.pending.is_empty() && !state.everything {
                state.sending = false;
                return;
            }
            let everything = std::mem::take(&mut state.everything);
            (std::mem::take(&mut state.pending), everything, state.added)
        };
        let text = text::<H>(&shared, &pending, everything);
        let sent = shared.notifier.send(&text).await;
        outbox.tried.send_replace(added);
        let pause = match sent {
            Ok(()) => {
                backoff = timings.reconnect_min;
                tokio::select! {
                    () = tokio::time::sleep(timings.coalesce) => {}
                    () = outbox.hurry.notified() => {}
                    () = shared.closed.cancelled() => {}
                }
                continue;
            }
            Err(error) => {
                metrics::counter!("wakeline_notify_failures_total").increment(1);
                tracing::debug!(error = error_chain(&error), "other nodes could not be notified");
                let mut state = outbox.state.lock();
                if shared.closed.is_cancelled() {
                    state.sending = false;
                    return;
                }
                state.everything |= everything;
                for (what, due) in pending {
                    state.add(what, due);
                }
                let pause = backoff;
                backoff = (backoff * 2).min(timings.reconnect_max);
                pause
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.closed.cancelled() => {}
        }
    }
}

fn text<H: ApiHint>(
    shared: &Shared,
    pending: &HashMap<H::What, Instant>,
    everything: bool,
) -> String {
    if everything {
        return Payload::Everything { n: Some(shared.node.0) }.encode();
    }
    let now = Instant::now();
    let hint =
        |(what, due): (&H::What, &Instant)| H::of(what.clone(), due.saturating_duration_since(now));
    H::payload(shared.node, pending.iter().map(hint).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::{Capability, EndpointId};

    fn turn(name: String) -> FlowChangeKind {
        FlowChangeKind::Turn(Capability::new(name).expect("valid"))
    }

    async fn check_lease_end_hints<H: ApiHint>(what: H::What) {
        let lease = |secs| H::of(what.clone(), Duration::from_secs(secs));
        let mut state = OutboxState::<H>::default();
        assert_eq!(state.unannounced(vec![lease(10)]).len(), 1);
        assert_eq!(state.unannounced(vec![lease(10), lease(12)]).len(), 0);
        assert_eq!(state.unannounced(vec![lease(5)]).len(), 1);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(state.unannounced(vec![lease(10)]).len(), 1);
    }

    fn check_overflow<H: ApiHint>(what: impl Fn(usize) -> H::What) {
        let mut state = OutboxState::<H>::default();
        for n in 0..=PENDING_MAX {
            state.add(what(n), Instant::now());
        }
        assert!(state.everything && state.pending.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn lease_ends_are_sent_once_per_half_lease_unless_they_are_earlier() {
        check_lease_end_hints::<FlowChange>(turn("c".to_owned())).await;
        check_lease_end_hints::<HookChange>(HookChangeKind::Push).await;
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_pending_hints_are_sent_as_everything() {
        check_overflow::<FlowChange>(|n| turn(format!("c{n}")));
        check_overflow::<HookChange>(|_| HookChangeKind::Pull(EndpointId::generate()));
    }
}
