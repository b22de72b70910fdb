//! The guarantees of the writer thread.

use std::time::Duration;

use rusqlite::Connection;
use tokio::task::JoinHandle;
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::{PushReply, QueueStore as _, StoreAdmin as _, StoreError};
use wakeline_testkit::conformance::item;

use crate::fixture::{Fixture, claim, completions, options, queue, take};

/// Takes the database's write lock, as another process would.
fn take_write_lock(conn: &Connection) {
    conn.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
}

fn release_write_lock(conn: &Connection) {
    conn.execute_batch("ROLLBACK").expect("the lock is held");
}

fn push(store: &SqliteStore, name: &str, id: usize) -> JoinHandle<Result<PushReply, StoreError>> {
    let (store, message) = (store.clone(), item(&queue(name), &id.to_string(), &id.to_string()));
    tokio::spawn(async move { store.push(vec![message]).await })
}

/// Lets all tasks of this thread run until each of them waits.
async fn all_wait() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn waiting_commands_are_committed_together() {
    let fixture = Fixture::open().await;
    let lock = fixture.raw();
    take_write_lock(&lock);
    let before = fixture.store.counters();
    let pushes: Vec<_> = (0..100).map(|id| push(&fixture.store, "q", id)).collect();
    all_wait().await;
    release_write_lock(&lock);
    for push in pushes {
        push.await.expect("no panic").expect("pushed");
    }
    let after = fixture.store.counters();
    assert_eq!(after.commands - before.commands, 100);
    assert!(after.commits - before.commits <= 2, "{before:?} {after:?}");
}

#[tokio::test]
async fn a_lone_command_is_one_commit() {
    let fixture = Fixture::open().await;
    let before = fixture.store.counters();
    for id in 0..3 {
        push(&fixture.store, "q", id).await.expect("no panic").expect("pushed");
    }
    assert_eq!(fixture.store.counters().commits - before.commits, 3);
}

#[tokio::test]
async fn a_bad_command_fails_alone() {
    let fixture = Fixture::open().await;
    push(&fixture.store, "bad", 0).await.expect("no panic").expect("pushed");
    let raw = fixture.raw();
    raw.execute("UPDATE queues SET options = '{' WHERE name = 'bad'", []).expect("corrupted");
    take_write_lock(&raw);
    let before = fixture.store.counters();
    let pushes: Vec<_> =
        (1..10).map(|id| push(&fixture.store, if id == 5 { "bad" } else { "q" }, id)).collect();
    all_wait().await;
    release_write_lock(&raw);
    for (id, push) in (1..10).zip(pushes) {
        let outcome = push.await.expect("no panic");
        match id {
            5 => assert!(matches!(outcome, Err(StoreError::Corrupt { what: "queue", .. }))),
            _ => assert_eq!(outcome.expect("the others are stored").outcomes.len(), 1),
        }
    }
    assert!(fixture.store.counters().commits - before.commits <= 2, "they shared a commit");
    let mut found = 0;
    while let Some(claimed) = take(&fixture.store, "q", 10).await {
        found += claimed.partitions[0].messages.len();
    }
    assert_eq!(found, 8);
}

#[tokio::test]
async fn a_dropped_caller_does_not_cancel_its_command() {
    let fixture = Fixture::open().await;
    let lock = fixture.raw();
    take_write_lock(&lock);
    let dropped = push(&fixture.store, "q", 1);
    all_wait().await;
    dropped.abort();
    assert!(dropped.await.expect_err("it was aborted").is_cancelled());
    release_write_lock(&lock);
    push(&fixture.store, "q", 2).await.expect("no panic").expect("pushed");
    for _ in 0..2 {
        take(&fixture.store, "q", 1).await.expect("both messages are there");
    }
}

#[tokio::test]
async fn an_empty_claim_neither_writes_nor_waits_for_a_writer() {
    let fixture = Fixture::open().await;
    push(&fixture.store, "q", 1).await.expect("no panic").expect("pushed");
    let claimed = take(&fixture.store, "q", 1).await.expect("one message");
    let lock = fixture.raw();
    take_write_lock(&lock);
    let before = fixture.store.counters();
    let outcome = fixture.store.claim(claim("q", 1)).await.expect("answered").remove(0);
    assert_eq!(outcome.results, [None]);
    assert_eq!(outcome.next_due, Some(claimed.lease_for), "the lease's end is in sight");
    let after = fixture.store.counters();
    assert_eq!((after.commits, after.peeked), (before.commits, before.peeked + 1));
    release_write_lock(&lock);
}

#[tokio::test]
async fn commands_that_change_nothing_do_not_commit() {
    let fixture = Fixture::open().await;
    push(&fixture.store, "q", 1).await.expect("no panic").expect("pushed");
    let claimed = take(&fixture.store, "q", 1).await.expect("one message");
    fixture.store.settle(completions(&claimed)).await.expect("settled");
    let before = fixture.store.counters();
    fixture.store.settle(completions(&claimed)).await.expect("answered as stale");
    push(&fixture.store, "q", 1).await.expect("no panic").expect("a duplicate");
    let after = fixture.store.counters();
    assert_eq!(after.commits, before.commits);
    assert_eq!(after.commands, before.commands + 2);
}

#[tokio::test]
async fn a_lock_that_is_never_free_is_a_transient_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::open().await;
    let options = SqliteOptions { busy_timeout_ms: 20, ..options(&folder, &fixture.clock) };
    let store = SqliteStore::open(options.clone()).await.expect("opens");
    let lock = Connection::open(&options.path).expect("opens");
    take_write_lock(&lock);
    let refused = push(&store, "q", 1).await.expect("no panic");
    assert!(matches!(refused, Err(StoreError::Transient { operation: "push", .. })));
    release_write_lock(&lock);
    assert!(take(&store, "q", 1).await.is_none(), "nothing of it was written");
    push(&store, "q", 1).await.expect("no panic").expect("the next one goes through");
}

#[tokio::test]
async fn closing_finishes_waiting_commands_and_refuses_later_ones() {
    let fixture = Fixture::open().await;
    let lock = fixture.raw();
    take_write_lock(&lock);
    let waiting = push(&fixture.store, "q", 1);
    all_wait().await;
    let closing = tokio::spawn({
        let store = fixture.store.clone();
        async move { store.close().await }
    });
    all_wait().await;
    release_write_lock(&lock);
    waiting.await.expect("no panic").expect("it was sent before");
    tokio::time::timeout(Duration::from_secs(60), closing)
        .await
        .expect("closing ends")
        .expect("no panic");
    let late = push(&fixture.store, "q", 2).await.expect("no panic");
    assert!(matches!(late, Err(StoreError::Unavailable { .. })));
    assert!(matches!(fixture.store.ping().await, Err(StoreError::Unavailable { .. })));
    let again = fixture.second().await;
    assert!(take(&again, "q", 1).await.is_some());
}
