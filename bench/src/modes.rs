//! What each wake mode costs, idle and per event, and how soon it picks a message up.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::database::{Database, Statements};
use crate::node::Node;
use crate::setup::Setup;
use crate::table::{Table, latencies, micros, millis};
use crate::wake::{self, WakeArgs};
use crate::wire;

const MODES: [&str; 4] = ["fused", "compete", "broadcast", "poll"];
const POLLS: usize = 20;
const ROUNDS: usize = 3;
/// Time for what an event sets off to come to rest.
const REST: Duration = Duration::from_millis(40);
const QUEUE: &str = "modes";

/// Measures all modes, in turn.
pub(crate) async fn run(setup: &Setup, args: &WakeArgs) -> Result<()> {
    let mut modes = Vec::new();
    for name in MODES {
        let store = setup.postgres(&format!("mode_{name}"));
        let node = Node::serve(&setup.server, &store, &["--wake-mode", name])?;
        modes.push(Mode { name, node, figures: Figures::new() });
    }
    let idle = Duration::try_from_secs_f64(args.idle_seconds / ROUNDS as f64)?;
    for _ in 0..ROUNDS {
        for mode in &mut modes {
            mode.round(&setup.database, args.events.div_ceil(ROUNDS), idle).await?;
        }
    }
    print(&modes);
    Ok(())
}

struct Mode {
    name: &'static str,
    node: Node,
    figures: Figures,
}

struct Figures {
    idle_secs: f64,
    idle: i64,
    events: i64,
    claims: i64,
    statements: i64,
    pick_up: Histogram<u64>,
}

impl Figures {
    fn new() -> Self {
        let pick_up = latencies();
        Self { idle_secs: 0.0, idle: 0, events: 0, claims: 0, statements: 0, pick_up }
    }
}

impl Mode {
    /// Parks the polls, watches them idle, and pushes one message after the other.
    async fn round(&mut self, database: &Database, events: usize, idle: Duration) -> Result<()> {
        let mut pusher = Connection::open(self.node.address()).await?;
        let mut watcher = Connection::open(self.node.address()).await?;
        let push = wire::push(QUEUE, 0, 1);
        let mut polls = Polls::park(&self.node).await?;
        wake::parked(&mut watcher, POLLS).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;

        let (before, began) = (database.statements().await?, Instant::now());
        tokio::time::sleep(idle).await;
        self.figures.idle += database.statements().await?.since(&before).total;
        self.figures.idle_secs += began.elapsed().as_secs_f64();

        for _ in 0..events {
            let before = database.statements().await?;
            let sent = Instant::now();
            pusher.call(&push).await?.expect(201)?;
            let (poll, had) = polls.answered().await?;
            self.figures.pick_up.saturating_record(micros(had - sent));
            tokio::time::sleep(REST).await;
            let claimed = database.statements().await?;
            polls.go_on(poll)?;
            wake::parked(&mut watcher, POLLS).await?;
            tokio::time::sleep(REST).await;
            let after = database.statements().await?;
            self.figures.add(&claimed.since(&before), &after.since(&before));
        }
        Ok(())
    }
}

impl Figures {
    fn add(&mut self, until_claimed: &Statements, whole: &Statements) {
        self.events += 1;
        self.claims += until_claimed.claims;
        self.statements += whole.total;
    }
}

/// Consumers that are parked until they get something, and then until they may go on.
struct Polls {
    tasks: JoinSet<Result<()>>,
    answers: mpsc::UnboundedReceiver<(usize, Instant)>,
    permits: Vec<mpsc::UnboundedSender<()>>,
}

impl Polls {
    async fn park(node: &Node) -> Result<Self> {
        let (answered, answers) = mpsc::unbounded_channel();
        let mut polls = Self { tasks: JoinSet::new(), answers, permits: Vec::new() };
        for index in 0..POLLS {
            let (permit, permitted) = mpsc::unbounded_channel();
            polls.permits.push(permit);
            let connection = Connection::open(node.address()).await?;
            let answered = answered.clone();
            let poll = Poll { connection, index, answered, permitted };
            polls.tasks.spawn(poll.run());
        }
        Ok(polls)
    }

    /// The next poll that got something, and when.
    async fn answered(&mut self) -> Result<(usize, Instant)> {
        let ended = tokio::select! {
            answered = self.answers.recv() => return answered.context("all polls have ended"),
            ended = self.tasks.join_next() => ended,
            () = tokio::time::sleep(Duration::from_secs(20)) => None,
        };
        ended.context("no parked pop was answered")??.and(Err(anyhow::anyhow!("a poll ended")))
    }

    /// Lets a poll ack what it got and park again.
    fn go_on(&self, poll: usize) -> Result<()> {
        self.permits[poll].send(()).context("a poll has ended")
    }
}

struct Poll {
    connection: Connection,
    index: usize,
    answered: mpsc::UnboundedSender<(usize, Instant)>,
    permitted: mpsc::UnboundedReceiver<()>,
}

impl Poll {
    async fn run(mut self) -> Result<()> {
        let pop = wire::pop_waiting(QUEUE);
        loop {
            let answer = self.connection.call(&pop).await?;
            if answer.status == 204 {
                continue;
            }
            let had = Instant::now();
            let ack = wire::Popped::parse(answer.expect(200)?)?.ack();
            if self.answered.send((self.index, had)).is_err() {
                return Ok(());
            }
            if self.permitted.recv().await.is_none() {
                return Ok(());
            }
            self.connection.call(&ack).await?.expect(200)?;
        }
    }
}

fn print(modes: &[Mode]) {
    let mut table = Table::new(&[
        "mode",
        "idle statements/s",
        "claims per event",
        "statements per event, with push, ack and parking again",
        "pick-up p50",
        "p99",
    ]);
    for Mode { name, figures, .. } in modes {
        let per_event = |total: i64| format!("{:.2}", total as f64 / figures.events as f64);
        table.row(&[
            (*name).to_owned(),
            format!("{:.2}", figures.idle as f64 / figures.idle_secs),
            per_event(figures.claims),
            per_event(figures.statements),
            millis(figures.pick_up.value_at_quantile(0.5)),
            millis(figures.pick_up.value_at_quantile(0.99)),
        ]);
    }
    table.print(&format!("The wake modes, {POLLS} polls parked on one queue, PostgreSQL"));
}
