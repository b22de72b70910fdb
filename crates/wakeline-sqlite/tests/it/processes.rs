//! Several stores on one file, as in several processes.

use std::time::Duration;

use wakeline_core::{Change, GroupName, PartitionName, QueueOptions};
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::{
    ConfigureQueue, HintOrigin, LinkState, QueueAdmin as _, QueueStore as _, StoreAdmin as _,
};
use wakeline_testkit::conformance::item;

use crate::fixture::{Fixture, completions, options, queue, take};
use crate::listening::{Listening, Received, mark, taken_once};

impl Listening {
    /// Skips received calls until a change of a partition is received.
    async fn change_of(&mut self, partition: &str) -> Change {
        loop {
            if let Received::Changed(changes, origin) = self.next().await {
                assert_eq!(origin, HintOrigin::Notify);
                let fits = |change: &Change| {
                    change.partition.as_ref().is_some_and(|name| name.as_str() == partition)
                };
                if let Some(change) = changes.into_iter().find(fits) {
                    return change;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_reported_precisely_to_the_other_process() {
    let here = Fixture::open().await;
    let mut listening = Listening::to(&here.store).await;
    let there = here.second().await;
    assert_eq!(listening.next().await, Received::Everything, "a process joined");
    listening.wait_until_known(&there).await;
    let reply = there.push(vec![item(&queue("n.t"), "p", "a")]).await.expect("pushed");
    assert_eq!(listening.change_of("p").await, reply.changes[0]);
    assert!(take(&here.store, "n.t", 1).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lease_in_one_process_is_known_in_the_other() {
    let here = Fixture::open().await;
    let there = here.second().await;
    there.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
    let mut listening = Listening::between(&here.store, &there).await;
    let claimed = take(&there, "q", 1).await.expect("one message");
    loop {
        // The push may be reported together with it.
        if let Received::Changed(changes, _) = listening.next().await
            && let Some(end) = changes.iter().find(|change| change.due_in == claimed.lease_for)
        {
            assert_eq!(end.group, Some(GroupName::queue_mode()), "for the group that claimed");
            break;
        }
    }
    there.settle(completions(&claimed)).await.expect("settled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_receives_nothing_of_its_own_process() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let mut listening = Listening::between(&here.store, &there).await;
    here.store.push(vec![item(&queue("q"), "mine", "a")]).await.expect("pushed");
    there.push(vec![item(&queue("q"), "theirs", "b")]).await.expect("pushed");
    loop {
        if let Received::Changed(changes, _) = listening.next().await {
            let named = |name: &str| {
                changes.iter().any(|change| change.partition == PartitionName::new(name).ok())
            };
            assert!(!named("mine"));
            if named("theirs") {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_changes_are_reported_as_everything() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let mut listening = Listening::to(&here.store).await;
    let many = (0..200).map(|n| item(&queue("q"), &n.to_string(), "a")).collect();
    there.push(many).await.expect("pushed");
    while listening.next().await != Received::Everything {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_garbled_page_is_reported_as_everything() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let mut listening = Listening::between(&here.store, &there).await;
    there.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
    listening.change_of("p").await;
    for file in hint_files(&here) {
        std::fs::write(file, "not a page").expect("writable");
    }
    while listening.next().await != Received::Everything {}
    there.push(vec![item(&queue("q"), "p2", "b")]).await.expect("pushed");
    listening.change_of("p2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_ends_at_its_shutdown() {
    let here = Fixture::open().await;
    let mut listening = Listening::to(&here.store).await;
    listening.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(30), listening.received.recv()).await;
    assert_eq!(ended.expect("it ends"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_hints_the_link_is_off_and_says_why() {
    let fixture = Fixture::open().await;
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { hints: false, ..options(&folder, &fixture.clock) };
    let store = SqliteStore::open(options).await.expect("opens");
    let mut listening = Listening::begin(&store);
    let Received::Link(LinkState::Off { reason }) = listening.next().await else {
        panic!("the link is not off");
    };
    assert!(reason.contains("switched off"), "{reason}");
    assert!(!folder.path().join("wakeline.db.hints").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_changes_of_a_process_that_leaves_at_once_are_reported() {
    let here = Fixture::open().await;
    let mut listening = Listening::to(&here.store).await;
    let quick = here.folder.path().join("wakeline.db.hints/quick.hint");
    std::fs::write(&quick, "").expect("writable");
    // A store that took it for the file of a dead process may have removed it already.
    let _ = std::fs::remove_file(&quick);
    assert_eq!(listening.next().await, Received::Everything);
}

fn hint_files(fixture: &Fixture) -> Vec<std::path::PathBuf> {
    let folder = fixture.folder.path().join("wakeline.db.hints");
    let files = std::fs::read_dir(folder).expect("the folder of hints");
    files.map(|file| file.expect("readable").path()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_dead_processes_are_removed_and_those_of_live_ones_kept() {
    let here = Fixture::open().await;
    let dead = here.folder.path().join("wakeline.db.hints/dead.hint");
    std::fs::write(&dead, "").expect("writable");
    let there = here.second().await;
    assert!(!dead.exists());
    assert_eq!(hint_files(&here).len(), 2);
    there.close().await;
    assert_eq!(hint_files(&here).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_hold_the_same_message() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let items = (0..200).map(|n| item(&queue("q"), &n.to_string(), &n.to_string())).collect();
    here.store.push(items).await.expect("pushed");
    let take = async |store: SqliteStore| -> Vec<_> {
        let claimed = take(&store, "q", 1).await;
        claimed.into_iter().map(|claimed| claimed.partitions[0].messages[0].id).collect()
    };
    assert_eq!(taken_once([here.store.clone(), there], take).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_another_process_invalidates_the_cache() {
    let here = Fixture::open().await;
    let there = here.second().await;
    here.store.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
    let options = QueueOptions { lease_secs: 7, ..QueueOptions::default() };
    let command = ConfigureQueue { queue: queue("q"), namespace: None, task: None, options };
    there.configure(command).await.expect("configured");
    let claimed = take(&here.store, "q", 1).await.expect("one message");
    assert_eq!(claimed.lease_for, Duration::from_secs(7));
    assert!(there.delete_queue(&queue("q")).await.expect("deleted"));
    here.store.push(vec![item(&queue("q"), "p", "b")]).await.expect("pushed");
    let claimed = take(&there, "q", 1).await.expect("one message");
    let message = &claimed.partitions[0].messages[0];
    assert_eq!((message.transaction_id.as_str(), message.offset), ("b", 0));
    assert_eq!(claimed.lease_for, Duration::from_secs(300), "the options are gone with the queue");
}

/// Waits until the link is up again after the hint files were removed.
async fn linked_again(listening: &mut Listening) {
    let mut down = false;
    loop {
        match listening.next().await {
            Received::Link(LinkState::Down { .. }) => down = true,
            Received::Link(LinkState::Up) if down => return,
            _ => {}
        }
    }
}

#[tokio::test]
async fn removed_hint_files_are_created_again() {
    for whole_folder in [true, false] {
        let fixture = Fixture::open().await;
        let other = fixture.second().await;
        let mut listening = Listening::between(&fixture.store, &other).await;
        let mut beside = Listening::to(&other).await;
        let folder = fixture.folder.path().join("wakeline.db.hints");
        if whole_folder {
            // In one step, because files that are removed one by one would be created again
            // meanwhile.
            std::fs::rename(&folder, fixture.folder.path().join("gone")).expect("moved");
        } else {
            for file in std::fs::read_dir(&folder).expect("read") {
                std::fs::remove_file(file.expect("a file").path()).expect("removed");
            }
        }
        linked_again(&mut listening).await;
        linked_again(&mut beside).await;
        for n in 0.. {
            mark(&other, &format!("again {n}")).await;
            if let Received::Changed(..) = listening.next().await {
                break;
            }
        }
        other.close().await;
        fixture.store.close().await;
    }
}
