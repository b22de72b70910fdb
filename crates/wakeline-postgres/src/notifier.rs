//! Tells other nodes what this one committed, off the write path.
//!
//! # Where it sits
//! The queue calls [`Notifier::tell`] after each commit; the listener reports who else is there.
//!
//! # Invariants
//! * Nobody waits for a hint to be sent, and no write fails because one could not be.
//! * At once when it was quiet, together with what follows within a few milliseconds when it is
//!   busy (leading and trailing edge). A push that comes when it is quiet takes its hint along: on
//!   its own connection, right behind its commit (see [`Link::query_then`]). While pushes follow
//!   each other, none does, so that hints stay off the write path.
//! * A node that has joined is never missed. While the listener is up and knows of no other node,
//!   nothing is sent, but it is remembered that something was not; the first hello is then
//!   answered with "everything". In every other case the sending statement itself looks for other
//!   nodes, after the commit that it speaks of: a row that it does not see belongs to a node that
//!   joined later, and whose first claims see the commit. So hello need not wait for calls in
//!   flight: they tell only after their commit, and by then the new node is known.

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

use crate::connect::{Followed, Follower, Link, Sql};
use crate::lease_hints::LeaseHints;
use crate::options::{NotifyMode, Schema, Timings};
use crate::payload::Payload;

/// More waiting changes than this are told as "everything".
const PENDING_MAX: usize = 2000;

/// What a [`Notifier`] is made of.
pub(crate) struct NotifierParts {
    pub(crate) mode: NotifyMode,
    pub(crate) node: NodeId,
    pub(crate) timings: Timings,
    /// A link of its own.
    pub(crate) link: Link,
}

/// Tells other nodes what this one committed.
pub(crate) struct Notifier {
    board: Arc<Board>,
    tasks: TaskTracker,
    stop: CancellationToken,
    incoming: Notify,
}

impl Notifier {
    /// Starts the task that sends. It ends when the notifier is closed or dropped.
    pub(crate) fn start(parts: NotifierParts, schema: &Schema) -> Self {
        let board = Arc::new(Board {
            send: Sql::new(schema, include_str!("../sql/queries/notify_send.sql")),
            lead: Sql::new(schema, include_str!("../sql/queries/notify_lead.sql")),
            echo: Sql::new(schema, include_str!("../sql/queries/notify_echo.sql")),
            reap: Sql::new(schema, include_str!("../sql/queries/node_reap.sql")),
            parts,
            state: Mutex::new(State::default()),
            bell: Notify::new(),
            sent: AtomicU64::new(0),
        });
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        if board.parts.mode != NotifyMode::Off {
            tasks.spawn(board.clone().run(stop.clone()));
        }
        Self { board, tasks, stop, incoming: Notify::new() }
    }

    /// These may have become available. Never blocks. Call it after the commit.
    pub(crate) fn tell(&self, changes: &[Change]) {
        if self.board.parts.mode != NotifyMode::Off && !changes.is_empty() {
            self.board.add(changes.iter().cloned());
        }
    }

    /// Anything may have changed, in any mode.
    pub(crate) fn tell_everything(&self) {
        self.board.state.lock().everything = true;
        self.board.bell.notify_one();
    }

    /// The statement that goes right behind a push, to be prepared on its connections.
    pub(crate) fn lead_sql(&self) -> Sql {
        self.board.lead.clone()
    }

    /// What goes right behind a push that will make this change, if it is quiet and others listen.
    pub(crate) fn lead(&self, change: &Change) -> Option<Follower> {
        if self.board.parts.mode == NotifyMode::Off || !self.board.take_lead() {
            return None;
        }
        let node = self.board.parts.node;
        let text = Payload::of_changes(node, vec![change.clone()]);
        Some(Follower { sql: self.lead_sql(), text, id: node.0 })
    }

