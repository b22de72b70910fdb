//! How soon waiters receive work that another process commits: a parked pop, a dispatcher of
//! workflows and a sender of webhooks.
//!
//! # Invariants
//! * Work is committed at arbitrary points of a polling interval, and after an idle time in which
//!   adaptive polling has slowed down.
//! * Ways that poll are measured at the same time, because they need only milliseconds of each
//!   second. Ways that wait for hints are measured before, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wakeline::{
    Client, FlowError, OrchestrationContext, PollGrouping, PostgresProvider, Prefetch, Registry,
    Runtime, RuntimeOptions, WakeMode,
};

use super::{WAYS, Way};
use crate::client::BenchConnection;
use crate::hook::server::{Sink, WebhookServer, create_message_request, subscribe};
use crate::hook::sink::machine_us;
use crate::node::{BenchStore, Node};
use crate::plot::{Bar, Chart};
use crate::setup::Setup;
use crate::table::{Table, latencies, micros, millis, print_line};
use crate::wake::{WakeBenchArgs, parked};
use crate::wire;

const SAMPLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Idle time before work is committed, unless a way needs more.
const QUIET: Duration = Duration::from_millis(20);
/// Number of first samples of each side that are not counted.
const WARM_UP: usize = 2;

/// The kind of waiter.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Queue,
    Workflow,
    Webhook,
}

const KINDS: [Kind; 3] = [Kind::Queue, Kind::Workflow, Kind::Webhook];

/// Measures all ways.
pub(super) async fn run(setup: &Setup, args: &WakeBenchArgs) -> Result<()> {
    // With one waiter, grouped and separate polling are equal.
    let polls_separately = |way: &Way| match way.mode {
        WakeMode::Poll(poll) => {
            poll.interval.as_millis() == 100 && poll.grouping == PollGrouping::Waiter
        }
        _ => false,
    };
    let mut ways: Vec<(Way, Vec<Histogram<u64>>)> = WAYS
        .into_iter()
        .filter(|way| !polls_separately(way))
        .map(|way| (way, Vec::new()))
        .collect();
    let sink = Sink::start().await?;
    for (way, measured) in ways.iter_mut().filter(|(way, _)| !way.polls()) {
        for kind in KINDS {
            let side = LatencySide::create(setup, *way, kind, args.latency_samples)?;
            measured.push(side.measure(sink.join().await?).await?);
        }
    }
    let mut polling = JoinSet::new();
    for (index, (way, _)) in ways.iter().enumerate().filter(|(_, (way, _))| way.polls()) {
        for (place, kind) in KINDS.into_iter().enumerate() {
            let side = LatencySide::create(setup, *way, kind, args.latency_samples.div_ceil(2))?;
            let sink = sink.join().await?;
            polling.spawn(async move { (index, place, side.measure(sink).await) });
        }
    }
    let mut done = Vec::new();
    while let Some(ended) = polling.join_next().await {
        let (index, place, measured) = ended?;
        done.push((index, place, measured?));
    }
    done.sort_by_key(|(index, place, _)| (*index, *place));
    for (index, _, measured) in done {
        ways[index].1.push(measured);
    }
    print(&ways, args.latency_samples);
    args.plots.as_deref().map_or(Ok(()), |folder| chart(&ways).write(folder, "wake-latency.svg"))
}

/// A way of waiting and a kind of waiter, with everything that the measurement needs.
struct LatencySide {
    way: Way,
    kind: Kind,
    url: String,
    schema: String,
    server: PathBuf,
    place: WebhookServer,
    samples: usize,
}

