//! `wakeline-bench wake`: how soon a parked pop is answered, compared with a hand-written loop; and
//! the tables of the designs that the wake modes come from.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use serde::Deserialize;

use crate::client::{BenchConnection, get};
use crate::designs::{self, Part};
use crate::handloop::{HandLoop, Producer};
use crate::node::{BenchStore, Node};
use crate::setup::Setup;
use crate::table::{self, Table, met, micros, millis, print_line};
use crate::wire;

/// Number of first samples of each side that are not counted.
const WARM_UP: usize = 20;
/// Idle time before each push.
const QUIET: Duration = Duration::from_millis(6);
/// Limits of the design for an idle system, in microseconds.
const P50_TARGET: u64 = 1_500;
const P99_TARGET: u64 = 5_000;
const RATIO_TARGET: f64 = 2.0;
const HAND_WRITTEN: &str = "hand-written loop, one round trip";

/// Settings of the wake benchmark.
#[derive(Args, Clone)]
pub(crate) struct WakeBenchArgs {
    /// Number of pushes for measuring each side
    #[arg(long, default_value_t = 500)]
    samples: usize,
    /// Number of messages for measuring each way of waiting, for each number of nodes
    #[arg(long, default_value_t = 10)]
    pub(crate) events: usize,
    /// Seconds for which idle nodes that wait for hints are measured; nodes that poll are measured
    /// for a twelfth of that
    #[arg(long, default_value_t = 60.0)]
    pub(crate) idle_seconds: f64,
    /// Number of latency samples of each way of waiting, for each of queues, workflows and
    /// webhooks; half of it for ways that poll
    #[arg(long, default_value_t = 100)]
    pub(crate) latency_samples: usize,
    /// Number of wakes for measuring each number of parked clients
    #[arg(long, default_value_t = 50)]
    pub(crate) wakes: usize,
    /// Seconds of the stress test, for each wake mode
    #[arg(long, default_value_t = 30.0)]
    pub(crate) stress_seconds: f64,
    /// Measure only these parts, as a comma-separated list
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// Write charts as SVG into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) plots: Option<PathBuf>,
    /// Take only a few samples, to check that the benchmark works
    #[arg(long)]
    pub(crate) quick: bool,
}

/// The latency of one message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WakeSample {
    /// From sending the push to receiving the message.
    whole: Duration,
    /// From the answer to the push to receiving the message; zero if the message is received first.
    after: Duration,
}

impl WakeSample {
    /// Creates a sample from the times when the push was sent and answered and the message was
    /// received.
    pub(crate) fn new(sent: Instant, answered: Instant, received_at: Instant) -> Self {
        let after = received_at.saturating_duration_since(answered);
        Self { whole: received_at.saturating_duration_since(sent), after }
    }
}

/// Runs the benchmark.
pub(crate) async fn run(setup: &Setup, args: &WakeBenchArgs) -> Result<()> {
    let mut args = args.clone();
    if args.quick {
        (args.samples, args.events, args.idle_seconds) = (30, 1, 3.0);
        (args.latency_samples, args.wakes, args.stress_seconds) = (8, 5, 2.0);
    }
    setup.print_introduction("Waiting for work", "Over HTTP, on real servers.");
    if Part::Push.is_in(&args.only) {
        latencies(setup, &args).await?;
    }
    designs::run(setup, &args).await
}

async fn latencies(setup: &Setup, args: &WakeBenchArgs) -> Result<()> {
    let (postgres, sqlite) = (Nodes::start(setup, &setup.postgres("wake"))?, setup.sqlite("w.db"));
    let sqlite = Nodes::start(setup, &sqlite)?;
    let database = &setup.database;
    let mut sides = vec![
        Side::hand(HAND_WRITTEN, HandLoop::start(database, Producer::OneTrip).await?),
        Side::hand("hand-written loop, plain", HandLoop::start(database, Producer::Plain).await?),
        Side::http("PostgreSQL, to the other node", &postgres.one, &postgres.other).await?,
        Side::http("PostgreSQL, same node", &postgres.one, &postgres.one).await?,
        Side::http("SQLite, to the other process", &sqlite.one, &sqlite.other).await?,
        Side::http("SQLite, same process", &sqlite.one, &sqlite.one).await?,
    ];
    for index in 0..args.samples + WARM_UP {
        // The order changes, so that no side always follows the same other side.
        let count = sides.len();
        sides.rotate_left(index % count);
        for side in &mut sides {
            // The pauses do not follow any periodic activity of the machine.
            let jitter = Duration::from_micros((index * 617 % 3_001) as u64);
            let sample = side.sample(QUIET + jitter).await.context(side.name)?;
            if index >= WARM_UP {
                side.whole.saturating_record(micros(sample.whole));
                side.after.saturating_record(micros(sample.after));
            }
        }
    }
    print(&mut sides);
    Ok(())
}

/// Two processes on one store.
struct Nodes {
    one: Node,
    other: Node,
}

impl Nodes {
    fn start(setup: &Setup, store: &BenchStore) -> Result<Self> {
        Ok(Self {
            one: Node::serve(&setup.server, store, &[])?,
            other: Node::serve(&setup.server, store, &[])?,
        })
    }
}

/// A side of the comparison, and its results.
struct Side {
    name: &'static str,
    transport: Transport,
    whole: Histogram<u64>,
    after: Histogram<u64>,
}

/// How a message gets from the producer to the consumer.
enum Transport {
    Hand(Box<HandLoop>),
    Http(Box<HttpTransport>),
}

