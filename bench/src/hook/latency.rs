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
/// How long one side goes on before it is the next one's turn: short, so that whatever else the
/// machine does meets all of them.
const TURN: Duration = Duration::from_millis(500);
/// Turns of each side that are not counted: in them, calls that hang fill their endpoint.
const FILLING_TURNS: usize = 4;

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
        let (name, node) = (place.store.kind(), place.start(&[])?);
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
    let node = place.start(&[])?;
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

/// Who else is on the server of the fast endpoint.
pub(super) struct Company {
    /// What it is called.
    pub(super) name: &'static str,
    /// Endpoints that get the same events.
    same: &'static [&'static str],
    /// Endpoints of another application, with as many events of its own.
    others: &'static [&'static str],
}

const fn company(
    name: &'static str,
    same: &'static [&'static str],
    others: &'static [&'static str],
) -> Company {
    Company { name, same, others }
}

const BAD: &[&str] = &["hang/x", "drip/x", "fail/x"];

/// The second is the first once more: what these two differ by is the machine's noise.
pub(super) const COMPANIES: [Company; 5] = [
    company("alone", &[], &[]),
    company("alone, once more", &[], &[]),
    company("beside hanging, dripping, failing ones with events of their own", &[], BAD),
    company("events go to hanging, dripping, failing ones too", BAD, &[]),
    company("events go to three that answer too", &["well/x", "well/y", "well/z"], &[]),
];

/// A server in some company.
struct Side {
    uid: String,
    /// The application of the neighbours with events of their own.
    others: Option<String>,
    line: Connection,
    _node: Node,
}

impl Side {
    async fn start(
        place: &Place,
        sink: &Sink,
        (index, company): (usize, &Company),
    ) -> Result<Self> {
        let (uid, node) = (format!("company-{index}"), place.start(&[])?);
        let urls = |paths: &[&str]| paths.iter().map(|path| sink.url(path)).collect::<Vec<_>>();
        let same = [sink.urls(&uid, 1), urls(company.same)].concat();
        subscribe(&node, &uid, &same).await?;
        let others = (!company.others.is_empty()).then(|| format!("{uid}-others"));
        if let Some(others) = &others {
            subscribe(&node, others, &urls(company.others)).await?;
        }
        let line = Connection::open(node.address()).await?;
        Ok(Self { uid, others, line, _node: node })
    }

    /// Creates messages for a while, until the fast endpoint has its own.
    async fn turn(&mut self, sink: &mut Sink) -> Result<()> {
        let before = sink.count().await?;
        let mut ticks = tokio::time::interval(PACE / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (began, mut created) = (Instant::now(), 0);
        while began.elapsed() < TURN {
            ticks.tick().await;
            self.line.call(&creation(&self.uid)).await?.expect(202)?;
            created += 1;
            ticks.tick().await;
            if let Some(others) = &self.others {
                self.line.call(&creation(others)).await?.expect(202)?;
            }
        }
        sink.until(before + created).await
    }
}

/// The fast endpoint's latencies in each company: servers on stores of their own, in turn.
pub(super) async fn neighbours(
    places: &[Place],
    sink: &mut Sink,
    turns: usize,
) -> Result<Vec<Vec<u64>>> {
    let mut sides = Vec::new();
    for (place, company) in places.iter().zip(COMPANIES.iter().enumerate()) {
        sides.push(Side::start(place, sink, company).await?);
    }
    let count = sides.len();
    for turn in 0..turns.max(1) + FILLING_TURNS {
        for place in 0..count {
            // Nobody always follows the same one.
            let step = if turn % 2 == 0 { 1 } else { count - 1 };
            let side = &mut sides[(turn + place * step) % count];
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
