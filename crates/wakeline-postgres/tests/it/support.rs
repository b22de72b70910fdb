//! Test support: a database per test, a sink that records hints, and a TCP proxy that can fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Change, FlowChange, HookChange, QueueName};
use wakeline_postgres::{PostgresOptions, PostgresStore, Timings, migrate_up};
use wakeline_store::{HintFeed, HintOrigin, HintSink, LinkState, StoreAdmin};
use wakeline_testkit::database::{TestDatabase, connect, server_url};
use wakeline_testkit::timings::set_up;

/// A time limit far above the duration of any tested operation and far below any fallback interval.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// The schema of a database of its own.
pub(crate) struct TestSchema {
    pub(crate) name: String,
    pub(crate) database: TestDatabase,
}

impl TestSchema {
    /// Creates a migrated schema.
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::copy_of("wl_migrated", async |url| {
            migrate_up(&PostgresOptions::new(url)).await.expect("migrated");
        });
        Self::of(database.await)
    }

    /// Creates a schema whose clock does not advance by itself.
    pub(crate) async fn with_stopped_clock() -> Self {
        let database = TestDatabase::copy_of("wl_stopped_clock", async |url| {
            let options = PostgresOptions { test_clock: true, ..PostgresOptions::new(&url) };
            migrate_up(&options).await.expect("migrated");
            let stop = "CREATE OR REPLACE FUNCTION wakeline.machine_clock() RETURNS timestamptz
                 LANGUAGE plpgsql STABLE AS $$ BEGIN
                     RETURN timestamptz '2026-01-01 00:00:00Z'
                         + (SELECT shift FROM wakeline.test_clock);
                 END $$;
                 UPDATE wakeline.function_sets SET used_at = wakeline.clock()";
            let client = connect(&url).await;
            client.batch_execute(stop).await.expect("the clock can be stopped");
        });
        Self::of(database.await)
    }

    /// Names a schema that does not exist yet, in an empty database.
    pub(crate) async fn missing() -> Self {
        Self::of(TestDatabase::empty().await)
    }

    fn of(database: TestDatabase) -> Self {
        Self { name: "wakeline".to_owned(), database }
    }

    /// Returns options with short intervals.
    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: self.name.clone(),
            pool_max: PostgresOptions::POOL_MIN,
            timings: Timings {
                reconnect_min: Duration::from_millis(20),
                reconnect_max: Duration::from_millis(200),
                listen_again: Duration::from_millis(200),
                listener_check: Duration::from_millis(200),
                listener_patience: Duration::from_secs(2),
                // Longer than a test: a clock that does not advance must not count as set back.
                clock_step: Duration::from_secs(3 * 3600),
                ..Timings::default()
            },
            ..PostgresOptions::new(self.database.url())
        }
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        set_up(PostgresStore::connect(self.options())).await.expect("a store")
    }

    /// Returns the schema of the functions that nodes call.
    pub(crate) async fn functions(&self) -> String {
        let sql = format!("SELECT place FROM {}.function_sets", self.name);
        self.client().await.query_one(&sql, &[]).await.expect("one set").get(0)
    }

    /// Makes a connection find tables and functions by their unqualified names.
    pub(crate) async fn search_path(&self) -> String {
        format!("SET search_path = \"{}\", \"{}\", public;", self.name, self.functions().await)
    }

    /// Opens a plain connection to inspect or change the schema directly.
    pub(crate) async fn client(&self) -> Client {
        self.database.client().await
    }
}

/// Waits until something holds.
pub(crate) async fn eventually<F: AsyncFnMut() -> bool>(what: &str, mut holds: F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// A change in a queue.
pub(crate) fn change(queue: &str) -> Change {
    Change {
        queue: QueueName::new(queue).expect("valid"),
        partition: None,
        namespace: None,
        task: None,
        group: None,
        due_in: Duration::ZERO,
    }
}

/// A hint or a state that a sink received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReceivedHint {
    Changed(Vec<Change>),
    Flow(Vec<FlowChange>),
    Hook(Vec<HookChange>),
    Everything,
    Up,
    Down,
    Off(String),
}

/// A sink that records what it receives.
#[derive(Default)]
pub(crate) struct Recorder {
    received: Mutex<Vec<ReceivedHint>>,
    bell: Notify,
}

impl Recorder {
    fn record(&self, received: ReceivedHint) {
        self.received.lock().push(received);
        self.bell.notify_waiters();
    }

    pub(crate) fn all(&self) -> Vec<ReceivedHint> {
        self.received.lock().clone()
    }

    /// Takes out and returns what was received.
    pub(crate) fn take(&self) -> Vec<ReceivedHint> {
        std::mem::take(&mut *self.received.lock())
    }

    /// Waits until something that satisfies `like` was received.
    pub(crate) async fn until(&self, what: &str, like: impl Fn(&ReceivedHint) -> bool) {
        let wait = async {
            loop {
                let rung = self.bell.notified();
                tokio::pin!(rung);
                rung.as_mut().enable();
                if self.received.lock().iter().any(&like) {
                    return;
                }
                rung.await;
            }
        };
        if tokio::time::timeout(SOON, wait).await.is_err() {
            panic!("never received {what}, only {:?}", self.all());
        }
    }

