//! Orchestrations on this store: cost of claims, sharing a commit, and helpers for other tests.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use uuid::Uuid;
use wakeline_core::{
    ActivityFilter, Capabilities, Capability, FlowToken, InstanceId, OrchestrationName, TagFilter,
};
use wakeline_sqlite::SqliteStore;
use wakeline_store::flow::{
    Completion, EnqueueOutcome, Envelope, ExecutionEnd, FlowStore as _, HistoryBatch, NewInstance,
    NewWork, TurnClaim, TurnCommit, TurnItem, TurnOutcome, TurnRequest, Visible, WorkClaim,
    WorkItem, WorkKey, WorkOutcome, WorkRequest,
};

use crate::fixture::Fixture;

const LEASE: Duration = Duration::from_secs(30);

fn capability(name: &str) -> Capability {
    Capability::new(name).expect("valid")
}

pub(crate) fn id(name: &str) -> InstanceId {
    InstanceId::new(name).expect("valid")
}

pub(crate) fn start(instance: &str) -> Envelope {
    Envelope { starts: Some(capability("ship")), unique: true, ..event(instance) }
}

pub(crate) fn event(instance: &str) -> Envelope {
    Envelope {
        instance: id(instance),
        visible: Visible::Now,
        payload: Bytes::from_static(b"hello"),
        starts: None,
        parent: None,
        unique: false,
        even_if_ended: false,
        key: None,
    }
}

pub(crate) fn request() -> TurnRequest {
    TurnRequest { key: Uuid::now_v7(), lease: LEASE, capabilities: Capabilities::Any }
}

pub(crate) async fn turn(store: &SqliteStore) -> Option<TurnItem> {
    let (capabilities, requests) = (Capabilities::Any, vec![request()]);
    let line = TurnClaim { capabilities, requests, further: false };
    let claimed = store.claim_turns(vec![line]).await.expect("answered").remove(0);
    claimed.turns.into_iter().next().expect("one per request")
}

fn any() -> ActivityFilter {
    ActivityFilter::of_tags(TagFilter::Any)
}

fn work_request() -> WorkRequest {
    WorkRequest { key: Uuid::now_v7(), lease: LEASE, filter: any(), session: None }
}

pub(crate) async fn work(store: &SqliteStore) -> Option<WorkItem> {
    let requests = vec![work_request()];
    let line = WorkClaim { filter: any(), session: None, requests, further: false };
    let claimed = store.claim_work(vec![line]).await.expect("answered").remove(0);
    claimed.work.into_iter().next().expect("one per request")
}

/// A first turn that schedules one activity.
pub(crate) fn first_turn(token: FlowToken, instance: &str) -> TurnCommit {
    TurnCommit {
        new_instance: Some(NewInstance {
            name: OrchestrationName::new("ship").expect("valid"),
            parent: None,
        }),
        history: Some(HistoryBatch { first: 1, last: 2, events: Bytes::from_static(b"ab") }),
        work: vec![NewWork {
            instance: id(instance),
            key: WorkKey { execution: 1, activity: 2 },
            name: None,
            tag: None,
            session: None,
            visible: Visible::Now,
            payload: Bytes::from_static(b"do"),
        }],
        ..nothing(token)
    }
}

pub(crate) fn nothing(token: FlowToken) -> TurnCommit {
    TurnCommit {
        token,
        execution: 1,
        new_instance: None,
        pinned: None,
        history: None,
        status: Vec::new(),
        kv: Vec::new(),
        end: ExecutionEnd::Open,
        work: Vec::new(),
        cancelled_work: Vec::new(),
        messages: Vec::new(),
        cancelled_messages: Vec::new(),
        clear: false,
        pushes: Vec::new(),
        emits: Vec::new(),
        turn_requests: Vec::new(),
        work_requests: Vec::new(),
    }
}