    /// The push went well and its hint is under way. Should that fail, it is told once more.
    pub(crate) fn led(&self, followed: Followed, change: Change) {
        let board = self.board.clone();
        self.tasks.spawn(async move {
            match followed.await {
                Ok(rows) => board.count_sent(rows),
                Err(_) => board.add(std::iter::once(change)),
            }
        });
    }

    /// Leases were granted; `due_in` is their end. Without it the death of this node would be
    /// noticed by the others' sweeps only. At most one hint per topic and half lease (MODELS A19):
    /// who is woken by it and finds nothing learns of later leases from its claim.
    pub(crate) fn tell_leases(&self, changes: &[Change]) {
        if self.board.parts.mode == NotifyMode::Off || changes.is_empty() {
            return;
        }
        let news = self.board.state.lock().leases.news(changes);
        if !news.is_empty() {
            self.board.add(news.into_iter());
        }
    }

    /// Whether others may listen. If not, whoever joins will be told everything.
    pub(crate) fn is_heard(&self) -> bool {
        let mut state = self.board.state.lock();
        let alone = state.roster.as_ref().is_some_and(HashSet::is_empty);
        state.skipped |= alone;
        !alone
    }

    /// Sends a text to the other nodes, if there are any. Call it after the commit.
    pub(crate) async fn send(&self, text: &str) -> Result<(), StoreError> {
        let board = &self.board;
        let params: crate::connect::Params<'_> = &[&text, &board.parts.node.0];
        let rows = board.parts.link.query("notify", &board.send, params).await?;
        board.count_sent(rows.len());
        Ok(())
    }

    /// Rung when rows may have arrived in `incoming`.
    pub(crate) fn incoming(&self) -> &Notify {
        &self.incoming
    }

    /// Looks for dead nodes if that is due and others are known. Never blocks; part of the sweep.
    pub(crate) fn sweep(&self) {
        let mut state = self.board.state.lock();
        let due = state.reaped.is_none_or(|last| last.elapsed() >= self.board.parts.timings.reap);
        if due && state.roster.as_ref().is_some_and(|roster| !roster.is_empty()) {
            state.reaped = Some(Instant::now());
            state.wants_reap = true;
            self.board.bell.notify_one();
        }
    }

    /// Sends a text to all listeners, this node's too.
    pub(crate) async fn echo(&self, payload: &Payload) -> Result<(), StoreError> {
        let text = payload.encode();
        self.board.parts.link.query("notify echo", &self.board.echo, &[&text]).await.map(|_| ())
    }

    /// The listener is up and these are the other nodes.
    pub(crate) fn peers_known(&self, peers: HashSet<NodeId>) {
        let mut state = self.board.state.lock();
        state.roster = Some(peers);
        self.board.answer_hello(&mut state);
    }

    /// The listener is down: anybody may have joined.
    pub(crate) fn peers_unknown(&self) {
        self.board.state.lock().roster = None;
    }

    /// A node has joined.
    pub(crate) fn peer_joined(&self, node: NodeId) {
        let mut state = self.board.state.lock();
        if let Some(roster) = &mut state.roster {
            roster.insert(node);
        }
        self.board.answer_hello(&mut state);
    }

    /// A node has left.
    pub(crate) fn peer_left(&self, node: NodeId) {
        if let Some(roster) = &mut self.board.state.lock().roster {
            roster.remove(&node);
        }
    }

    /// How many other nodes there are, as far as is known.
    pub(crate) fn peers(&self) -> Option<usize> {
        self.board.state.lock().roster.as_ref().map(HashSet::len)
    }

    /// How many notifications were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.board.sent.load(Ordering::Relaxed)
    }

    /// Sends what waits, and ends the task and its connection.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.board.parts.link.close().await;
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What waits to be sent, and the task that sends it.
struct Board {
    parts: NotifierParts,
    state: Mutex<State>,
    bell: Notify,
    sent: AtomicU64,
    send: Sql,
    lead: Sql,
    echo: Sql,
    reap: Sql,
}