/// Connections and requests of a side over HTTP.
struct HttpTransport {
    pusher: BenchConnection,
    popper: BenchConnection,
    watcher: BenchConnection,
    push: Vec<u8>,
    pop: Vec<u8>,
}

impl Side {
    fn new(name: &'static str, transport: Transport) -> Self {
        Self { name, transport, whole: table::latencies(), after: table::latencies() }
    }

    fn hand(name: &'static str, hand: HandLoop) -> Self {
        Self::new(name, Transport::Hand(Box::new(hand)))
    }

    async fn http(name: &'static str, pushed_to: &Node, parked_at: &Node) -> Result<Self> {
        let queue = if pushed_to.pid() == parked_at.pid() { "same" } else { "other" };
        let transport = HttpTransport {
            pusher: BenchConnection::open(pushed_to.address()).await?,
            popper: BenchConnection::open(parked_at.address()).await?,
            watcher: BenchConnection::open(parked_at.address()).await?,
            push: wire::push(queue, 0, 1),
            pop: wire::pop_waiting(queue),
        };
        Ok(Self::new(name, Transport::Http(Box::new(transport))))
    }

    async fn sample(&mut self, quiet: Duration) -> Result<WakeSample> {
        match &mut self.transport {
            Transport::Hand(hand) => {
                tokio::time::sleep(quiet).await;
                hand.sample("{\"order\":123456}").await
            }
            Transport::Http(http) => http.sample(quiet).await,
        }
    }
}

impl HttpTransport {
    /// Measures one message: parks a pop, waits, pushes, and records when both requests are
    /// answered.
    async fn sample(&mut self, quiet: Duration) -> Result<WakeSample> {
        self.popper.send(&self.pop).await?;
        parked(&mut self.watcher, 1).await?;
        tokio::time::sleep(quiet).await;
        let sent = Instant::now();
        self.pusher.send(&self.push).await?;
        let pushed = async {
            self.pusher.receive().await?.expect(201)?;
            Ok::<_, anyhow::Error>(Instant::now())
        };
        let popped = async {
            let answer = self.popper.receive().await?;
            let received_at = Instant::now();
            let popped = wire::Popped::parse(answer.expect(200)?)?;
            ensure!(popped.len() == 1, "popped {} messages instead of one", popped.len());
            Ok((received_at, popped.ack()))
        };
        let (answered, popped) = tokio::join!(pushed, popped);
        let (received_at, ack) = popped?;
        let acked = self.popper.call(&ack).await?;
        ensure!(wire::all_acked(acked.expect(200)?), "an ack was refused");
        Ok(WakeSample::new(sent, answered?, received_at))
    }
}

/// Waits until this many pops are parked on a node.
pub(crate) async fn parked(watcher: &mut BenchConnection, count: usize) -> Result<()> {
    #[derive(Deserialize)]
    struct PartnerHealth {
        wake: Wake,
    }
    #[derive(Deserialize)]
    struct Wake {
        waiters: usize,
    }
    let request = get("/health");
    for _ in 0..3_000 {
        // The pause comes first, so that the empty claim that precedes parking has ended.
        tokio::time::sleep(Duration::from_millis(3)).await;
        let answer = watcher.call(&request).await?;
        let health: PartnerHealth = serde_json::from_slice(answer.expect(200)?)?;
        if health.wake.waiters >= count {
            return Ok(());
        }
    }
    bail!("the node never had {count} parked pops")
}

fn print(sides: &mut [Side]) {
    sides.sort_by_key(|side| side.name);
    let hand = sides.iter().find(|side| side.name == HAND_WRITTEN);
    let hand = hand.map_or(0, |side| side.whole.value_at_quantile(0.5));
    let mut table = Table::new(&[
        "from the push request to the message",
        "p50",
        "p90",
        "p99",
        "max",
        "from the push answer: p50",
        "p99",
        "p50, ratio to hand-written",
    ]);
    let mut targets = Table::new(&["what", "measured", "target", "result"]);
    for side in sides.iter() {
        let at = |quantile: f64| side.whole.value_at_quantile(quantile);
        let ratio = at(0.5) as f64 / hand as f64;
        table.row(&[
            side.name.to_owned(),
            millis(at(0.5)),
            millis(at(0.9)),
            millis(at(0.99)),
            millis(side.whole.max()),
            millis(side.after.value_at_quantile(0.5)),
            millis(side.after.value_at_quantile(0.99)),
            format!("{ratio:.2}"),
        ]);
        if matches!(side.transport, Transport::Http(_)) {
            let target = |name: &str, value: String, target: String, yes: bool| {
                [format!("{}: {name}", side.name), value, target, met(yes)]
            };
            let below = format!("below {RATIO_TARGET}");
            let yes = ratio < RATIO_TARGET;
            targets.row(&target("p50, ratio to hand-written", format!("{ratio:.2}"), below, yes));
            for (name, quantile, most) in [("p50", 0.5, P50_TARGET), ("p99", 0.99, P99_TARGET)] {
                let most_text = format!("below {}", millis(most));
                targets.row(&target(name, millis(at(quantile)), most_text, at(quantile) < most));
            }
        }
    }
    table.print("From a push to the answer of a parked pop");
    print_line(
        "\nOne push at a time, with each side in turn, over HTTP; the hand-written loops use \
         PostgreSQL directly.",
    );
    targets.print("Comparison with the targets");
}