    /// Waits until the feed has gone through a (re)connect.
    pub(crate) async fn until_joined(&self) {
        self.until("everything", |received| *received == ReceivedHint::Everything).await;
    }

    pub(crate) async fn until_changed(&self, queue: &str) {
        self.until(queue, |received| match received {
            ReceivedHint::Changed(changes) => changes.iter().any(|c| c.queue.as_str() == queue),
            _ => false,
        })
        .await;
    }
}

impl HintSink for Recorder {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        self.record(ReceivedHint::Changed(changes.to_vec()));
    }

    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        self.record(ReceivedHint::Flow(changes.to_vec()));
    }

    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        self.record(ReceivedHint::Hook(changes.to_vec()));
    }

    fn everything(&self) {
        self.record(ReceivedHint::Everything);
    }

    fn link(&self, state: LinkState) {
        self.record(match state {
            LinkState::Up => ReceivedHint::Up,
            LinkState::Down { .. } => ReceivedHint::Down,
            LinkState::Off { reason } => ReceivedHint::Off(reason),
        });
    }
}

/// A store with a running feed.
pub(crate) struct Node {
    pub(crate) store: PostgresStore,
    pub(crate) sink: Arc<Recorder>,
    pub(crate) shutdown: CancellationToken,
    feed: tokio::task::JoinHandle<()>,
}

impl Node {
    /// Starts a node and waits until it has joined.
    pub(crate) async fn start(options: PostgresOptions) -> Self {
        let node = Self::start_unjoined(options).await;
        node.sink.until_joined().await;
        let first: Vec<ReceivedHint> = node.sink.received.lock().drain(..2).collect();
        assert_eq!(first, [ReceivedHint::Up, ReceivedHint::Everything]);
        node
    }

    pub(crate) async fn start_unjoined(options: PostgresOptions) -> Self {
        let store = set_up(PostgresStore::connect(options)).await.expect("a store");
        let sink = Arc::new(Recorder::default());
        let shutdown = CancellationToken::new();
        let feed = {
            let (store, sink, shutdown) = (store.clone(), sink.clone(), shutdown.clone());
            tokio::spawn(async move { store.feed(sink, shutdown).await })
        };
        Self { store, sink, shutdown, feed }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(SOON, self.feed).await.expect("ends soon").expect("no panic");
        self.store.close().await;
    }

    /// Ends the feed without saying bye, as a crash would.
    pub(crate) async fn crash(self) {
        let store = self.store.clone();
        self.abort().await;
        store.close().await;
    }

    /// Drops the feed while it runs, and the store.
    pub(crate) async fn abort(self) {
        self.feed.abort();
        let _ = self.feed.await;
    }
}

const PASS: u8 = 0;
const BLACK_HOLE: u8 = 1;
const REFUSE: u8 = 2;

/// A TCP proxy in front of PostgreSQL.
pub(crate) struct Proxy {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
    cut: Arc<Notify>,
    _task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (mode, cut) = (Arc::new(AtomicU8::new(PASS)), Arc::new(Notify::new()));
        let task = tokio::spawn(accept(listener, mode.clone(), cut.clone()));
        Self { address, mode, cut, _task: task }
    }

    /// Returns the URL of a database of the tests' PostgreSQL through the proxy.
    pub(crate) fn url(&self, direct: &str) -> String {
        let (host, port) = upstream();
        direct.replacen(&format!("{host}:{port}"), &self.address.to_string(), 1)
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// Discards all bytes, on open connections too, without closing them.
    pub(crate) fn black_hole(&self) {
        self.mode.store(BLACK_HOLE, Ordering::SeqCst);
    }

    /// Closes new connections immediately.
    pub(crate) fn refuse(&self) {
        self.mode.store(REFUSE, Ordering::SeqCst);
    }

    /// Forwards new bytes and connections again.
    pub(crate) fn pass(&self) {
        self.mode.store(PASS, Ordering::SeqCst);
    }
}

fn upstream() -> (String, u16) {
    let config: tokio_postgres::Config = server_url().parse().expect("a URL");
    match (&config.get_hosts()[0], config.get_ports()[0]) {
        (tokio_postgres::config::Host::Tcp(host), port) => (host.clone(), port),
        (other, _) => panic!("the tests' PostgreSQL must be reached by TCP, not {other:?}"),
    }
}

async fn accept(listener: TcpListener, mode: Arc<AtomicU8>, cut: Arc<Notify>) {
    let mut pairs = JoinSet::new();
    loop {
        let (inner, _) = listener.accept().await.expect("accepts");
        if mode.load(Ordering::SeqCst) == REFUSE {
            continue;
        }
        let outer = TcpStream::connect(upstream()).await.expect("PostgreSQL answers");
        let (mode, cut) = (mode.clone(), cut.clone());
        pairs.spawn(async move {
            let (inner_read, inner_write) = inner.into_split();
            let (outer_read, outer_write) = outer.into_split();
            tokio::select! {
                () = forward(inner_read, outer_write, mode.clone()) => {}
                () = forward(outer_read, inner_write, mode) => {}
                () = cut.notified() => {}
            }
        });
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: Arc<AtomicU8>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        if mode.load(Ordering::SeqCst) != BLACK_HOLE && to.write_all(&buffer[..len]).await.is_err()
        {
            return;
        }
    }
}