#[derive(Default)]
struct State {
    /// Changes with `due_in` zero, and when they are due.
    pending: HashMap<Change, Instant>,
    everything: bool,
    /// The other nodes; `None` while the listener is not up.
    roster: Option<HashSet<NodeId>>,
    /// Something was not sent because nobody listened.
    skipped: bool,
    leases: LeaseHints,
    /// When something was told last.
    told: Option<Instant>,
    /// Until when what is told waits for more.
    paused_until: Option<Instant>,
    reaped: Option<Instant>,
    wants_reap: bool,
}

impl Board {
    /// Whether a push may take its hint along: others listen, and it was quiet for a while.
    fn take_lead(&self) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        let heard = state.roster.as_ref().is_some_and(|roster| !roster.is_empty());
        let quiet = |told: Instant| now.duration_since(told) >= self.parts.timings.coalesce;
        let waiting = !state.pending.is_empty() || state.everything;
        if !heard || waiting || !state.told.is_none_or(quiet) {
            return false;
        }
        state.told = Some(now);
        state.paused_until = Some(now + self.parts.timings.coalesce);
        true
    }

    fn count_sent(&self, rows: usize) {
        self.sent.fetch_add(rows as u64, Ordering::Relaxed);
        metrics::counter!("wakeline_notifies_sent_total").increment(rows as u64);
    }

    fn add(&self, changes: impl Iterator<Item = Change>) {
        let mut state = self.state.lock();
        state.told = Some(Instant::now());
        if state.roster.as_ref().is_some_and(HashSet::is_empty) {
            state.skipped = true;
            return;
        }
        if !state.everything {
            let now = Instant::now();
            for change in changes {
                // A due time too far away to be reckoned with needs no hint.
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
        self.bell.notify_one();
    }

    /// Tells everyone there is now what nobody was there to hear.
    fn answer_hello(&self, state: &mut State) {
        let heard = state.roster.as_ref().is_none_or(|roster| !roster.is_empty());
        if heard && std::mem::take(&mut state.skipped) {
            state.everything = true;
            self.bell.notify_one();
        }
    }

    async fn run(self: Arc<Self>, stop: CancellationToken) {
        let timings = &self.parts.timings;
        let mut backoff = timings.reconnect_min;
        loop {
            let stopping = tokio::select! {
                biased;
                () = self.bell.notified() => self.pause(&stop).await,
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
                    tracing::debug!(error = error_chain(&error), "notify failed");
                    self.bell.notify_one();
                    let longer = (backoff * 2).min(timings.reconnect_max);
                    std::mem::replace(&mut backoff, longer)
                }
            };
            self.state.lock().paused_until = Some(Instant::now() + pause);
        }
    }

    /// Waits until what was told may be sent. True if the store is closed meanwhile.
    async fn pause(&self, stop: &CancellationToken) -> bool {
        let Some(until) = self.state.lock().paused_until else { return false };
        tokio::select! {
            () = tokio::time::sleep_until(until) => false,
            () = stop.cancelled() => true,
        }
    }

    /// Sends what waits; false if nothing did. After a failure it waits on.
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

    /// Has dead nodes removed and forgets them; one that says hello meanwhile is not among them.
    async fn reap(&self) {
        let Some(before) = self.state.lock().roster.clone() else { return };
        match self.parts.link.query("reap nodes", &self.reap, &[]).await {
            Ok(rows) => {
                let alive: HashSet<NodeId> =
                    rows.iter().map(|row| NodeId(row.get::<_, Uuid>("node_id"))).collect();
                let stays = |node: &NodeId| alive.contains(node) || !before.contains(node);
                self.state.lock().roster.iter_mut().for_each(|roster| roster.retain(stays));
            }
            Err(error) => tracing::debug!(error = error_chain(&error), "reap failed"),
        }
    }
}
