//! Orchestrations of several stores on one file, as several processes have them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Capability, Change, FlowChange, FlowWhat};
use wakeline_sqlite::SqliteStore;
use wakeline_store::flow::{
    EnqueueOutcome, Envelope, FlowReader as _, FlowStore as _, StatusChange, TurnCommit, Visible,
    Watched,
};
use wakeline_store::{HintFeed as _, HintOrigin, HintSink, LinkState, QueueStore as _};
use wakeline_testkit::conformance::item;

use crate::fixture::{Fixture, queue};
use crate::flow::{event, first_turn, id, nothing, request, start, turn};

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Queue,
    Flow(FlowChange),
    Everything,
    Link(LinkState),
}

struct Ear(mpsc::UnboundedSender<Heard>);

impl HintSink for Ear {
    fn changed(&self, changes: &[Change], _: HintOrigin) {
        assert!(!changes.is_empty());
        let _ = self.0.send(Heard::Queue);
    }
    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        for change in changes {
            let _ = self.0.send(Heard::Flow(change.clone()));
        }
    }
    fn everything(&self) {
        let _ = self.0.send(Heard::Everything);
    }
    fn link(&self, state: LinkState) {
        let _ = self.0.send(Heard::Link(state));
    }
}

struct Listening {
    heard: mpsc::UnboundedReceiver<Heard>,
    shutdown: CancellationToken,
}

impl Listening {
    async fn to(store: &SqliteStore) -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        let (store, shutdown) = (store.clone(), CancellationToken::new());
        let end = shutdown.clone();
        tokio::spawn(async move { store.feed(Arc::new(Ear(sender)), end).await });
        let mut listening = Self { heard, shutdown };
        assert_eq!(listening.next().await, Heard::Link(LinkState::Up));
        assert_eq!(listening.next().await, Heard::Everything);
        listening
    }

    /// What is heard next. The bound is far from both sides: hints take a millisecond.
    async fn next(&mut self) -> Heard {
        tokio::time::timeout(Duration::from_secs(30), self.heard.recv())
            .await
            .expect("something is heard")
            .expect("the feed runs")
    }

    /// What is heard of orchestrations until a queue is heard of, which comes last.
    async fn flow_until_queue(&mut self) -> Vec<FlowChange> {
        let mut changes = Vec::new();
        loop {
            match self.next().await {
                Heard::Queue => return changes,
                Heard::Flow(change) => changes.push(change),
                Heard::Everything | Heard::Link(_) => {}
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A push, so that whoever listens knows that all before it was heard.
async fn mark(store: &SqliteStore) {
    store.push(vec![item(&queue("q"), "p", "mark")]).await.expect("pushed");
}

fn turn_of(name: &str) -> FlowWhat {
    FlowWhat::Turn(Capability::new(name).expect("valid"))
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_turns_and_activities_of_one_process_are_heard_in_the_other() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let mut ears = Listening::to(&here.store).await;
    let later = Envelope { visible: Visible::After(Duration::from_secs(9)), ..start("b") };
    there.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    there.enqueue(vec![later], Vec::new()).await.expect("stored");
    mark(&there).await;
    let heard = ears.flow_until_queue().await;
    let soon = FlowChange { what: turn_of("ship"), due_in: Duration::from_secs(9) };
    assert_eq!(heard, [FlowChange::now(turn_of("ship")), soon]);
    let leased = turn(&there).await.expect("its first turn");
    there.commit_turn(first_turn(leased.token, "a")).await.expect("answered");
    there.push(vec![item(&queue("q"), "p", "again")]).await.expect("pushed");
    let end = FlowChange { what: turn_of("ship"), due_in: leased.lease_for };
    assert_eq!(ears.flow_until_queue().await, [end, FlowChange::now(FlowWhat::Work(None))]);
    assert!(turn(&here.store).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_born_leased_is_no_news_until_its_lease_ends() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let mut ears = Listening::to(&here.store).await;
    let reply = there.enqueue(vec![start("a")], vec![request()]).await.expect("stored");
    assert_eq!((reply.turns.len(), reply.changes.len()), (1, 0));
    mark(&there).await;
    let end = FlowChange { what: turn_of("ship"), due_in: reply.turns[0].1.lease_for };
    assert_eq!(ears.flow_until_queue().await, [end]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_heard_elsewhere_once_for_each_time_that_it_was_watched() {
    let here = Fixture::open().await;
    let there = here.second().await;
    there.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    let first = turn(&there).await.expect("its first turn");
    there.commit_turn(first_turn(first.token, "a")).await.expect("answered");
    let watched = here.store.watch(vec![id("a"), id("none")]).await.expect("read");
    assert!(matches!(watched[..], [Watched::There(_), Watched::Missing]));
    let mut ears = Listening::to(&here.store).await;
    let outcome = FlowChange::now(FlowWhat::Outcome(id("a")));
    for status in ["one", "two"] {
        let reply = there.enqueue(vec![event("a")], Vec::new()).await.expect("stored");
        assert_eq!(reply.outcomes, [EnqueueOutcome::Queued]);
        let next = turn(&there).await.expect("its next turn");
        let status = vec![StatusChange::Set(status.to_owned())];
        let commit = TurnCommit { status, ..nothing(next.token) };
        let reply = there.commit_turn(commit).await.expect("answered");
        assert!(reply.changes.contains(&outcome), "in this process it is always told");
    }
    mark(&there).await;
    let heard = ears.flow_until_queue().await;
    assert_eq!(heard.iter().filter(|change| **change == outcome).count(), 1, "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_again_writes_nothing() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    store.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    assert_eq!(store.watch(vec![id("a")]).await.expect("read"), [Watched::Pending]);
    let before = store.counters();
    assert_eq!(store.watch(vec![id("a")]).await.expect("read"), [Watched::Pending]);
    let after = store.counters();
    assert_eq!((after.commits, after.peeked), (before.commits, before.peeked + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_hold_the_same_turn() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let starts = (0..200).map(|n| start(&n.to_string())).collect();
    here.store.enqueue(starts, Vec::new()).await.expect("stored");
    let mut tasks = Vec::new();
    for store in [here.store.clone(), there.clone(), here.store.clone(), there] {
        tasks.push(tokio::spawn(async move {
            let mut instances = Vec::new();
            while let Some(turn) = turn(&store).await {
                instances.push(turn.instance);
            }
            instances
        }));
    }
    let mut seen = HashSet::new();
    for task in tasks {
        for instance in task.await.expect("no panic") {
            assert!(seen.insert(instance.clone()), "{instance} was leased twice");
        }
    }
    assert_eq!(seen.len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_claim_of_turns_neither_writes_nor_waits_for_a_writer() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    store.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    turn(store).await.expect("its first turn");
    let lock = fixture.raw();
    lock.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    let before = store.counters();
    assert!(turn(store).await.is_none());
    let after = store.counters();
    assert_eq!((after.commits, after.peeked), (before.commits, before.peeked + 1));
    lock.execute_batch("ROLLBACK").expect("the lock is held");
}