impl LatencySide {
    fn create(setup: &Setup, way: Way, kind: Kind, samples: usize) -> Result<Self> {
        let schema = format!("seen_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let store = setup.postgres(&schema);
        let place = WebhookServer::create(setup, store, &schema)?;
        let (url, server) = (setup.database.url().to_owned(), setup.server.clone());
        Ok(Self { way, kind, url, schema, server, place, samples })
    }

    async fn measure(self, sink: Sink) -> Result<Histogram<u64>> {
        match self.kind {
            Kind::Queue => self.queue().await,
            Kind::Workflow => self.workflow().await,
            Kind::Webhook => self.webhook(sink).await,
        }
    }

    fn serve(&self, flags: &[String]) -> Result<Node> {
        let store = BenchStore::Postgres { url: self.url.clone(), schema: self.schema.clone() };
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--hook-slots=0"]).collect();
        Node::serve(&self.server, &store, &flags)
    }

    /// Waits for an arbitrary point of a polling interval.
    async fn stay_idle(&self, sample: usize) {
        let (least, interval) = match self.way.mode {
            WakeMode::Poll(poll) if poll.adaptive => (poll.interval * 16, poll.interval * 5),
            WakeMode::Poll(poll) => (QUIET, poll.interval),
            _ => (QUIET, QUIET),
        };
        // Steps of the golden ratio are evenly spread and do not follow the interval.
        let part = (sample as f64 * 0.618_034).fract();
        tokio::time::sleep(least + interval.mul_f64(part)).await;
    }

    /// Measures from the answer to a push to the answer of a parked pop.
    async fn queue(&self) -> Result<Histogram<u64>> {
        let (waiting, other) = (self.serve(&self.way.flags())?, self.serve(&[])?);
        let mut popper = BenchConnection::open(waiting.address()).await?;
        let mut watcher = BenchConnection::open(waiting.address()).await?;
        let mut pusher = BenchConnection::open(other.address()).await?;
        let (push, pop) = (wire::push("seen", 0, 1), wire::pop_waiting("seen"));
        let mut seen = latencies();
        for sample in 0..self.samples + WARM_UP {
            popper.send(&pop).await?;
            parked(&mut watcher, 1).await?;
            self.stay_idle(sample).await;
            pusher.send(&push).await?;
            let pushed = async {
                pusher.receive().await?.expect(201)?;
                Ok::<_, anyhow::Error>(Instant::now())
            };
            let popped = async {
                let answer = popper.receive().await?;
                let received_at = Instant::now();
                Ok::<_, anyhow::Error>((
                    received_at,
                    wire::Popped::parse(answer.expect(200)?)?.ack(),
                ))
            };
            let both = async { tokio::join!(pushed, popped) };
            let (pushed, popped) = tokio::time::timeout(SAMPLE_TIMEOUT, both).await?;
            let ((received_at, ack), pushed) = (popped?, pushed?);
            if sample >= WARM_UP {
                seen.saturating_record(micros(received_at.saturating_duration_since(pushed)));
            }
            let acked = popper.call(&ack).await?;
            ensure!(wire::all_acked(acked.expect(200)?), "an ack was refused");
        }
        Ok(seen)
    }

    /// Measures from the answer to a start to the first line of the workflow code.
    async fn workflow(&self) -> Result<Histogram<u64>> {
        let schema = Some(self.schema.as_str());
        let waiting = PostgresProvider::new_with_schema(&self.url, schema).await?;
        let (begin, mut begun) = mpsc::unbounded_channel();
        let code = move |ctx: OrchestrationContext, (): ()| {
            let _ = begin.send((ctx.instance().to_string(), Instant::now()));
            async { Ok::<_, FlowError>(()) }
        };
        let registry = Registry::builder().orchestration("seen", code).build()?;
        let options = RuntimeOptions {
            wake_mode: Some(self.way.mode),
            prefetch: Prefetch::Fixed(0),
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(Arc::new(waiting), registry, options).await?;
        let other = PostgresProvider::new_with_schema(&self.url, schema).await?;
        let client = Client::new(Arc::new(other));
        let mut seen = latencies();
        for sample in 0..self.samples + WARM_UP {
            self.stay_idle(sample).await;
            let instance = format!("seen-{sample}");
            client.start(&instance, "seen", &()).await?;
            let started = Instant::now();
            let first = async {
                loop {
                    // The code may run more than once.
                    let (of, at) = begun.recv().await.context("the workflow code is gone")?;
                    if of == instance {
                        return Ok::<_, anyhow::Error>(at);
                    }
                }
            };
            let first = tokio::time::timeout(SAMPLE_TIMEOUT, first).await;
            let began = first.context("a workflow was not started")??;
            if sample >= WARM_UP {
                seen.saturating_record(micros(began.saturating_duration_since(started)));
            }
        }
        runtime.shutdown(Duration::from_secs(2)).await;
        Ok(seen)
    }

    /// Measures from the answer to a creation to the complete request at the receiver.
    async fn webhook(&self, mut sink: Sink) -> Result<Histogram<u64>> {
        let flags = [self.way.flags(), vec!["--hook-poll-workers=1".to_owned()]].concat();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let (_waiting, other) = (self.place.start(&flags)?, self.place.start(&["--hook-slots=0"])?);
        subscribe(&other, "seen", &sink.urls(&self.schema, 1)).await?;
        let mut creator = BenchConnection::open(other.address()).await?;
        let mut seen = latencies();
        for sample in 0..self.samples + WARM_UP {
            self.stay_idle(sample).await;
            let sent = machine_us();
            creator.call(&create_message_request("seen")).await?.expect(202)?;
            let created = machine_us();
            let under_way = async {
                loop {
                    if let Some(under_way) = sink.take(&self.schema).await?.first() {
                        return Ok::<_, anyhow::Error>(*under_way);
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            let under_way = tokio::time::timeout(SAMPLE_TIMEOUT, under_way).await;
            let under_way = under_way.context("a webhook was not sent")??;
            if sample >= WARM_UP {
                seen.saturating_record((sent + under_way).saturating_sub(created));
            }
        }
        Ok(seen)
    }
}

fn print(ways: &[(Way, Vec<Histogram<u64>>)], samples: usize) {
    let mut table = Table::new(&[
        "way of waiting",
        "predicted",
        "queue: p50",
        "p99",
        "max",
        "workflow: p50",
        "p99",
        "max",
        "webhook: p50",
        "p99",
        "max",
    ]);
    for (way, measured) in ways {
        let mut row = vec![way.name.to_owned(), way.latency_predicted().to_owned()];
        for seen in measured {
            let at = [seen.value_at_quantile(0.5), seen.value_at_quantile(0.99), seen.max()];
            row.extend(at.map(millis));
        }
        table.row(&row);
    }
    table.print("Latency: from a commit on another node to the waiter");
    print_line(&format!(
        "\nMeasured from the answer to a push, a start or a creation to the answer of a parked \
         pop, the first line of the workflow code, or the complete request at the receiver of the \
         webhook; 0 if that answer is received later. This includes claiming, signing and \
         sending. {samples} samples of each, {} of ways that poll, evenly spread over their \
         intervals.",
        samples.div_ceil(2)
    ));
}

fn chart(ways: &[(Way, Vec<Histogram<u64>>)]) -> Chart {
    let rows = ways.iter().map(|(way, measured)| {
        let at_most = match way.mode {
            WakeMode::Poll(poll) if poll.adaptive => 500.0,
            WakeMode::Poll(poll) => poll.interval.as_secs_f64() * 1_000.0,
            _ => 5.0,
        };
        let bar = |seen: &Histogram<u64>| {
            let at = |quantile| seen.value_at_quantile(quantile) as f64 / 1_000.0;
            Bar { measured: at(0.5), up_to: Some(at(0.99)), predicted: Some(at_most) }
        };
        (way.name.to_owned(), measured.iter().map(bar).collect())
    });
    Chart {
        title: "From a commit on another node to the waiter: p50, and a line up to p99".to_owned(),
        unit: "milliseconds",
        floor: 0.1,
        series: ["parked pop", "workflow", "webhook"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
