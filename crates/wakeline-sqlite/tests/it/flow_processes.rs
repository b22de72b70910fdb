//! Orchestrations of several stores on one file, as in several processes.

use std::time::Duration;

use wakeline_core::{Capability, FlowChange, FlowChangeKind};
use wakeline_sqlite::SqliteStore;
use wakeline_store::flow::{
    EnqueueOutcome, Envelope, FlowReader as _, FlowStore as _, StatusChange, TurnCommit, Visible,
    Watched,
};

use crate::fixture::Fixture;
use crate::flow::{event, first_turn, id, nothing, request, start, turn};
use crate::listening::{Listening, mark, taken_once};

fn turn_of(name: &str) -> FlowChangeKind {
    FlowChangeKind::Turn(Capability::new(name).expect("valid"))
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_turns_and_activities_are_reported_to_the_other_process() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let mut listening = Listening::between(&here.store, &there).await;
    let later = Envelope { visible: Visible::After(Duration::from_secs(9)), ..start("b") };
    there.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    there.enqueue(vec![later], Vec::new()).await.expect("stored");
    mark(&there, "mark").await;
    let received = listening.flow_until_mark().await;
    let soon = FlowChange { what: turn_of("ship"), due_in: Duration::from_secs(9) };
    assert_eq!(received, [FlowChange::now(turn_of("ship")), soon]);
    let leased = turn(&there).await.expect("its first turn");
    there.commit_turn(first_turn(leased.token, "a")).await.expect("answered");
    mark(&there, "again").await;
    let end = FlowChange { what: turn_of("ship"), due_in: leased.lease_for };
    assert_eq!(
        listening.flow_until_mark().await,
        [end, FlowChange::now(FlowChangeKind::Work(wakeline_core::ActivityRoute::default()))]
    );
    assert!(turn(&here.store).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_leased_on_insert_is_announced_only_for_the_end_of_its_lease() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let mut listening = Listening::between(&here.store, &there).await;
    let reply = there.enqueue(vec![start("a")], vec![request()]).await.expect("stored");
    assert_eq!((reply.turns.len(), reply.changes.len()), (1, 0));
    mark(&there, "mark").await;
    let end = FlowChange { what: turn_of("ship"), due_in: reply.turns[0].1.lease_for };
    assert_eq!(listening.flow_until_mark().await, [end]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_reported_to_the_other_process_once_per_watch() {
    let here = Fixture::open().await;
    let there = here.second().await;
    there.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    let first = turn(&there).await.expect("its first turn");
    there.commit_turn(first_turn(first.token, "a")).await.expect("answered");
    let watched = here.store.watch(vec![id("a"), id("none")]).await.expect("read");
    assert!(matches!(watched[..], [Watched::Found(_), Watched::Missing]));
    let mut listening = Listening::between(&here.store, &there).await;
    let outcome = FlowChange::now(FlowChangeKind::Outcome(id("a")));
    for status in ["one", "two"] {
        let reply = there.enqueue(vec![event("a")], Vec::new()).await.expect("stored");
        assert_eq!(reply.outcomes, [EnqueueOutcome::Queued]);
        let next = turn(&there).await.expect("its next turn");
        let status = vec![StatusChange::Set(status.to_owned())];
        let commit = TurnCommit { status, ..nothing(next.token) };
        let reply = there.commit_turn(commit).await.expect("answered");
        assert!(reply.changes.contains(&outcome), "in this process it is always reported");
    }
    mark(&there, "mark").await;
    let received = listening.flow_until_mark().await;
    assert_eq!(received.iter().filter(|change| **change == outcome).count(), 1, "{received:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_again_writes_nothing() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    store.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    let watched = store.watch(vec![id("a")]).await.expect("read");
    let before = store.counters();
    assert_eq!(store.watch(vec![id("a")]).await.expect("read"), watched);
    let after = store.counters();
    assert_eq!((after.commits, after.peeked), (before.commits, before.peeked + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_hold_the_same_turn() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let starts = (0..200).map(|n| start(&n.to_string())).collect();
    here.store.enqueue(starts, Vec::new()).await.expect("stored");
    let take = async |store: SqliteStore| -> Vec<_> {
        turn(&store).await.into_iter().map(|turn| turn.instance).collect()
    };
    assert_eq!(taken_once([here.store.clone(), there], take).await, 200);
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
