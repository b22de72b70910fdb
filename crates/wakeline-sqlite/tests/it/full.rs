//! A full disk: pushes are refused, and stored messages can still be claimed, settled and deleted.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use wakeline_core::EndpointOptions;
use wakeline_sqlite::{SqliteOptions, SqliteStore, TestClock};
use wakeline_store::flow::{Completion, EnqueueOutcome, FlowStore as _, TurnOutcome, WorkOutcome};
use wakeline_store::hook::{DeliveryVerdict, HookStore as _, SettledState};
use wakeline_store::{PushItem, QueueAdmin as _, QueueStore as _, SettleOutcome, StoreError};
use wakeline_testkit::conformance::item;
use wakeline_testkit::oracle::TEST_EPOCH;

use crate::fixture::{completions, queue, take};
use crate::flow::{event, first_turn, start, turn, work};
use crate::hook::{self, application, claim, end, endpoint};

/// The empty store uses most of these pages: one for each table and index.
const PAGES_MAX: u32 = 230;

fn options(folder: &tempfile::TempDir, ballast_bytes: u64) -> SqliteOptions {
    SqliteOptions {
        ballast_bytes,
        clock: Some(TestClock::new(TEST_EPOCH)),
        pages_max: Some(PAGES_MAX),
        ..SqliteOptions::new(folder.path().join("wakeline.db"))
    }
}

fn large(id: usize) -> PushItem {
    let payload = format!("\"{}\"", "x".repeat(8_000)).into();
    PushItem { payload, ..item(&queue("q"), "p", &id.to_string()) }
}

/// Pushes until the disk is full, and returns the number of stored messages.
async fn fill(store: &SqliteStore) -> usize {
    for id in 0..1_000 {
        match store.push(vec![large(id)]).await {
            Ok(_) => {}
            Err(StoreError::Full { operation: "push" }) => return id,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the disk is never full");
}

#[tokio::test]
async fn a_full_disk_refuses_pushes_and_can_still_be_emptied() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&folder, 64 * 4096);
    let ballast = folder.path().join("wakeline.db.ballast");
    let store = SqliteStore::open(options).await.expect("opens");
    assert_eq!(std::fs::metadata(&ballast).expect("it was created").len(), 64 * 4096);
    let stored = fill(&store).await;
    assert!(stored > 10, "{stored}");
    assert!(!ballast.exists(), "it was removed");
    let again = store.push(vec![large(5_000)]).await;
    assert!(matches!(again, Err(StoreError::Full { .. })), "{again:?}");
    for _ in 0..stored {
        let claimed = take(&store, "q", 1).await.expect("everything that was answered is there");
        let settled = store.settle(completions(&claimed)).await.expect("settling works");
        assert!(matches!(settled.outcomes[0], SettleOutcome::Settled { .. }));
    }
    assert!(take(&store, "q", 1).await.is_none());
    assert!(store.delete_queue(&queue("q")).await.expect("deleting works"));
    store.push(vec![large(1)]).await.expect("there is capacity again");
}

#[tokio::test]
async fn on_a_full_disk_turns_are_refused_and_activities_can_still_be_completed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(options(&folder, 64 * 4096)).await.expect("opens");
    store.enqueue(vec![start("a"), start("b")], Vec::new()).await.expect("stored");
    let (first, second) = (turn(&store).await.expect("one"), turn(&store).await.expect("two"));
    store.commit_turn(first_turn(first.token, "a")).await.expect("answered");
    fill(&store).await;
    let refused = store.enqueue(vec![start("c")], Vec::new()).await;
    assert!(matches!(refused, Err(StoreError::Full { operation: "enqueue" })));
    let refused = store.commit_turn(first_turn(second.token, "b")).await;
    assert!(matches!(refused, Err(StoreError::Full { operation: "commit_turn" })));
    let item = work(&store).await.expect("claiming works");
    let completion = Completion { token: item.token, message: Some(event("a")) };
    let reply = store.complete_work(completion, Vec::new()).await.expect("completing works");
    assert!(matches!(reply.outcome, WorkOutcome::Completed(Some(EnqueueOutcome::Queued))));
    assert!(store.delete_queue(&queue("q")).await.expect("deleting works"));
    let reply =
        store.commit_turn(first_turn(second.token, "b")).await.expect("there is capacity again");
    assert!(matches!(reply.outcome, TurnOutcome::Committed { .. }), "the lease was still held");
}

