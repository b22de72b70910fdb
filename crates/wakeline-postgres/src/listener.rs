//! Hears what other nodes committed: LISTEN on a connection of its own.
//!
//! # Where it sits
//! Feeds the hub through [`HintSink`]; tells the [`crate::notifier`] who else is there.
//!
//! # Invariants
//! * The connection belongs to the future of [`HintFeed::feed`]: dropping it closes the socket.
//! * The sink is never awaited, so no waiter can hold the connection up (trap 8).
//! * No statement while idle: loss is noticed by keepalives and by an empty Sync message.
//! * After each (re)connect, in this order: LISTEN, hear an echo, join, `Up`, `everything`. What
//!   was committed before LISTEN is seen by the claims that follow; what comes after is heard.
//! * Whatever goes wrong, it tries again: at first soon, then ever more slowly, never in a spin.

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
use crate::connector::{Connector, Wire};
use crate::incoming::IncomingPump;
use crate::options::NotifyMode;
use crate::payload::Payload;
use crate::{PostgresStore, Shared, error};

/// How long the server may take to show that it is still there.
const CHECKED_WITHIN: Duration = Duration::from_secs(2);

#[async_trait]
impl HintFeed for PostgresStore {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        if self.shared.options.notify == NotifyMode::Off {
            sink.link(LinkState::Off { reason: "notify = off".to_owned() });
            return self.tend(sink, shutdown).await;
        }
        let _feeding = self.shared.feeds.token();
        let closed = self.shared.closed.clone();
        let pump = IncomingPump::new(self, sink.clone());
        let _roster = Roster(&self.shared);
        let stop = shutdown.child_token();
        let mut listener = HintListener { shared: &self.shared, sink, told: None };
        let mut running = pin!(listener.run(&stop));
        tokio::select! {
            () = &mut running => {}
            // Never ends, and is not missed when the listener does.
            () = pump.run() => {}
            () = closed.cancelled() => {
                stop.cancel();
                running.await;
            }
        }
    }

    /// Takes over what arrived in `incoming`, when a claim has seen it there.
    async fn tend(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
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

/// Forgets who else is there when a feed ends, be it dropped halfway: with nobody listening for
/// hellos, "nobody else is there" would be believed for ever.
struct Roster<'a>(&'a Shared);

impl Drop for Roster<'_> {
    fn drop(&mut self) {
        self.0.notifier.peers_unknown();
        metrics::gauge!("wakeline_listener_up").set(0.0);
    }
}

/// Why a listening session ended.
enum End {
    /// Shut down.
    Asked,
    /// The connection was lost or could not be made.
    Lost(String),
    /// LISTEN cannot work over this connection.
    Impossible(String),
}