#[tokio::test]
async fn a_started_instance_runs_its_activity_and_receives_the_completion() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let reply = store.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    assert_eq!(reply.outcomes, [EnqueueOutcome::Queued]);
    let first = turn(store).await.expect("its first turn");
    assert_eq!((first.execution, first.last_event, first.attempt), (0, 0, 1));
    let reply = store.commit_turn(first_turn(first.token, "a")).await.expect("answered");
    assert!(matches!(reply.outcome, TurnOutcome::Committed { .. }));
    let item = work(store).await.expect("its activity");
    assert_eq!(item.payload.as_ref(), b"do");
    let completion = Completion { token: item.token, message: Some(event("a")) };
    let reply = store.complete_work(completion, vec![request()]).await.expect("answered");
    assert_eq!(reply.outcome, WorkOutcome::Completed(Some(EnqueueOutcome::Queued)));
    let (_, second) = &reply.turns[0];
    assert_eq!((second.execution, second.last_event, second.messages.len()), (1, 2, 1));
    assert!(turn(store).await.is_none(), "it was leased on insert");
    assert!(work(store).await.is_none());
}

/// A deletion in several steps leaves activities of deleted instances for a while.
#[tokio::test]
async fn claim_removes_only_some_of_many_activities_of_deleted_instances() {
    let fixture = Fixture::open().await;
    let (store, conn) = (&fixture.store, fixture.raw());
    let sql = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200)
        INSERT INTO work
            (lane_id, execution, activity, tag_id, name_id, taker, available_at, payload)
        SELECT 1000000, 1, n, 0, 0, '*', 0, x'' FROM n";
    conn.execute_batch(sql).expect("activities of a deleted instance");
    store.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
    let first = turn(store).await.expect("its first turn");
    store.commit_turn(first_turn(first.token, "a")).await.expect("answered");
    let left = || -> i64 {
        let sql = "SELECT count(*) FROM work WHERE lane_id = 1000000";
        conn.query_row(sql, [], |row| row.get(0)).expect("counted")
    };
    for expected in [700, 200] {
        let requests = vec![work_request()];
        let line = WorkClaim { filter: any(), session: None, requests, further: false };
        let claimed = store.claim_work(vec![line]).await.expect("answered").remove(0);
        assert!(claimed.work[0].is_none());
        assert_eq!((claimed.next_due, left()), (Some(Duration::ZERO), expected));
    }
    let item = work(store).await.expect("the activity of an instance that is there");
    assert_eq!((item.instance, left()), (id("a"), 0));
}

/// Lets all tasks of this thread run until each of them waits.
async fn all_wait() {
    for _ in 0..400 {
        tokio::task::yield_now().await;
    }
}

fn take_write_lock(conn: &Connection) {
    conn.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
}

fn release_write_lock(conn: &Connection) {
    conn.execute_batch("ROLLBACK").expect("the lock is held");
}

#[tokio::test]
async fn turns_that_wait_together_share_a_commit_and_a_stale_one_fails_alone() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let names: Vec<_> = (0..50).map(|n| format!("i{n}")).collect();
    let starts = names.iter().map(|name| start(name)).collect();
    store.enqueue(starts, Vec::new()).await.expect("stored");
    let mut turns = Vec::new();
    while let Some(turn) = turn(store).await {
        turns.push(turn);
    }
    assert_eq!(turns.len(), 50);
    turns[7].token.key = Uuid::from_u128(7);
    let lock = fixture.raw();
    take_write_lock(&lock);
    let before = store.counters();
    let commits: Vec<_> = turns
        .iter()
        .map(|turn| {
            let (store, commit) = (store.clone(), first_turn(turn.token, turn.instance.as_str()));
            tokio::spawn(async move { store.commit_turn(commit).await })
        })
        .collect();
    all_wait().await;
    release_write_lock(&lock);
    for (n, commit) in commits.into_iter().enumerate() {
        let reply = commit.await.expect("no panic").expect("answered");
        assert_eq!(reply.outcome == TurnOutcome::Stale, n == 7, "{:?}", reply.outcome);
    }
    let after = store.counters();
    assert_eq!(after.commands - before.commands, 50);
    assert!(after.commits - before.commits <= 2, "{before:?} {after:?}");
}