#[tokio::test]
async fn on_a_full_disk_messages_are_refused_and_attempts_can_still_be_settled() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(options(&folder, 64 * 4096)).await.expect("opens");
    let shop = application(&store).await;
    endpoint(&store, &shop, EndpointOptions::default()).await;
    hook::emit(&store, &shop).await;
    hook::emit(&store, &shop).await;
    let first = hook::items(claim(&store, 1).await);
    fill(&store).await;
    let refused = store.emit(hook::message(&shop), Vec::new()).await;
    assert!(matches!(refused, Err(StoreError::Full { operation: "emit" })));
    let second = hook::items(claim(&store, 1).await);
    let ends = [&first[0], &second[0]].map(|item| end(item, DeliveryVerdict::Delivered));
    let settled = store.settle_deliveries(ends.to_vec()).await.expect("settling works");
    assert!(settled.iter().all(|one| one.state == SettledState::Delivered), "{settled:?}");
}

/// A disk of twelve megabytes, if this test is allowed to mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=12m", "wakeline-test"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        mount.is_ok_and(|status| status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmount = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
        assert!(unmount.is_ok_and(|status| status.success()), "the test's disk stays behind");
    }
}

#[tokio::test]
async fn a_disk_that_is_really_full_can_still_be_emptied() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("not allowed to mount a small disk: only the page limit was tested");
        return;
    };
    let options = SqliteOptions { pages_max: None, ..options(&disk.0, 2 * 1024 * 1024) };
    let store = SqliteStore::open(options).await.expect("opens");
    let stored = fill(&store).await;
    assert!(stored > 100, "{stored}");
    for n in 0..stored {
        let claimed = take(&store, "q", 1).await.expect("everything that was answered is there");
        let settled = store.settle(completions(&claimed)).await;
        assert!(settled.is_ok(), "settling message {n}: {settled:?}");
    }
    assert!(store.delete_queue(&queue("q")).await.expect("deleting works"));
    store.push(vec![large(1)]).await.expect("there is capacity again");
}

/// Fills the rest of a disk.
fn use_up(folder: &Path) {
    let mut file = File::create(folder.join("other-data")).expect("made");
    let full = loop {
        if let Err(error) = file.write_all(&[0; 4096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
}

#[tokio::test]
async fn after_a_crash_a_full_disk_can_still_be_emptied() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("not allowed to mount a small disk: only the error's code was tested");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { pages_max: None, ..options(&folder, 2 * 1024 * 1024) };
    let store = SqliteStore::open(options.clone()).await.expect("opens");
    for id in 0..50 {
        store.push(vec![large(id)]).await.expect("pushed");
    }
    // A killed server leaves a log that was not moved into the database, and no usable -shm file.
    for name in ["wakeline.db", "wakeline.db-wal", "wakeline.db.ballast"] {
        std::fs::copy(folder.path().join(name), disk.0.path().join(name)).expect("copied");
    }
    use_up(disk.0.path());
    let options = SqliteOptions { path: disk.0.path().join("wakeline.db"), ..options };
    let store = SqliteStore::open(options).await.expect("in the place of the ballast");
    let refused = store.push(vec![large(5_000)]).await;
    assert!(matches!(refused, Err(StoreError::Full { .. })), "{refused:?}");
    for n in 0..50 {
        let claimed = take(&store, "q", 1).await.expect("everything that was answered is there");
        let settled = store.settle(completions(&claimed)).await;
        assert!(settled.is_ok(), "settling message {n}: {settled:?}");
    }
}

#[tokio::test]
async fn without_ballast_a_full_disk_loses_nothing_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(options(&folder, 0)).await.expect("opens");
    let stored = fill(&store).await;
    let claimed = take(&store, "q", 1_000).await.expect("reading works");
    assert_eq!(claimed.partitions[0].messages.len(), stored);
}
