//! Servers that wait in one way, with parked pops, on a database of their own.
//!
//! # Invariants
//! * Statements are counted by database, so that several stages can be watched at once.
//! * A dropped stage leaves no process; its database goes with that of the run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Shape, Way};
use crate::client::{Connection, get};
use crate::cpu;
use crate::database::{Another, Database, Statements};
use crate::node::{Node, StoreAt};
use crate::setup::Setup;
use crate::wake::parked;
use crate::wire;

/// The queues that stand for those of turns and of activities.
const QUEUES: [&str; 2] = ["turns", "activities"];
/// Nothing but the queue's own work: senders of webhooks would poll too.
const ONLY_QUEUES: [&str; 2] = ["--hook-slots=0", "--pg-pool-max=5"];
/// Time for what an event sets off to come to rest, and how often that is looked at.
const REST: Duration = Duration::from_millis(40);
const RESTS_MAX: usize = 25;
/// The metric that counts second looks, and looks at the ends of leases.
const TIMER_WAKES: &str = "wakeline_wake_wakes_total{face=\"queue\",reason=\"timer\"}";
/// A message that nobody gets in this time was lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Producer {
    /// A node on which nobody waits.
    Elsewhere,
    /// The first of the nodes.
    Here,
}

/// What was counted until some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) statements: Statements,
    /// Processor seconds of the nodes.
    pub(super) nodes: f64,
    /// Processor seconds of PostgreSQL's backends that serve them.
    pub(super) backends: f64,
}

/// What one message set off.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventCost {
    /// Claims: until all came to rest, or, of nodes that poll, until the message was received.
    pub(super) claims: i64,
    /// Those of them that looked again, because a claim had met a row that another one held.
    pub(super) again: i64,
    /// Statements with the push, the ack and parking again.
    pub(super) statements: i64,
}

/// Nodes on one database, and the pops that are parked on them.
pub(super) struct Stage {
    pub(super) shape: Shape,
    way: Way,
    place: Another,
    server: std::path::PathBuf,
    nodes: Vec<Node>,
    pusher: Option<(Connection, Node)>,
    polls: Polls,
}

impl Stage {
    /// Starts the nodes on a copy of a migrated database, and parks the pops.
    pub(super) async fn start(
        setup: &Setup,
        template: &str,
        (way, shape): (Way, Shape),
    ) -> Result<Self> {
        let suffix = uuid::Uuid::new_v4().simple().to_string();
        let place = setup.database.another(&suffix[..8], Some(template)).await?;
        let flags = way.flags();
        let mut nodes = Vec::new();
        for _ in 0..shape.nodes {
            let flags: Vec<&str> = flags.iter().map(String::as_str).chain(ONLY_QUEUES).collect();
            nodes.push(Node::serve(&setup.server, &store_at(&place.url), &flags)?);
        }
        let polls = Polls::park(&nodes, shape.dispatchers).await?;
        let server = setup.server.clone();
        let stage = Self { shape, way, place, server, nodes, pusher: None, polls };
        for node in 0..shape.nodes {
            stage.parked(node).await?;
        }
        Ok(stage)
    }

    async fn parked(&self, node: usize) -> Result<()> {
        let mut watcher = self.connect(node).await?;
        parked(&mut watcher, self.shape.dispatchers * QUEUES.len()).await
    }

    /// A new connection to a node: those that are idle for a minute are closed by it.
    async fn connect(&self, node: usize) -> Result<Connection> {
        Connection::open(self.nodes[node].address()).await
    }

    /// What was counted until now.
    pub(super) async fn read(&self, database: &Database) -> Result<Reading> {
        let backends = |pid| cpu::used_by_backends(pid, &self.place.name);
        Ok(Reading {
            statements: database.statements_in(&self.place.name).await?,
            nodes: cpu::used_by(self.nodes.iter().map(Node::pid)),
            backends: database.postmaster.map_or(0.0, backends),
            at: Instant::now(),
        })
    }

    /// Pushes one message and waits until it is settled and all are parked again.
    pub(super) async fn event(
        &mut self,
        database: &Database,
        producer: Producer,
    ) -> Result<EventCost> {
        let push = wire::push(QUEUES[0], 0, 1);
        if producer == Producer::Elsewhere && self.pusher.is_none() {
            let node = Node::serve(&self.server, &store_at(&self.place.url), &ONLY_QUEUES)?;
            self.pusher = Some((Connection::open(node.address()).await?, node));
            // Whatever a node does when it starts is over.
            self.at_rest(database).await?;
        }
        let looked = self.timer_wakes().await?;
        let before = database.statements_in(&self.place.name).await?;
        match (&mut self.pusher, producer) {
            (Some((pusher, _)), Producer::Elsewhere) => {
                pusher.call(&push).await?.expect(201)?;
            }
            _ => {
                self.connect(0).await?.call(&push).await?.expect(201)?;
            }
        }
        let poll = self.polls.answered().await?;
        let claimed = self.at_rest(database).await?.since(&before);
        let again = self.timer_wakes().await? - looked;
        self.polls.go_on(poll)?;
        self.parked(self.polls.node_of(poll)).await?;
        let whole = self.at_rest(database).await?.since(&before);
        Ok(EventCost { claims: claimed.claims, again, statements: whole.total })
    }

    /// How often timers of the nodes have woken somebody.
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

    /// The statements until now, once there are no more of them; of nodes that poll, at once.
    async fn at_rest(&self, database: &Database) -> Result<Statements> {
        let mut last = database.statements_in(&self.place.name).await?;
        for _ in 0..RESTS_MAX {
            if self.way.is_by_the_clock() {
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

    /// Ends the nodes and removes their database.
    pub(super) async fn end(self, database: &Database) -> Result<()> {
        let place = self.place.clone();
        drop(self);
        database.remove_another(&place.name).await
    }
}

/// A database that is migrated, to make copies of.
pub(super) async fn template(setup: &Setup) -> Result<Another> {
    let place = setup.database.another("template", None).await?;
    Node::serve(&setup.server, &store_at(&place.url), &ONLY_QUEUES)?.stop()?;
    setup.database.left_by_all(&place.name).await?;
    Ok(place)
}

pub(super) fn store_at(url: &str) -> StoreAt {
    StoreAt::Postgres { url: url.to_owned(), schema: "wakeline".to_owned() }
}

/// Consumers that are parked until they get something, and then until they may go on.
struct Polls {
    tasks: JoinSet<Result<()>>,
    answers: mpsc::UnboundedReceiver<usize>,
    permits: Vec<mpsc::UnboundedSender<()>>,
    of_each_node: usize,
}

impl Polls {
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
                let connection = Connection::open(node.address()).await?;
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

    /// The next poll that got something.
    async fn answered(&mut self) -> Result<usize> {
        let ended = tokio::select! {
            answered = self.answers.recv() => return answered.context("all polls have ended"),
            ended = self.tasks.join_next() => ended,
            () = tokio::time::sleep(PATIENCE) => None,
        };
        ended.context("no parked pop was answered")??.and(Err(anyhow!("a poll ended")))
    }

    /// Lets a poll ack what it got and park again.
    fn go_on(&self, poll: usize) -> Result<()> {
        self.permits[poll].send(()).context("a poll has ended")
    }
}

struct Poll {
    connection: Connection,
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
