//! Servers with one way of waiting and parked pops, on a separate database.
//!
//! # Invariants
//! * Statements are counted by database, so that several clusters can be measured at the same time.
//! * A dropped cluster leaves no process. Its database is removed with that of the run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{ClusterShape, Way};
use crate::client::{BenchConnection, get};
use crate::cpu;
use crate::database::{Database, ScratchDatabase, Statements};
use crate::node::{BenchStore, Node};
use crate::setup::Setup;
use crate::wake::parked;
use crate::wire;

/// The queues that represent the queue of turns and the queue of activities.
const QUEUES: [&str; 2] = ["turns", "activities"];
/// Flags for servers that only serve queues: senders of webhooks would poll, too.
const ONLY_QUEUES: [&str; 2] = ["--hook-slots=0", "--pg-pool-max=5"];
/// Time without statements after which the nodes are at rest, and the maximum number of checks.
const REST: Duration = Duration::from_millis(40);
const REST_CHECKS_MAX: usize = 25;
/// The metric that counts repeated claims, and claims when leases end.
const TIMER_WAKES: &str = "wakeline_wake_wakes_total{api=\"queue\",reason=\"timer\"}";
/// A message that is not received in this time is lost.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// The node that a message is pushed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterProducer {
    /// A node without waiters.
    Elsewhere,
    /// The first of the nodes with waiters.
    Here,
}

/// Counts until a point in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClusterReading {
    pub(super) at: Instant,
    pub(super) statements: Statements,
    /// Processor seconds of the nodes.
    pub(super) nodes: f64,
    /// Processor seconds of the PostgreSQL backends that serve the nodes.
    pub(super) backends: f64,
}

/// The costs of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventCost {
    /// Claims until the nodes are at rest. For nodes that poll, claims until the message is
    /// received.
    pub(super) claims: i64,
    /// Claims that were repeated because another claim held a lock on the row.
    pub(super) again: i64,
    /// Statements, including those of the push, the ack and parking again.
    pub(super) statements: i64,
}

/// Nodes on one database, and the pops that are parked on them.
pub(super) struct Cluster {
    pub(super) shape: ClusterShape,
    way: Way,
    place: ScratchDatabase,
    server: std::path::PathBuf,
    nodes: Vec<Node>,
    pusher: Option<(BenchConnection, Node)>,
    polls: ParkedPolls,
}

impl Cluster {
    /// Starts the nodes on a copy of a migrated database, and parks the pops.
    pub(super) async fn start(
        setup: &Setup,
        template: &str,
        way: Way,
        shape: ClusterShape,
    ) -> Result<Self> {
        let suffix = uuid::Uuid::new_v4().simple().to_string();
        let place = setup.database.create_scratch(&suffix[..8], Some(template)).await?;
        let flags = way.flags();
        let mut nodes = Vec::new();
        for _ in 0..shape.nodes {
            let flags: Vec<&str> = flags.iter().map(String::as_str).chain(ONLY_QUEUES).collect();
            nodes.push(Node::serve(&setup.server, &store_location(&place.url), &flags)?);
        }
        let polls = ParkedPolls::park(&nodes, shape.dispatchers).await?;
        let server = setup.server.clone();
        let cluster = Self { shape, way, place, server, nodes, pusher: None, polls };
        for node in 0..shape.nodes {
            cluster.parked(node).await?;
        }
        Ok(cluster)
    }

    async fn parked(&self, node: usize) -> Result<()> {
        let mut watcher = self.connect(node).await?;
        parked(&mut watcher, self.shape.dispatchers * QUEUES.len()).await
    }

    /// Opens a new connection to a node, because nodes close connections that are idle for a
    /// minute.
    async fn connect(&self, node: usize) -> Result<BenchConnection> {
        BenchConnection::open(self.nodes[node].address()).await
    }

    /// Reads all counts.
    pub(super) async fn read(&self, database: &Database) -> Result<ClusterReading> {
        let backends = |pid| cpu::used_by_backends(pid, &self.place.name);
        Ok(ClusterReading {
            statements: database.statements_in(&self.place.name).await?,
            nodes: cpu::used_by(self.nodes.iter().map(Node::pid)),
            backends: database.postmaster.map_or(0.0, backends),
            at: Instant::now(),
        })
    }

    /// Pushes one message, and waits until it is settled and all pops are parked again.
    pub(super) async fn event(
        &mut self,
        database: &Database,
        producer: ClusterProducer,
    ) -> Result<EventCost> {
        let push = wire::push(QUEUES[0], 0, 1);
        if producer == ClusterProducer::Elsewhere && self.pusher.is_none() {
            let node = Node::serve(&self.server, &store_location(&self.place.url), &ONLY_QUEUES)?;
            self.pusher = Some((BenchConnection::open(node.address()).await?, node));
            // The start of the new node has ended.
            self.at_rest(database).await?;
        }
        let looked = self.timer_wakes().await?;
        let before = database.statements_in(&self.place.name).await?;
        match (&mut self.pusher, producer) {
            (Some((pusher, _)), ClusterProducer::Elsewhere) => {
                pusher.call(&push).await?.expect(201)?;
            }
            _ => {
                self.connect(0).await?.call(&push).await?.expect(201)?;
            }
        }
        let poll = self.polls.answered().await?;
        let claimed = self.at_rest(database).await?.since(&before);
        let again = self.timer_wakes().await? - looked;
        self.polls.resume(poll)?;
        self.parked(self.polls.node_of(poll)).await?;
        let whole = self.at_rest(database).await?.since(&before);
        Ok(EventCost { claims: claimed.claims, again, statements: whole.total })
    }

