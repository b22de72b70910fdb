//! Tells other nodes what orchestrations may go on and what webhooks may be sent, off the write
//! path.
//!
//! # Where it sits
//! Each of these faces has one. Everything that writes calls [`FaceHints::tell`] after its commit.
//! What is sent goes out over the notifier's connection, as a notification of the face's own kind.
//!
//! # Invariants
//! * No write fails because a hint could not be sent, and turns do not wait for theirs. What is
//!   sent from outside of turns waits until its hint was sent, for a short while at most: its
//!   caller may be a program that ends right after it ([`FaceHints::sent`]).
//! * At once when it was quiet, together with what follows within a few milliseconds when it is
//!   busy. The task that sends ends when nothing is left to be sent.
//! * Nothing is sent while it is known that nobody else listens; whoever joins then is told
//!   everything (see [`crate::notifier`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use wakeline_core::{FlowChange, FlowWhat, HookChange, HookWhat, NodeId, error_chain};

use crate::Shared;
use crate::options::NotifyMode;
use crate::payload::Payload;

/// More waiting changes than this are told as "everything".
const PENDING_MAX: usize = 2000;

/// More remembered lease ends than this are forgotten, which only costs hints.
const LEASES_MAX: usize = 10_000;

/// The longest wait for a hint. Without it, others notice by their sweeps.
const SENT_WAIT: Duration = Duration::from_secs(1);

/// A face's hint: what it speaks of, and how long until that is due.
pub(crate) trait Hint: Send + Sized + 'static {
    /// What it speaks of.
    type What: Clone + Eq + Hash + Send + Sync;

    /// Puts one together.
    fn of(what: Self::What, due_in: Duration) -> Self;

    /// Takes it apart.
    fn parts(self) -> (Self::What, Duration);

    /// The text of a notification; of everything, if it would be too long.
    fn payload(node: NodeId, hints: Vec<Self>) -> String;
}

macro_rules! hint {
    ($change:ident, $what:ident, $payload:ident) => {
        impl Hint for $change {
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

hint!(FlowChange, FlowWhat, of_flow_changes);
hint!(HookChange, HookWhat, of_hook_changes);

/// Tells other nodes what this one committed.
pub(crate) struct FaceHints<H: Hint> {
    outbox: Arc<Outbox<H>>,
    tasks: TaskTracker,
}

impl<H: Hint> Default for FaceHints<H> {
    fn default() -> Self {
        Self { outbox: Arc::default(), tasks: TaskTracker::default() }
    }
}

/// What waits to be sent, and who waits for that.
struct Outbox<H: Hint> {
    state: Mutex<State<H>>,
    /// Up to which number it was tried to send.
    tried: watch::Sender<u64>,
    /// Rung when somebody waits: no more hints are awaited then.
    hurry: Notify,
}

impl<H: Hint> Default for Outbox<H> {
    fn default() -> Self {
        Self { state: Mutex::default(), tried: watch::Sender::new(0), hurry: Notify::new() }
    }
}

struct State<H: Hint> {
    /// What is to be told, and when it is due.
    pending: HashMap<H::What, Instant>,
    everything: bool,
    /// Whether a task sends.
    sending: bool,
    /// The number of the last call that told something.
    added: u64,
    leases: HashMap<H::What, Told>,
}

impl<H: Hint> Default for State<H> {
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

/// A lease end that the others know of.
struct Told {
    at: Instant,
    due: Instant,
}

impl<H: Hint> FaceHints<H> {
    /// These may have become available. Never blocks. Call it after the commit.
    pub(crate) fn tell(&self, shared: &Arc<Shared>, hints: impl IntoIterator<Item = H>) {
        if shared.options.notify == NotifyMode::Off {
            return;
        }
        let mut hints = hints.into_iter().peekable();
        if hints.peek().is_none() || !shared.notifier.is_heard() {
            return;
        }
        let mut state = self.outbox.state.lock();
        state.added += 1;
        let now = Instant::now();
        for (what, due_in) in hints.map(H::parts) {
            // A due time too far away to be reckoned with needs no hint.
            let Some(due) = now.checked_add(due_in) else { continue };
            state.add(what, due);
        }
        if !std::mem::replace(&mut state.sending, true) {
            self.tasks.spawn(send(shared.clone(), self.outbox.clone()));
        }
    }

    /// Waits until all that was told before was sent, or could not be.
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
            tracing::debug!("a hint is late; other nodes notice by their sweeps");
        }
    }

    /// Leases were granted; `due_in` is their end. Without it the death of this node would be
    /// noticed by the others' sweeps only. At most one hint per kind and half lease.
    pub(crate) fn tell_leases(&self, shared: &Arc<Shared>, leases: Vec<H>) {
        let news = self.outbox.state.lock().news(leases);
        self.tell(shared, news);
    }

    /// Sends what waits, and ends.
    pub(crate) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl<H: Hint> State<H> {
    fn add(&mut self, what: H::What, due: Instant) {
        self.pending.entry(what).and_modify(|at| *at = due.min(*at)).or_insert(due);
        if self.pending.len() > PENDING_MAX {
            self.pending.clear();
            self.everything = true;
        }
    }

    /// What the others do not know yet: an earlier end, or any end once half a lease has passed.
    fn news(&mut self, leases: Vec<H>) -> Vec<H> {
        let now = Instant::now();
        if self.leases.len() > LEASES_MAX {
            self.leases.clear();
        }
        let mut news = Vec::new();
        for (what, due_in) in leases.into_iter().map(H::parts) {
            let Some(due) = now.checked_add(due_in) else { continue };
            let known = self.leases.get(&what).is_some_and(|told| {
                told.due > now && told.due <= due && told.at + due_in / 2 > now
            });
            if !known {
                self.leases.insert(what.clone(), Told { at: now, due });
                news.push(H::of(what, due_in));
            }
        }
        news
    }
}

/// Sends until nothing is left.
async fn send<H: Hint>(shared: Arc<Shared>, outbox: Arc<Outbox<H>>) {
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
                tracing::debug!(error = error_chain(&error), "notify failed");
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

fn text<H: Hint>(shared: &Shared, pending: &HashMap<H::What, Instant>, everything: bool) -> String {
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

    fn turn(name: String) -> FlowWhat {
        FlowWhat::Turn(Capability::new(name).expect("valid"))
    }

    async fn ends_are_told<H: Hint>(what: H::What) {
        let lease = |secs| H::of(what.clone(), Duration::from_secs(secs));
        let mut state = State::<H>::default();
        assert_eq!(state.news(vec![lease(10)]).len(), 1);
        assert_eq!(state.news(vec![lease(10), lease(12)]).len(), 0);
        assert_eq!(state.news(vec![lease(5)]).len(), 1);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(state.news(vec![lease(10)]).len(), 1);
    }

    fn too_many_are_everything<H: Hint>(what: impl Fn(usize) -> H::What) {
        let mut state = State::<H>::default();
        for n in 0..=PENDING_MAX {
            state.add(what(n), Instant::now());
        }
        assert!(state.everything && state.pending.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn lease_ends_are_told_once_per_half_lease_unless_they_are_earlier() {
        ends_are_told::<FlowChange>(turn("c".to_owned())).await;
        ends_are_told::<HookChange>(HookWhat::Push).await;
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_waiting_hints_are_told_as_everything() {
        too_many_are_everything::<FlowChange>(|n| turn(format!("c{n}")));
        too_many_are_everything::<HookChange>(|_| HookWhat::Pull(EndpointId::generate()));
    }
}
