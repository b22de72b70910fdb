//! From the creation of a message to its receiver: idle beside a bare loop, and with neighbours.

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

use super::rate::Cost;
use super::sink::payload;
use super::stage::{Place, Sink, creation, subscribe};
use crate::client::Connection;
use crate::node::Node;
use crate::setup::Setup;
use crate::table::micros;

/// Samples of each side that are not counted.
const WARM_UP: usize = 20;
/// Quiet time before a creation: the system is idle when it comes.
const QUIET: Duration = Duration::from_millis(5);
/// The pause between two creations while there are neighbours.
const PACE: Duration = Duration::from_millis(10);

/// What was measured of one side, in microseconds and in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies {
    /// From sending the creation to having the request at the receiver.
    pub(super) received: Vec<u64>,
    /// From sending the creation to its answer.
    pub(super) answered: Vec<u64>,
}

/// Makes one message known, and returns when that is answered.
enum Way {
    Ours { uid: String, line: Box<Connection>, _node: Node },
    Bare(Box<BareLoop>),
}

impl Way {
    async fn go(&mut self) -> Result<()> {
        match self {
            Self::Ours { uid, line, .. } => {
                line.call(&creation(uid)).await?.expect(202)?;
                Ok(())
            }
            Self::Bare(bare) => bare.go().await,
        }
    }
}

/// No product: one insert that is committed, then one call, with the client that ours uses too.
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

    async fn go(&self) -> Result<()> {
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

/// Measures idle latencies, one at a time, all sides in turn.
pub(super) async fn idle(
    setup: &Setup,
    places: &[Place],
    sink: &mut Sink,
    samples: usize,
) -> Result<Vec<(&'static str, Latencies)>> {
    let mut sides = Vec::new();
    for place in places {
        let (name, node) = (place.store.kind(), place.start()?);
        subscribe(&node, "idle", &sink.urls(name, 1)).await?;
        let line = Box::new(Connection::open(node.address()).await?);
        let way = Way::Ours { uid: "idle".to_owned(), line, _node: node };
        sides.push((name, way, Latencies::default()));
    }
    let bare = BareLoop::start(setup, sink.url("fast/bare")).await?;
    sides.push(("bare", Way::Bare(Box::new(bare)), Latencies::default()));
    for index in 0..samples + WARM_UP {
        // The order changes, so that nobody always follows the same neighbour.
        let count = sides.len();
        sides.rotate_left(index % count);
        for (name, way, latencies) in &mut sides {
            let jitter = Duration::from_micros((index * 617 % 3_001) as u64);
            tokio::time::sleep(QUIET + jitter).await;
            let (before, sent) = (sink.count().await?, Instant::now());
            way.go().await.context(*name)?;
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

/// What one message costs PostgreSQL that comes alone.
pub(super) async fn cost_alone(
    setup: &Setup,
    (place, nothing): (&Place, &Cost),
    sink: &mut Sink,
    samples: u64,
) -> Result<Cost> {
    let before = Cost::read(setup).await?;
    let node = place.start()?;
    let mut line = Connection::open(node.address()).await?;
    for _ in 0..samples {
        let count = sink.count().await?;
        line.call(&creation("idle")).await?.expect(202)?;
        sink.until(count + 1).await?;
        tokio::time::sleep(QUIET).await;
    }
    node.stop()?;
    sink.take(place.store.kind()).await?;
    Ok(Cost::read(setup).await?.each(&before, nothing, samples))
}

/// Who else gets the events of the fast endpoint.
pub(super) const COMPANIES: [(&str, &[&str]); 3] = [
    ("alone", &[]),
    ("beside three that answer", &["well/x", "well/y", "well/z"]),
    ("beside one that hangs, one that drips, one that fails", &["hang/x", "drip/x", "fail/x"]),
];

/// The fast endpoint's latencies in each company: servers on stores of their own, in turn.
pub(super) async fn neighbours(
    places: [&Place; COMPANIES.len()],
    sink: &mut Sink,
    (rounds, span): (usize, Duration),
) -> Result<[Vec<u64>; COMPANIES.len()]> {
    let mut sides = Vec::new();
    for (index, (place, (_, paths))) in places.into_iter().zip(COMPANIES).enumerate() {
        let (name, node) = (format!("company-{index}"), place.start()?);
        let mut urls = sink.urls(&name, 1);
        urls.extend(paths.iter().map(|path| sink.url(path)));
        subscribe(&node, &name, &urls).await?;
        let line = Connection::open(node.address()).await?;
        sides.push((name, line, node));
    }
    for round in 0..rounds {
        for (name, line, _) in &mut sides {
            let before = sink.count().await?;
            let mut ticks = tokio::time::interval(PACE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let (began, mut created) = (Instant::now(), 0);
            while began.elapsed() < span {
                ticks.tick().await;
                line.call(&creation(name)).await?.expect(202)?;
                created += 1;
            }
            sink.until(before + created).await.context(name.clone())?;
            if round == 0 {
                // The first of each side fills the neighbours with calls that hang.
                sink.take(name).await?;
            }
        }
    }
    let mut latencies = [const { Vec::new() }; COMPANIES.len()];
    for (found, (name, ..)) in latencies.iter_mut().zip(&sides) {
        *found = sink.take(name).await?;
    }
    Ok(latencies)
}