struct HintListener<'a> {
    shared: &'a Shared,
    sink: Arc<dyn HintSink>,
    /// What the sink was told last, so that a long outage is reported once.
    told: Option<LinkState>,
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
                End::Asked => return,
                End::Lost(reason) => {
                    // Other connections may be lost as well, without knowing it.
                    self.shared.connector.count_loss();
                    self.tell(LinkState::Down { reason });
                    if started.elapsed() > timings.reconnect_max {
                        backoff = timings.reconnect_min;
                    }
                    backoff
                }
                End::Impossible(reason) => {
                    self.tell(LinkState::Off { reason });
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

    fn tell(&mut self, state: LinkState) {
        if self.told.as_ref() != Some(&state) {
            match &state {
                LinkState::Up => tracing::info!("listening for other nodes"),
                LinkState::Down { reason } => tracing::warn!(
                    reason,
                    "lost the connection that listens for other nodes: connecting again"
                ),
                LinkState::Off { reason } => {
                    tracing::warn!(reason, "cannot listen for other nodes: polling instead")
                }
            }
            self.sink.link(state.clone());
            self.told = Some(state);
        }
    }

    async fn connect_and_listen(&mut self, shutdown: &CancellationToken) -> End {
        let connector = &self.shared.listen_connector;
        let opened = loop {
            tokio::select! {
                opened = connector.open_wire("listen") => break opened,
                // This try may have begun in an outage that is over, and never get an answer.
                () = self.shared.connector.breaker().until_back() => {}
                () = shutdown.cancelled() => return End::Asked,
            }
        };
        let (client, wire) = match opened {
            Ok(pair) => pair,
            Err(error) => return End::Lost(error_chain(&error)),
        };
        let (sender, heard) = mpsc::unbounded_channel();
        // The reader comes last: a session that ends because it was asked to is not a loss.
        tokio::select! {
            biased;
            end = self.session(Session { client, heard, connector }, shutdown) => end,
            reason = read(wire, sender) => End::Lost(reason),
        }
    }

    async fn session(&mut self, mut session: Session<'_>, shutdown: &CancellationToken) -> End {
        let peers = tokio::select! {
            joined = self.join(&mut session) => match joined {
                Ok(peers) => peers,
                Err(end) => return end,
            },
            () = shutdown.cancelled() => return End::Asked,
        };
        self.shared.notifier.peers_known(peers);
        metrics::gauge!("wakeline_listener_up").set(1.0);
        self.tell(LinkState::Up);
        self.sink.everything();
        self.shared.notifier.incoming().notify_one();
        let timings = &self.shared.options.timings;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => {
                    self.leave(&session).await;
                    return End::Asked;
                }
                text = session.heard.recv() => match text {
                    Some(text) => self.hear(&text),
                    None => return End::Lost("PostgreSQL closed the connection".to_owned()),
                },
                () = tokio::time::sleep(timings.listener_check) => {
                    // A Sync message: answered without a statement and without a transaction.
                    let check = session.client.check_connection();
                    match timeout(timings.listener_patience.min(CHECKED_WITHIN), check).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return End::Lost(error.to_string()),
                        Err(_) => return End::Lost("the server no longer answers".to_owned()),
                    }
                }
            }
        }
    }

    /// LISTEN, hear an echo, join the running nodes. Returns the others.
    async fn join(&self, session: &mut Session<'_>) -> Result<HashSet<NodeId>, End> {
        let patience = self.shared.options.timings.listener_patience;
        let schema = &self.shared.schema;
        let listen = fill(schema, include_str!("../sql/queries/listen.sql"));
        let steps = async {
            session.connector.set_up(&session.client).await?;
            session.client.batch_execute(&listen).await
        };
        in_time(patience, steps).await?;
        self.hear_echo(&mut session.heard).await?;
        self.keep_triggers(session).await?;
        let sql = fill(schema, include_str!("../sql/queries/node_join.sql"));
        let key = i64::from_be_bytes(random_bytes());
        let node = self.shared.node.0;
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&node, Type::UUID), (&key, Type::INT8)];
        let rows = in_time(patience, session.client.query_typed(&sql, &params)).await?;
        // Once more, without effect, so that pg_stat_activity shows what the connection is for.
        in_time(patience, session.client.batch_execute(&listen)).await?;
        Ok(rows.iter().map(|row| NodeId(row.get::<_, Uuid>("node_id"))).collect())
    }

    /// From now on no node takes the triggers away. One may have, since this node installed them.
    async fn keep_triggers(&self, session: &Session<'_>) -> Result<(), End> {
        if self.shared.options.notify != NotifyMode::Trigger {
            return Ok(());
        }
        let sql = fill(&self.shared.schema, include_str!("../sql/queries/notify_wanting.sql"));
        let lock = self.shared.schema.triggers_lock();
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&lock, Type::INT8)];
        let patience = self.shared.options.timings.listener_patience;
        in_time(patience, session.client.query_typed(&sql, &params)).await?;
        // Without triggers only rows of other sessions are noticed late: LISTEN works all the same.
        if let Err(error) = self.shared.install_triggers().await {
            let error = error_chain(&error);
            tracing::warn!(error, "cannot install the triggers of notify = trigger");
        }
        Ok(())
    }

    /// Sends an echo from another connection. Behind a transaction pooler LISTEN succeeds, but
    /// nothing is ever delivered: better to know at once than to wait for hints that cannot come.
    async fn hear_echo(&self, heard: &mut mpsc::UnboundedReceiver<String>) -> Result<(), End> {
        let echo = Payload::Echo { n: self.shared.node.0, x: Uuid::new_v4() };
        let sent = self.shared.notifier.echo(&echo).await;
        sent.map_err(|error: StoreError| End::Lost(error_chain(&error)))?;
        let text = echo.encode();
        let wait = async {
            // What else is heard meanwhile is covered by `everything`, which follows.
            while let Some(other) = heard.recv().await {
                if other == text {
                    return true;
                }
            }
            false
        };
        match timeout(self.shared.options.timings.listener_patience, wait).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(End::Lost("PostgreSQL closed the connection".to_owned())),
            Err(_) => Err(End::Impossible(
                "LISTEN receives nothing over this connection: if the URL leads through a \
                 transaction pooler, set listen_url to the database itself"
                    .to_owned(),
            )),
        }
    }

    async fn leave(&self, session: &Session<'_>) {
        let sql = fill(&self.shared.schema, include_str!("../sql/queries/node_leave.sql"));
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&self.shared.node.0, Type::UUID)];
        let leaving = session.client.query_typed(&sql, &params);
        // If it fails, the others find out by themselves.
        let _ = timeout(self.shared.options.timings.listener_patience, leaving).await;
    }

    fn hear(&self, text: &str) {
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
        metrics::counter!("wakeline_notifies_heard_total", "kind" => kind).increment(1);
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

/// An open connection that listens.
struct Session<'a> {
    client: Client,
    heard: mpsc::UnboundedReceiver<String>,
    connector: &'a Connector,
}

/// Reads the connection for as long as it lives; says why it ended.
async fn read(mut wire: Wire, heard: mpsc::UnboundedSender<String>) -> String {
    loop {
        match poll_fn(|cx| wire.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                let _ = heard.send(notification.payload().to_owned());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return error_chain(&error),
            None => return "the server closed the connection".to_owned(),
        }
    }
}

/// Waits for a step of joining. An error of the server (a standby, a missing right) is permanent
/// until somebody mends it; anything else is a loss.
async fn in_time<T>(
    patience: Duration,
    step: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, End> {
    match timeout(patience, step).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if error::kind(&error) == error::Kind::Transient => {
            Err(End::Lost(error_chain(&error)))
        }
        Ok(Err(error)) => {
            let refused = error.as_db_error().map(ToString::to_string);
            Err(End::Impossible(refused.unwrap_or_else(|| error_chain(&error))))
        }
        Err(_) => Err(End::Lost("no answer within the deadline".to_owned())),
    }
}

/// Between half of a pause and all of it, so that nodes do not come back in step.
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
