//! Latencies from the creation of a message to its receiver: on an idle server compared with a bare
//! loop, and with other endpoints on the same server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::MissedTickBehavior;
use tokio_postgres::Statement;

use super::rate::{HookCost, Subject};
use super::server::{Sink, WebhookServer, create_message_request, subscribe};
use super::sink::payload;
use crate::client::BenchConnection;
use crate::node::Node;
use crate::setup::Setup;
use crate::table::micros;

/// Number of first samples of each side that are not counted.
const WARM_UP: usize = 20;
/// Idle time before a message is created.
const QUIET: Duration = Duration::from_millis(5);
/// The pause between two creations while other endpoints are measured.
const PACE: Duration = Duration::from_millis(10);
/// How long one side is measured before the next one. It is short, so that other activity of the
/// machine affects all sides.
const TURN: Duration = Duration::from_millis(500);
/// Number of first turns of each side that are not counted: in these, hanging calls fill the slots
/// of their endpoint.
const FILLING_TURNS: usize = 4;

/// The latencies of one side, in microseconds and sorted.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies {
    /// From sending the request to create a message until the receiver has it.
    pub(super) received: Vec<u64>,
    /// From sending the request to create a message to its answer.
    pub(super) answered: Vec<u64>,
}

/// A side that creates messages.
enum MessageSource {
    Ours { uid: String, connection: Box<BenchConnection>, _node: Node },
    Bare(Box<BareLoop>),
}

impl MessageSource {
    async fn create_message(&mut self) -> Result<()> {
        match self {
            Self::Ours { uid, connection, .. } => {
                connection.call(&create_message_request(uid)).await?.expect(202)?;
                Ok(())
            }
            Self::Bare(bare) => bare.create_message().await,
        }
    }
}

/// A loop without a server: it commits one insert, and then makes one call with the HTTP client
/// that Wakeline uses, too.
struct BareLoop {
    database: tokio_postgres::Client,
    insert: Statement,
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

impl BareLoop {
    async fn start(setup: &Setup, url: String) -> Result<Self> {
        let database = setup.database.connect().await?;
        let table = "CREATE TABLE bare_events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
                     payload text NOT NULL)";
        database.batch_execute(table).await?;
        let insert = database.prepare("INSERT INTO bare_events (payload) VALUES ($1)").await?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { database, insert, client, url })
    }

    async fn create_message(&self) -> Result<()> {
        let body = payload();
        self.database.execute(&self.insert, &[&body]).await?;
        let request = Request::post(&self.url)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = self.client.request(request).await?;
        response.into_body().collect().await?;
        Ok(())
    }
}

/// Measures idle latencies, one message at a time, with all sides in turn.
pub(super) async fn idle(
    setup: &Setup,
    servers: &[WebhookServer],
    sink: &mut Sink,
    samples: usize,
) -> Result<Vec<(&'static str, Latencies)>> {
    let mut sides = Vec::new();
    for server in servers {
        let (name, node) = (server.store.kind(), server.start(&[])?);
        subscribe(&node, "idle", &sink.urls(name, 1)).await?;
        let connection = Box::new(BenchConnection::open(node.address()).await?);
        let source = MessageSource::Ours { uid: "idle".to_owned(), connection, _node: node };
        sides.push((name, source, Latencies::default()));
    }
    let bare = BareLoop::start(setup, sink.url("fast/bare")).await?;
    sides.push(("bare", MessageSource::Bare(Box::new(bare)), Latencies::default()));
    for index in 0..samples + WARM_UP {
        // The order changes, so that no side always follows the same other side.
        let count = sides.len();
        sides.rotate_left(index % count);
        for (name, source, latencies) in &mut sides {
            let jitter = Duration::from_micros((index * 617 % 3_001) as u64);
            tokio::time::sleep(QUIET + jitter).await;
            let (before, sent) = (sink.count().await?, Instant::now());
            source.create_message().await.context(*name)?;
            let answered = sent.elapsed();
            tokio::time::sleep(Duration::from_millis(2)).await;
            sink.until(before + 1).await?;
            if index + 1 == WARM_UP {
                sink.take(name).await?;
            } else if index >= WARM_UP {
                latencies.answered.push(micros(answered));
            }
        }
    }
    sides.sort_by_key(|(name, ..)| *name);
    let mut measured = Vec::new();
    for (name, _, mut latencies) in sides {
        latencies.received = sink.take(name).await?;
        latencies.answered.sort_unstable();
        measured.push((name, latencies));
    }
    Ok(measured)
}

