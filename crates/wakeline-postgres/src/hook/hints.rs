//! Tells other nodes what may be sent or fetched, off the write path.
//!
//! # Where it sits
//! Everything that writes calls [`HookHints::tell`] after its commit. What is sent goes out over
//! the notifier's connection, as a notification of its own kind.
//!
//! # Invariants
//! * Nobody waits for a hint to be sent, and no write fails because one could not be.
//! * At once when it was quiet, together with what follows within a few milliseconds when it is
//!   busy. The task that sends ends when nothing is left to be sent.
//! * Nothing is sent while it is known that nobody else listens; whoever joins then is told
//!   everything (see [`crate::notifier`]).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use wakeline_core::{HookChange, HookWhat};

use crate::Shared;
use crate::options::NotifyMode;
use crate::payload::Payload;

/// More waiting changes than this are told as "everything".
const PENDING_MAX: usize = 2000;

/// More remembered lease ends than this are forgotten, which only costs hints.
const LEASES_MAX: usize = 10_000;

/// Tells other nodes what this one committed.
#[derive(Default)]
pub(super) struct HookHints {
    state: Arc<Mutex<State>>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct State {
    /// What is to be told, and when it is due.
    pending: HashMap<HookWhat, Instant>,
    everything: bool,
    /// Whether a task sends.
    sending: bool,
    /// When lease ends were told, and which.
    leases: HashMap<HookWhat, (Instant, Instant)>,
}

impl HookHints {
    /// These may have become available. Never blocks. Call it after the commit.
    pub(super) fn tell(&self, shared: &Arc<Shared>, changes: impl IntoIterator<Item = HookChange>) {
        if shared.options.notify == NotifyMode::Off {
            return;
        }
        let mut changes = changes.into_iter().peekable();
        if changes.peek().is_none() || !shared.notifier.is_heard() {
            return;
        }
        let mut state = self.state.lock();
        let now = Instant::now();
        for change in changes {
            // A due time too far away to be reckoned with needs no hint.
            let Some(due) = now.checked_add(change.due_in) else { continue };
            state.add(change.what, due);
        }
        if !std::mem::replace(&mut state.sending, true) {
            self.tasks.spawn(send(shared.clone(), self.state.clone()));
        }
    }

    /// Leases were granted; `due_in` is their end. Without it the death of this node would be
    /// noticed by the others' sweeps only. At most one hint per kind and half lease.
    pub(super) fn tell_leases(&self, shared: &Arc<Shared>, leases: Vec<HookChange>) {
        let news = self.state.lock().news(leases);
        self.tell(shared, news);
    }

    /// Sends what waits, and ends.
    pub(super) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl State {
    fn add(&mut self, what: HookWhat, due: Instant) {
        self.pending.entry(what).and_modify(|at| *at = due.min(*at)).or_insert(due);
        if self.pending.len() > PENDING_MAX {
            self.pending.clear();
            self.everything = true;
        }
    }

    /// What the others do not know yet: an earlier end, or any end once half a lease has passed.
    fn news(&mut self, leases: Vec<HookChange>) -> Vec<HookChange> {
        let now = Instant::now();
        if self.leases.len() > LEASES_MAX {
            self.leases.clear();
        }
        let mut news = Vec::new();
        for lease in leases {
            let Some(due) = now.checked_add(lease.due_in) else { continue };
            let known = self.leases.get(&lease.what).is_some_and(|(at, told)| {
                *told > now && *told <= due && *at + lease.due_in / 2 > now
            });
            if !known {
                self.leases.insert(lease.what.clone(), (now, due));
                news.push(lease);
            }
        }
        news
    }
}

/// Sends until nothing is left.
async fn send(shared: Arc<Shared>, state: Arc<Mutex<State>>) {
    let timings = &shared.options.timings;
    let mut backoff = timings.reconnect_min;
    loop {
        let (pending, everything) = {
            let mut state = state.lock();
            if state.pending.is_empty() && !state.everything {
                state.sending = false;
                return;
            }
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.everything))
        };
        let text = text(&shared, &pending, everything);
        let pause = match shared.notifier.send(&text).await {
            Ok(()) => {
                backoff = timings.reconnect_min;
                timings.coalesce
            }
            Err(error) => {
                metrics::counter!("wakeline_notify_failures_total").increment(1);
                tracing::debug!(error = &error as &dyn std::error::Error, "notify failed");
                let mut state = state.lock();
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

fn text(shared: &Shared, pending: &HashMap<HookWhat, Instant>, everything: bool) -> String {
    if everything {
        return Payload::Everything { n: Some(shared.node.0) }.encode();
    }
    let now = Instant::now();
    let change = |(what, due): (&HookWhat, &Instant)| HookChange {
        what: what.clone(),
        due_in: due.saturating_duration_since(now),
    };
    Payload::of_hook_changes(shared.node, pending.iter().map(change).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wakeline_core::EndpointId;

    fn lease(secs: u64) -> HookChange {
        HookChange { what: HookWhat::Push, due_in: Duration::from_secs(secs) }
    }

    #[tokio::test(start_paused = true)]
    async fn lease_ends_are_told_once_per_half_lease_unless_they_are_earlier() {
        let mut state = State::default();
        assert_eq!(state.news(vec![lease(10)]).len(), 1);
        assert_eq!(state.news(vec![lease(10), lease(12)]).len(), 0);
        assert_eq!(state.news(vec![lease(5)]).len(), 1);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(state.news(vec![lease(10)]).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_waiting_hints_are_told_as_everything() {
        let mut state = State::default();
        for _ in 0..=PENDING_MAX {
            state.add(HookWhat::Pull(EndpointId::generate()), Instant::now());
        }
        assert!(state.everything && state.pending.is_empty());
    }
}
