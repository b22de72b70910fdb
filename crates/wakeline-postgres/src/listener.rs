//! Receives the hints of other nodes: LISTEN on a connection of its own.
//!
//! # Where it sits
//! Feeds the hub through [`HintSink`], and reports the other nodes to the [`crate::notifier`].
//!
//! # Invariants
//! * The connection belongs to the future of [`HintFeed::feed`]: dropping it closes the socket.
//! * The sink is never awaited, so that no waiter can block the connection: notifications would
//!   pile up in the server until commits fail.
//! * While idle, no statement is executed: a loss is noticed by keepalives and an empty Sync
//!   message.
//! * After each (re)connect, in this order: LISTEN, receive an echo, join, `Up`, `everything`.
//!   Commits before LISTEN are seen by the claims that follow; those after it are notified.
//! * Every failure is retried: soon at first, then with growing pauses, never in a busy loop.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wakeline_core::{Change, FlowChange, HookChange, NodeId, error_chain};
use wakeline_store::{HintFeed, HintOrigin, HintSink, LinkState, StoreError};

use crate::connect::fill;
use crate::connector::{PgConnector, RawConnection};
use crate::incoming::IncomingPump;
use crate::options::NotifyMode;
use crate::payload::Payload;
use crate::{PostgresStore, Shared, error};

/// The time limit for the server's answer to a connection check.
const CHECKED_WITHIN: Duration = Duration::from_secs(2);

#[async_trait]
impl HintFeed for PostgresStore {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        if self.shared.options.notify == NotifyMode::Off {
            sink.link(LinkState::Off { reason: "notify = off".to_owned() });
            return self.feed_poll_only(sink, shutdown).await;
        }
        let _feeding = self.shared.feeds.token();
        let closed = self.shared.closed.clone();
        let pump = IncomingPump::new(self, sink.clone());
        let _roster = Roster(&self.shared);
        let stop = shutdown.child_token();
        let mut listener = HintListener { shared: &self.shared, sink, reported: None };
        let mut running = pin!(listener.run(&stop));
        tokio::select! {
            () = &mut running => {}
            // Never ends by itself; it is dropped when the listener ends.
            () = pump.run() => {}
            () = closed.cancelled() => {
                stop.cancel();
                running.await;
            }
        }
    }

    /// Takes over rows that arrived in `incoming`, when a claim has seen them there.
    async fn feed_poll_only(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        let _feeding = self.shared.feeds.token();
        let closed = self.shared.closed.clone();
        let pump = IncomingPump::new(self, sink);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = closed.cancelled() => {}
            () = pump.run() => {}
        }
    }
}

/// Marks the other nodes as unknown when a feed ends, even if it is dropped halfway. Otherwise an
/// empty list of nodes would stay in use although no listener could add to it.
struct Roster<'a>(&'a Shared);

impl Drop for Roster<'_> {
    fn drop(&mut self) {
        self.0.notifier.peers_unknown();
        metrics::gauge!("wakeline_listener_up").set(0.0);
    }
}

/// Why a listening session ended.
enum ListenEnd {
    /// The shutdown was requested.
    Requested,
    /// The connection was lost or could not be opened.
    Lost(String),
    /// LISTEN cannot work over this connection.
    Impossible(String),
}

struct HintListener<'a> {
    shared: &'a Shared,
    sink: Arc<dyn HintSink>,
    /// The last state that was reported, so that a long outage is reported once.
    reported: Option<LinkState>,
}