/// Measures the cost of a single message in PostgreSQL.
pub(super) async fn cost_alone(
    setup: &Setup,
    subject: &Subject<'_>,
    sink: &mut Sink,
    samples: u64,
) -> Result<HookCost> {
    let Subject { server, idle_cost } = *subject;
    let before = HookCost::read(setup).await?;
    let node = server.start(&[])?;
    let mut connection = BenchConnection::open(node.address()).await?;
    for _ in 0..samples {
        let count = sink.count().await?;
        connection.call(&create_message_request("idle")).await?.expect(202)?;
        sink.until(count + 1).await?;
        tokio::time::sleep(QUIET).await;
    }
    node.stop()?;
    sink.take(server.store.kind()).await?;
    Ok(HookCost::read(setup).await?.each(&before, idle_cost, samples))
}

/// Other endpoints on the server of the fast endpoint.
pub(super) struct NeighbourCase {
    /// The name in tables.
    pub(super) name: &'static str,
    /// Paths of endpoints that get the same events.
    same: &'static [&'static str],
    /// Paths of endpoints of another application, which gets as many events.
    others: &'static [&'static str],
}

const fn case(
    name: &'static str,
    same: &'static [&'static str],
    others: &'static [&'static str],
) -> NeighbourCase {
    NeighbourCase { name, same, others }
}

const BAD: &[&str] = &["hang/x", "drip/x", "fail/x"];

/// The second case repeats the first: their difference is the noise of the machine.
pub(super) const NEIGHBOUR_CASES: [NeighbourCase; 5] = [
    case("alone", &[], &[]),
    case("alone, repeated", &[], &[]),
    case("with hanging, dripping and failing endpoints of another application", &[], BAD),
    case("with hanging, dripping and failing endpoints for the same events", BAD, &[]),
    case("with three working endpoints for the same events", &["well/x", "well/y", "well/z"], &[]),
];

/// A server in one of the cases.
struct HookSide {
    uid: String,
    /// The other application, if there is one.
    others: Option<String>,
    connection: BenchConnection,
    _node: Node,
}

impl HookSide {
    async fn start(
        server: &WebhookServer,
        sink: &Sink,
        index: usize,
        neighbour_case: &NeighbourCase,
    ) -> Result<Self> {
        let (uid, node) = (format!("case-{index}"), server.start(&[])?);
        let urls = |paths: &[&str]| paths.iter().map(|path| sink.url(path)).collect::<Vec<_>>();
        let same = [sink.urls(&uid, 1), urls(neighbour_case.same)].concat();
        subscribe(&node, &uid, &same).await?;
        let others = (!neighbour_case.others.is_empty()).then(|| format!("{uid}-others"));
        if let Some(others) = &others {
            subscribe(&node, others, &urls(neighbour_case.others)).await?;
        }
        let connection = BenchConnection::open(node.address()).await?;
        Ok(Self { uid, others, connection, _node: node })
    }

    /// Creates messages for the duration of a turn, and waits until the fast endpoint has received
    /// its messages.
    async fn turn(&mut self, sink: &mut Sink) -> Result<()> {
        let before = sink.count().await?;
        let mut ticks = tokio::time::interval(PACE / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (began, mut created) = (Instant::now(), 0);
        while began.elapsed() < TURN {
            ticks.tick().await;
            self.connection.call(&create_message_request(&self.uid)).await?.expect(202)?;
            created += 1;
            ticks.tick().await;
            if let Some(others) = &self.others {
                self.connection.call(&create_message_request(others)).await?.expect(202)?;
            }
        }
        sink.until(before + created).await
    }
}

/// Measures the latencies of the fast endpoint in each case, on separate servers and stores, in
/// turn.
pub(super) async fn neighbours(
    servers: &[WebhookServer],
    sink: &mut Sink,
    turns: usize,
) -> Result<Vec<Vec<u64>>> {
    let mut sides = Vec::new();
    for (index, (server, case)) in servers.iter().zip(&NEIGHBOUR_CASES).enumerate() {
        sides.push(HookSide::start(server, sink, index, case).await?);
    }
    let count = sides.len();
    for turn in 0..turns.max(1) + FILLING_TURNS {
        for position in 0..count {
            // The order changes, so that no side always follows the same other side.
            let step = if turn % 2 == 0 { 1 } else { count - 1 };
            let side = &mut sides[(turn + position * step) % count];
            side.turn(sink).await.with_context(|| side.uid.clone())?;
            if turn < FILLING_TURNS {
                sink.take(&side.uid).await?;
            }
        }
    }
    let mut latencies = Vec::new();
    for side in &sides {
        latencies.push(sink.take(&side.uid).await?);
    }
    Ok(latencies)
}