    /// Returns how often timers of the nodes have woken a waiter.
    async fn timer_wakes(&self) -> Result<i64> {
        let mut wakes = 0;
        for node in 0..self.nodes.len() {
            let mut watcher = self.connect(node).await?;
            let answer = watcher.call(&get("/metrics")).await?;
            let text = std::str::from_utf8(answer.expect(200)?)?;
            let counted = text.lines().find_map(|line| line.strip_prefix(TIMER_WAKES));
            wakes += counted.context("a metric is missing")?.trim().parse::<i64>()?;
        }
        Ok(wakes)
    }

    /// Waits until there are no more statements, and returns their number. Returns at once for
    /// nodes that poll.
    async fn at_rest(&self, database: &Database) -> Result<Statements> {
        let mut last = database.statements_in(&self.place.name).await?;
        for _ in 0..REST_CHECKS_MAX {
            if self.way.claims_regularly() {
                break;
            }
            tokio::time::sleep(REST).await;
            let now = database.statements_in(&self.place.name).await?;
            if now.total == last.total {
                break;
            }
            last = now;
        }
        Ok(last)
    }

    /// Stops the nodes and removes their database.
    pub(super) async fn end(self, database: &Database) -> Result<()> {
        let place = self.place.clone();
        drop(self);
        database.remove_scratch(&place.name).await
    }
}

/// Creates a migrated database, which clusters copy.
pub(super) async fn template(setup: &Setup) -> Result<ScratchDatabase> {
    let place = setup.database.create_scratch("template", None).await?;
    Node::serve(&setup.server, &store_location(&place.url), &ONLY_QUEUES)?.stop()?;
    setup.database.wait_until_scratch_unused(&place.name).await?;
    Ok(place)
}

pub(super) fn store_location(url: &str) -> BenchStore {
    BenchStore::Postgres { url: url.to_owned(), schema: "wakeline".to_owned() }
}

/// Consumers that wait for a message, and then for a permit to continue.
struct ParkedPolls {
    tasks: JoinSet<Result<()>>,
    answers: mpsc::UnboundedReceiver<usize>,
    permits: Vec<mpsc::UnboundedSender<()>>,
    of_each_node: usize,
}

impl ParkedPolls {
    async fn park(nodes: &[Node], dispatchers: usize) -> Result<Self> {
        let (answered, answers) = mpsc::unbounded_channel();
        let (tasks, permits) = (JoinSet::new(), Vec::new());
        let of_each_node = dispatchers * QUEUES.len();
        let mut polls = Self { tasks, answers, permits, of_each_node };
        for node in nodes {
            for place in 0..of_each_node {
                let (permit, permitted) = mpsc::unbounded_channel();
                let index = polls.permits.len();
                polls.permits.push(permit);
                let connection = BenchConnection::open(node.address()).await?;
                let (answered, queue) = (answered.clone(), QUEUES[place % QUEUES.len()]);
                let poll = Poll { connection, queue, index, answered, permitted };
                polls.tasks.spawn(poll.run());
            }
        }
        Ok(polls)
    }

    fn node_of(&self, poll: usize) -> usize {
        poll / self.of_each_node
    }

    /// Waits for the next poll that got a message. Returns its index.
    async fn answered(&mut self) -> Result<usize> {
        let ended = tokio::select! {
            answered = self.answers.recv() => return answered.context("all polls have ended"),
            ended = self.tasks.join_next() => ended,
            () = tokio::time::sleep(MESSAGE_TIMEOUT) => None,
        };
        ended.context("no parked pop was answered")??.and(Err(anyhow!("a poll ended")))
    }

    /// Lets a poll ack its message and park again.
    fn resume(&self, poll: usize) -> Result<()> {
        self.permits[poll].send(()).context("a poll has ended")
    }
}

struct Poll {
    connection: BenchConnection,
    queue: &'static str,
    index: usize,
    answered: mpsc::UnboundedSender<usize>,
    permitted: mpsc::UnboundedReceiver<()>,
}

impl Poll {
    async fn run(mut self) -> Result<()> {
        let pop = wire::pop_waiting(self.queue);
        loop {
            let answer = self.connection.call(&pop).await?;
            if answer.status == 204 {
                continue;
            }
            let ack = wire::Popped::parse(answer.expect(200)?)?.ack();
            if self.answered.send(self.index).is_err() {
                return Ok(());
            }
            if self.permitted.recv().await.is_none() {
                return Ok(());
            }
            self.connection.call(&ack).await?.expect(200)?;
        }
    }
}
