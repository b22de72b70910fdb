//! Notifies other nodes of what this one committed, off the write path.
//!
//! # Where it sits
//! The queue calls [`Notifier::notify`] after each commit; the listener reports the other nodes.
//!
//! # Invariants
//! * No caller waits until a hint is sent, and no write fails because one could not be sent.
//! * A hint is sent at once if none was sent recently; otherwise it is sent together with those of
//!   a few milliseconds (leading and trailing edge). A push at a quiet time piggybacks its hint: it
//!   is sent on the same connection, right behind the commit (see [`PgLink::query_then`]). Pushes
//!   in quick succession do not, so that hints stay off the write path.
//! * A node that has joined is never missed. While the listener is up and knows of no other node,
//!   nothing is sent, but the omission is remembered; the first hello is then answered with
//!   "everything". In every other case the sending statement itself looks for other nodes, after
//!   the commit that it reports: a node whose row it does not see joined later, and its first
//!   claims see the commit. So hello need not wait for calls in flight: they notify only after
//!   their commit, when the new node is known.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;
use wakeline_core::{Change, NodeId, error_chain};
use wakeline_store::StoreError;

use crate::connect::{FollowUp, FollowUpResult, PgLink, Sql};
use crate::lease_hints::LeaseHints;
use crate::options::{NotifyMode, Schema, Timings};
use crate::payload::Payload;

/// If more changes than this are pending, one hint for everything replaces them.
const PENDING_MAX: usize = 2000;

/// The configuration of a [`Notifier`].
pub(crate) struct NotifierParts {
    pub(crate) mode: NotifyMode,
    pub(crate) node: NodeId,
    pub(crate) timings: Timings,
    /// The connection that notifications are sent on.
    pub(crate) link: PgLink,
}

/// Notifies other nodes of what this one committed.
pub(crate) struct Notifier {
    inner: Arc<NotifierInner>,
    tasks: TaskTracker,
    stop: CancellationToken,
    incoming: Notify,
}

impl Notifier {
    /// Starts the sending task. It ends when the notifier is closed or dropped.
    pub(crate) fn start(parts: NotifierParts, schema: &Schema) -> Self {
        let inner = Arc::new(NotifierInner {
            send: Sql::new(schema, include_str!("../sql/queries/notify_send.sql")),
            hint_after_push: Sql::new(schema, include_str!("../sql/queries/notify_lead.sql")),
            echo: Sql::new(schema, include_str!("../sql/queries/notify_echo.sql")),
            reap: Sql::new(schema, include_str!("../sql/queries/node_reap.sql")),
            parts,
            state: Mutex::new(NotifierState::default()),
            wake: Notify::new(),
            sent: AtomicU64::new(0),
        });
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        if inner.parts.mode != NotifyMode::Off {
            tasks.spawn(inner.clone().run(stop.clone()));
        }
        Self { inner, tasks, stop, incoming: Notify::new() }
    }

    /// Notifies other nodes that these topics may have work. Never blocks. Call it after the
    /// commit.
    pub(crate) fn notify(&self, changes: &[Change]) {
        if self.inner.parts.mode != NotifyMode::Off && !changes.is_empty() {
            self.inner.add(changes.iter().cloned());
        }
    }

    /// Notifies other nodes that anything may have changed, in any mode.
    pub(crate) fn notify_all(&self) {
        self.inner.state.lock().everything = true;
        self.inner.wake.notify_one();
    }

    /// The statement that sends a piggybacked hint, to be prepared on the connections of pushes.
    pub(crate) fn hint_after_push_sql(&self) -> Sql {
        self.inner.hint_after_push.clone()
    }

    /// Returns the statement that sends this change right behind its push, if no hint was sent
    /// recently and other nodes listen.
    pub(crate) fn hint_after_push(&self, change: &Change) -> Option<FollowUp> {
        if self.inner.parts.mode == NotifyMode::Off || !self.inner.take_hint_after_push() {
            return None;
        }
        let node = self.inner.parts.node;
        let text = Payload::of_changes(node, vec![change.clone()]);
        Some(FollowUp { sql: self.hint_after_push_sql(), text, id: node.0 })
    }

    /// Completes a piggybacked hint after its push succeeded. If sending failed, the change is
    /// added to the pending ones.
    pub(crate) fn note_hint_after_push(&self, followed: FollowUpResult, change: Change) {
        let inner = self.inner.clone();
        self.tasks.spawn(async move {
            match followed.await {
                Ok(rows) => inner.count_sent(rows),
                Err(_) => inner.add(std::iter::once(change)),
            }
        });
    }