impl HintListener<'_> {
    async fn run(&mut self, shutdown: &CancellationToken) {
        let timings = &self.shared.options.timings;
        let mut backoff = timings.reconnect_min;
        loop {
            let started = Instant::now();
            let end = self.connect_and_listen(shutdown).await;
            self.shared.notifier.peers_unknown();
            metrics::gauge!("wakeline_listener_up").set(0.0);
            let pause = match end {
                ListenEnd::Requested => return,
                ListenEnd::Lost(reason) => {
                    // Other connections may have been lost silently as well.
                    self.shared.connector.count_loss();
                    self.report(LinkState::Down { reason });
                    if started.elapsed() > timings.reconnect_max {
                        backoff = timings.reconnect_min;
                    }
                    backoff
                }
                ListenEnd::Impossible(reason) => {
                    self.report(LinkState::Off { reason });
                    timings.listen_again
                }
            };
            backoff = (backoff * 2).min(timings.reconnect_max);
            tokio::select! {
                () = tokio::time::sleep(jittered(pause)) => {}
                () = self.shared.connector.breaker().until_back() => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Reports a new state of the connection to the sink and to the log.
    fn report(&mut self, state: LinkState) {
        if self.reported.as_ref() != Some(&state) {
            match &state {
                LinkState::Up => tracing::info!("receiving notifications from other nodes"),
                LinkState::Down { reason } => tracing::warn!(
                    reason,
                    "lost the connection that receives notifications from other nodes: reconnecting"
                ),
                LinkState::Off { reason } => {
                    tracing::warn!(
                        reason,
                        "cannot receive notifications from other nodes: polling instead"
                    )
                }
            }
            self.sink.link(state.clone());
            self.reported = Some(state);
        }
    }

    async fn connect_and_listen(&mut self, shutdown: &CancellationToken) -> ListenEnd {
        let connector = &self.shared.listen_connector;
        let opened = loop {
            tokio::select! {
                opened = connector.open_wire("listen") => break opened,
                // This attempt may have begun in an outage that is over, and never get an answer.
                () = self.shared.connector.breaker().until_back() => {}
                () = shutdown.cancelled() => return ListenEnd::Requested,
            }
        };
        let (client, wire) = match opened {
            Ok(pair) => pair,
            Err(error) => return ListenEnd::Lost(error_chain(&error)),
        };
        let (sender, received) = mpsc::unbounded_channel();
        // The reader is polled last: a session that ends by request is not a loss.
        tokio::select! {
            biased;
            end = self.session(ListenSession { client, received, connector }, shutdown) => end,
            reason = read(wire, sender) => ListenEnd::Lost(reason),
        }
    }

    async fn session(
        &mut self,
        mut session: ListenSession<'_>,
        shutdown: &CancellationToken,
    ) -> ListenEnd {
        let peers = tokio::select! {
            joined = self.join(&mut session) => match joined {
                Ok(peers) => peers,
                Err(end) => return end,
            },
            () = shutdown.cancelled() => return ListenEnd::Requested,
        };
        self.shared.notifier.peers_known(peers);
        metrics::gauge!("wakeline_listener_up").set(1.0);
        self.report(LinkState::Up);
        self.sink.everything();
        self.shared.notifier.incoming().notify_one();
        let timings = &self.shared.options.timings;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => {
                    self.leave(&session).await;
                    return ListenEnd::Requested;
                }
                text = session.received.recv() => match text {
                    Some(text) => self.receive(&text),
                    None => return ListenEnd::Lost("PostgreSQL closed the connection".to_owned()),
                },
                () = tokio::time::sleep(timings.listener_check) => {
                    // A Sync message: answered without a statement and without a transaction.
                    let check = session.client.check_connection();
                    match timeout(timings.listener_patience.min(CHECKED_WITHIN), check).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return ListenEnd::Lost(error.to_string()),
                        Err(_) => {
                            return ListenEnd::Lost("PostgreSQL no longer responds".to_owned());
                        }
                    }
                }
            }
        }
    }

    /// Executes LISTEN, waits for an echo and joins the running nodes. Returns the others.
    async fn join(&self, session: &mut ListenSession<'_>) -> Result<HashSet<NodeId>, ListenEnd> {
        let patience = self.shared.options.timings.listener_patience;
        let schema = &self.shared.schema;
        let listen = fill(schema, include_str!("../sql/queries/listen.sql"));
        let steps = async {
            session.connector.set_up(&session.client).await?;
            session.client.batch_execute(&listen).await
        };
        in_time(patience, steps).await?;
        self.receive_echo(&mut session.received).await?;
        self.keep_triggers(session).await?;
        let sql = fill(schema, include_str!("../sql/queries/node_join.sql"));
        let key = i64::from_be_bytes(random_bytes());
        let node = self.shared.node.0;
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&node, Type::UUID), (&key, Type::INT8)];
        let rows = in_time(patience, session.client.query_typed(&sql, &params)).await?;
        // Repeated without effect, so that pg_stat_activity shows the purpose of the connection.
        in_time(patience, session.client.batch_execute(&listen)).await?;
        Ok(rows.iter().map(|row| NodeId(row.get::<_, Uuid>("node_id"))).collect())
    }

    /// Ensures that no node removes the triggers from now on, and installs them again if one has
    /// removed them since this node started.
    async fn keep_triggers(&self, session: &ListenSession<'_>) -> Result<(), ListenEnd> {
        if self.shared.options.notify != NotifyMode::Trigger {
            return Ok(());
        }
        let sql = fill(&self.shared.schema, include_str!("../sql/queries/notify_wanting.sql"));
        let lock = self.shared.schema.triggers_lock();
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&lock, Type::INT8)];
        let patience = self.shared.options.timings.listener_patience;
        in_time(patience, session.client.query_typed(&sql, &params)).await?;
        // LISTEN works without triggers: only rows of other sessions are noticed late.
        if let Err(error) = self.shared.install_triggers().await {
            let error = error_chain(&error);
            tracing::warn!(error, "cannot install the triggers for the setting notify = trigger");
        }
        Ok(())
    }

    /// Sends an echo from another connection and waits for it. Behind a transaction pooler LISTEN
    /// succeeds, but nothing is ever delivered, which the missing echo shows at once.
    async fn receive_echo(
        &self,
        received: &mut mpsc::UnboundedReceiver<String>,
    ) -> Result<(), ListenEnd> {
        let echo = Payload::Echo { n: self.shared.node.0, x: Uuid::new_v4() };
        let sent = self.shared.notifier.echo(&echo).await;
        sent.map_err(|error: StoreError| ListenEnd::Lost(error_chain(&error)))?;
        let text = echo.encode();
        let wait = async {
            // Other hints are covered by `everything`, which follows.
            while let Some(other) = received.recv().await {
                if other == text {
                    return true;
                }
            }
            false
        };
        match timeout(self.shared.options.timings.listener_patience, wait).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ListenEnd::Lost("PostgreSQL closed the connection".to_owned())),
            Err(_) => Err(ListenEnd::Impossible(
                "LISTEN receives nothing over this connection: if the URL points to a transaction \
                 pooler, set listen_url to the URL of the database itself"
                    .to_owned(),
            )),
        }
    }

    async fn leave(&self, session: &ListenSession<'_>) {
        let sql = fill(&self.shared.schema, include_str!("../sql/queries/node_leave.sql"));
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&self.shared.node.0, Type::UUID)];
        let leaving = session.client.query_typed(&sql, &params);
        // If it fails, the other nodes detect the absence by themselves.
        let _ = timeout(self.shared.options.timings.listener_patience, leaving).await;
    }

    fn receive(&self, text: &str) {
        let payload = Payload::decode(text);
        let kind = match &payload {
            None => "garbled",
            Some(payload) if payload.sender() == Some(self.shared.node) => "own",
            Some(Payload::Changed { .. }) => "changed",
            Some(Payload::Flow { .. }) => "flow",
            Some(Payload::Hook { .. }) => "hook",
            Some(Payload::Everything { .. }) => "everything",
            Some(Payload::Incoming) => "incoming",
            Some(Payload::Hello { .. }) => "hello",
            Some(Payload::Bye { .. }) => "bye",
            Some(Payload::Echo { .. }) => "echo",
        };
        metrics::counter!("wakeline_notifications_received_total", "kind" => kind).increment(1);
        match payload {
            None => self.sink.everything(),
            Some(payload) if payload.sender() == Some(self.shared.node) => {}
            Some(Payload::Changed { c, .. }) => {
                let changes: Vec<Change> = c.into_iter().map(Change::from).collect();
                self.sink.changed(&changes, HintOrigin::Notify);
            }
            Some(Payload::Flow { f, .. }) => {
                let change = |(what, ms)| FlowChange { what, due_in: Duration::from_millis(ms) };
                let changes: Vec<FlowChange> = f.into_iter().map(change).collect();
                self.sink.flow_changed(&changes, HintOrigin::Notify);
            }
            Some(Payload::Hook { h, .. }) => {
                let change = |(what, ms)| HookChange { what, due_in: Duration::from_millis(ms) };
                let changes: Vec<HookChange> = h.into_iter().map(change).collect();
                self.sink.hook_changed(&changes, HintOrigin::Notify);
            }
            Some(Payload::Everything { .. }) => self.sink.everything(),
            Some(Payload::Incoming) => self.shared.notifier.incoming().notify_one(),
            Some(Payload::Hello { n }) => self.shared.notifier.peer_joined(NodeId(n)),
            Some(Payload::Bye { n }) => self.shared.notifier.peer_left(NodeId(n)),
            Some(Payload::Echo { .. }) => {}
        }
    }
}