    /// Notifies other nodes of new leases; `due_in` is their end. Without these hints the others
    /// would notice the death of this node only in their sweeps. At most one hint is sent per topic
    /// and half lease: a node that is woken by it and finds nothing learns of later leases from its
    /// claim.
    pub(crate) fn notify_leases(&self, changes: &[Change]) {
        if self.inner.parts.mode == NotifyMode::Off || changes.is_empty() {
            return;
        }
        let unannounced = self.inner.state.lock().leases.news(changes);
        if !unannounced.is_empty() {
            self.inner.add(unannounced.into_iter());
        }
    }

    /// Whether other nodes may listen. If not, the next node that joins gets a hint for everything.
    pub(crate) fn has_listeners(&self) -> bool {
        let mut state = self.inner.state.lock();
        let alone = state.roster.as_ref().is_some_and(HashSet::is_empty);
        state.skipped |= alone;
        !alone
    }

    /// Sends a text to the other nodes, if there are any. Call it after the commit.
    pub(crate) async fn send(&self, text: &str) -> Result<(), StoreError> {
        let inner = &self.inner;
        let params: crate::connect::Params<'_> = &[&text, &inner.parts.node.0];
        let rows = inner.parts.link.query("notify", &inner.send, params).await?;
        inner.count_sent(rows.len());
        Ok(())
    }

    /// Notified when rows may have arrived in `incoming`.
    pub(crate) fn incoming(&self) -> &Notify {
        &self.incoming
    }

    /// Requests a search for dead nodes if that is due and others are known. Never blocks; part of
    /// the sweep.
    pub(crate) fn sweep(&self) {
        let mut state = self.inner.state.lock();
        let due = state.reaped.is_none_or(|last| last.elapsed() >= self.inner.parts.timings.reap);
        if due && state.roster.as_ref().is_some_and(|roster| !roster.is_empty()) {
            state.reaped = Some(Instant::now());
            state.wants_reap = true;
            self.inner.wake.notify_one();
        }
    }

    /// Sends a text to all listeners, including this node's.
    pub(crate) async fn echo(&self, payload: &Payload) -> Result<(), StoreError> {
        let text = payload.encode();
        self.inner.parts.link.query("notify echo", &self.inner.echo, &[&text]).await.map(|_| ())
    }

    /// Records that the listener is up, and which other nodes there are.
    pub(crate) fn peers_known(&self, peers: HashSet<NodeId>) {
        let mut state = self.inner.state.lock();
        state.roster = Some(peers);
        self.inner.answer_hello(&mut state);
    }

    /// Records that the listener is down: other nodes may join unnoticed.
    pub(crate) fn peers_unknown(&self) {
        self.inner.state.lock().roster = None;
    }

    /// Records that a node has joined.
    pub(crate) fn peer_joined(&self, node: NodeId) {
        let mut state = self.inner.state.lock();
        if let Some(roster) = &mut state.roster {
            roster.insert(node);
        }
        self.inner.answer_hello(&mut state);
    }

    /// Records that a node has left.
    pub(crate) fn peer_left(&self, node: NodeId) {
        if let Some(roster) = &mut self.inner.state.lock().roster {
            roster.remove(&node);
        }
    }

    /// The number of other nodes, if it is known.
    pub(crate) fn peers(&self) -> Option<usize> {
        self.inner.state.lock().roster.as_ref().map(HashSet::len)
    }

    /// The number of notifications that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.inner.sent.load(Ordering::Relaxed)
    }

    /// Sends the pending hints, then ends the task and its connection.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.inner.parts.link.close().await;
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The pending hints, shared with the task that sends them.
struct NotifierInner {
    parts: NotifierParts,
    state: Mutex<NotifierState>,
    wake: Notify,
    sent: AtomicU64,
    send: Sql,
    hint_after_push: Sql,
    echo: Sql,
    reap: Sql,
}

#[derive(Default)]
struct NotifierState {
    /// Changes with `due_in` zero, and when they are due.
    pending: HashMap<Change, Instant>,
    everything: bool,
    /// The other nodes; `None` while the listener is not up.
    roster: Option<HashSet<NodeId>>,
    /// A hint was not sent because no other node listened.
    skipped: bool,
    leases: LeaseHints,
    /// When changes were added last.
    last_added: Option<Instant>,
    /// Pending changes are not sent before this time.
    paused_until: Option<Instant>,
    reaped: Option<Instant>,
    wants_reap: bool,
}