/// A connection that listens.
struct ListenSession<'a> {
    client: Client,
    received: mpsc::UnboundedReceiver<String>,
    connector: &'a PgConnector,
}

/// Reads notifications for as long as the connection lives; returns the reason why it ended.
async fn read(mut wire: RawConnection, received: mpsc::UnboundedSender<String>) -> String {
    loop {
        match poll_fn(|cx| wire.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                let _ = received.send(notification.payload().to_owned());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return error_chain(&error),
            None => return "PostgreSQL closed the connection".to_owned(),
        }
    }
}

/// Waits for a step of joining. An error of the server (a standby, a missing privilege) lasts until
/// it is corrected there; any other error is a loss.
async fn in_time<T>(
    patience: Duration,
    step: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, ListenEnd> {
    match timeout(patience, step).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if error::kind(&error) == error::PgErrorKind::Transient => {
            Err(ListenEnd::Lost(error_chain(&error)))
        }
        Ok(Err(error)) => {
            let refused = error.as_db_error().map(ToString::to_string);
            Err(ListenEnd::Impossible(refused.unwrap_or_else(|| error_chain(&error))))
        }
        Err(_) => {
            Err(ListenEnd::Lost("PostgreSQL did not respond within the time limit".to_owned()))
        }
    }
}

/// Returns a random pause between half of `pause` and all of it, so that nodes do not reconnect
/// simultaneously.
fn jittered(pause: Duration) -> Duration {
    let share = u32::from(random_bytes::<1>()[0]);
    pause / 2 + pause / 2 * share / 255
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The last bytes of a UUIDv4 are random throughout.
    bytes.copy_from_slice(&Uuid::new_v4().as_bytes()[16 - N..]);
    bytes
}