impl NotifierInner {
    /// Whether a push may piggyback its hint: others listen, and no hint was sent recently.
    fn take_hint_after_push(&self) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        let has_listeners = state.roster.as_ref().is_some_and(|roster| !roster.is_empty());
        let quiet = |last: Instant| now.duration_since(last) >= self.parts.timings.coalesce;
        let waiting = !state.pending.is_empty() || state.everything;
        if !has_listeners || waiting || !state.last_added.is_none_or(quiet) {
            return false;
        }
        state.last_added = Some(now);
        state.paused_until = Some(now + self.parts.timings.coalesce);
        true
    }

    fn count_sent(&self, rows: usize) {
        self.sent.fetch_add(rows as u64, Ordering::Relaxed);
        metrics::counter!("wakeline_notifications_sent_total").increment(rows as u64);
    }

    fn add(&self, changes: impl Iterator<Item = Change>) {
        let mut state = self.state.lock();
        state.last_added = Some(Instant::now());
        if state.roster.as_ref().is_some_and(HashSet::is_empty) {
            state.skipped = true;
            return;
        }
        if !state.everything {
            let now = Instant::now();
            for change in changes {
                // A due time that is too far away to compute needs no hint.
                let Some(due) = now.checked_add(change.due_in) else { continue };
                let key = Change { due_in: Duration::ZERO, ..change };
                state.pending.entry(key).and_modify(|at| *at = due.min(*at)).or_insert(due);
            }
        }
        if state.pending.len() > PENDING_MAX {
            state.pending.clear();
            state.everything = true;
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Sends a hint for everything if hints were omitted while no other node listened.
    fn answer_hello(&self, state: &mut NotifierState) {
        let has_listeners = state.roster.as_ref().is_none_or(|roster| !roster.is_empty());
        if has_listeners && std::mem::take(&mut state.skipped) {
            state.everything = true;
            self.wake.notify_one();
        }
    }

    async fn run(self: Arc<Self>, stop: CancellationToken) {
        let timings = &self.parts.timings;
        let mut backoff = timings.reconnect_min;
        loop {
            let stopping = tokio::select! {
                biased;
                () = self.wake.notified() => self.pause(&stop).await,
                () = stop.cancelled() => true,
            };
            if std::mem::take(&mut self.state.lock().wants_reap) {
                self.reap().await;
            }
            let sent = self.flush().await;
            if stopping {
                return;
            }
            let pause = match sent {
                Ok(false) => continue,
                Ok(true) => {
                    backoff = timings.reconnect_min;
                    timings.coalesce
                }
                Err(error) => {
                    metrics::counter!("wakeline_notify_failures_total").increment(1);
                    tracing::debug!(
                        error = error_chain(&error),
                        "other nodes could not be notified"
                    );
                    self.wake.notify_one();
                    let longer = (backoff * 2).min(timings.reconnect_max);
                    std::mem::replace(&mut backoff, longer)
                }
            };
            self.state.lock().paused_until = Some(Instant::now() + pause);
        }
    }

    /// Waits until pending changes may be sent. True if the store is closed meanwhile.
    async fn pause(&self, stop: &CancellationToken) -> bool {
        let Some(until) = self.state.lock().paused_until else { return false };
        tokio::select! {
            () = tokio::time::sleep_until(until) => false,
            () = stop.cancelled() => true,
        }
    }

    /// Sends the pending hints; false if there were none. After a failure they stay pending.
    async fn flush(&self) -> Result<bool, StoreError> {
        let (changes, everything) = {
            let mut state = self.state.lock();
            if state.pending.is_empty() && !state.everything {
                return Ok(false);
            }
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.everything))
        };
        let text = if everything {
            Payload::Everything { n: Some(self.parts.node.0) }.encode()
        } else {
            let now = Instant::now();
            let due = |(key, at): (&Change, &Instant)| Change {
                due_in: at.saturating_duration_since(now),
                ..key.clone()
            };
            Payload::of_changes(self.parts.node, changes.iter().map(due).collect())
        };
        match self.parts.link.query("notify", &self.send, &[&text, &self.parts.node.0]).await {
            Ok(rows) => {
                self.count_sent(rows.len());
                Ok(true)
            }
            Err(error) => {
                let mut state = self.state.lock();
                state.everything |= everything;
                for (key, at) in changes {
                    state.pending.entry(key).and_modify(|due| *due = at.min(*due)).or_insert(at);
                }
                Err(error)
            }
        }
    }

    /// Removes dead nodes from the database and the list; nodes that joined meanwhile stay.
    async fn reap(&self) {
        let Some(before) = self.state.lock().roster.clone() else { return };
        match self.parts.link.query("reap nodes", &self.reap, &[]).await {
            Ok(rows) => {
                let alive: HashSet<NodeId> =
                    rows.iter().map(|row| NodeId(row.get::<_, Uuid>("node_id"))).collect();
                let stays = |node: &NodeId| alive.contains(node) || !before.contains(node);
                self.state.lock().roster.iter_mut().for_each(|roster| roster.retain(stays));
            }
            Err(error) => tracing::debug!(
                error = error_chain(&error),
                "the records of nodes that have ended could not be removed"
            ),
        }
    }
}
