//! The database file: its schema, opening it, and what it contains afterwards.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rusqlite::Connection;
use rustix::fs::Mode;
use rustix::process::umask;
use wakeline_core::{PartitionId, Timestamp};
use wakeline_sqlite::{
    SqliteOptions, SqliteStore, TestClock, dump_schema, migrate_status, migrate_up,
};
use wakeline_store::flow::Visible;
use wakeline_store::{
    QueueAdmin as _, QueueStore as _, ScheduleItem, StoreAdmin as _, StoreError, TransactCommand,
};
use wakeline_testkit::conformance::item;
use wakeline_testkit::oracle::TEST_EPOCH;

use crate::fixture::{Fixture, options, queue, take};

#[tokio::test]
async fn the_schema_is_the_one_in_the_tree() {
    let fixture = Fixture::open().await;
    let schema = dump_schema(&fixture.raw()).expect("the schema is dumped");
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/schema.txt");
    if std::env::var_os("WAKELINE_BLESS").is_some() {
        std::fs::write(committed, &schema).expect("the tree is writable");
    }
    let expected = std::fs::read_to_string(committed).unwrap_or_default();
    assert_eq!(schema, expected, "sql/schema.txt is out of date: run `cargo xtask bless sqlite`");
}

#[tokio::test]
async fn stored_messages_and_leases_survive_reopening() {
    let fixture = Fixture::open().await;
    let items = vec![item(&queue("q"), "p", "a"), item(&queue("q"), "p", "b")];
    fixture.store.push(items).await.expect("pushed");
    let held = take(&fixture.store, "q", 1).await.expect("one message");
    fixture.store.close().await;
    let store = fixture.second().await;
    assert!(take(&store, "q", 1).await.is_none(), "the lease is still held");
    fixture.clock.advance(held.lease_for);
    let again = take(&store, "q", 1).await.expect("it expired");
    assert_eq!(again.partitions[0].messages[0].attempt, 2);
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = TestClock::new(TEST_EPOCH);
    let store = SqliteStore::open(options(&folder, &clock)).await.expect("opens");
    store.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
    drop(store);
    let store = SqliteStore::open(options(&folder, &clock)).await.expect("opens again");
    assert!(take(&store, "q", 1).await.is_some());
}

#[tokio::test]
async fn time_does_not_run_backwards_over_a_restart() {
    let fixture = Fixture::open().await;
    fixture.clock.advance(Duration::from_secs(3600));
    fixture.store.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
    fixture.store.close().await;
    let earlier = TestClock::new(TEST_EPOCH);
    let store = SqliteStore::open(options(&fixture.folder, &earlier)).await.expect("opens");
    store.push(vec![item(&queue("q"), "other", "b")]).await.expect("pushed");
    let claimed = take(&store, "q", 1).await.expect("one message");
    let expected = TEST_EPOCH.plus(Duration::from_secs(3600));
    assert_eq!(claimed.partitions[0].messages[0].created_at, expected);
    store.push(vec![item(&queue("q"), "third", "c")]).await.expect("pushed");
    let third = store.queue(&queue("q")).await.expect("answered").expect("it exists");
    assert_ne!(third.default_partition, PartitionId(0));
}

/// Checks leases and delays after the machine's date was set, in a running process and in new ones.
async fn leases_and_delays_last_their_time(days: i64) {
    let fixture = Fixture::open().await;
    let secs = Duration::from_secs;
    let due = Visible::After(secs(600));
    let later = ScheduleItem { message: item(&queue("later"), "p", "l"), due, key: None };
    let later = TransactCommand { schedules: vec![later], ..TransactCommand::default() };
    fixture.store.transact(later).await.expect("scheduled");
    fixture.store.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
    let held = take(&fixture.store, "q", 1).await.expect("one message");
    let mut stores = vec![fixture.store.clone()];
    for step in [days, -days] {
        fixture.clock.step(step * 86_400);
        stores.push(fixture.second().await);
        for store in &stores {
            assert!(take(store, "q", 1).await.is_none(), "the lease is held, {step} days later");
            assert!(take(store, "later", 1).await.is_none(), "not early, {step} days later");
        }
        fixture.clock.advance(secs(10));
    }
    fixture.clock.advance(held.lease_for - secs(21));
    assert!(take(&fixture.store, "q", 1).await.is_none(), "one second is left");
    fixture.clock.advance(secs(3));
    let again = take(&stores[1], "q", 1).await.expect("the lease ended");
    assert_eq!(again.partitions[0].messages[0].attempt, 2);
    fixture.clock.advance(secs(600));
    assert!(take(&stores[2], "later", 1).await.is_some(), "it is due");
}

#[tokio::test]
async fn leases_and_delays_are_neither_early_nor_stuck_when_the_date_is_set() {
    for days in [1, 30, -1, -30] {
        leases_and_delays_last_their_time(days).await;
    }
}

#[tokio::test]
async fn a_file_from_a_machine_whose_date_was_ahead_stays_usable() {
    for days in [1, 30] {
        let fixture = Fixture::open().await;
        fixture.clock.step(days * 86_400);
        let ahead = TestClock::new(fixture.clock.now());
        let store = SqliteStore::open(options(&fixture.folder, &ahead)).await.expect("opens");
        store.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
        store.close().await;
        let right = TestClock::new(TEST_EPOCH);
        let store = SqliteStore::open(options(&fixture.folder, &right)).await.expect("opens");
        let held = take(&store, "q", 1).await.expect("one message");
        right.advance(held.lease_for);
        assert!(take(&store, "q", 1).await.is_none(), "never early");
        right.advance(held.lease_for / 8);
        assert!(take(&store, "q", 1).await.is_some(), "not stuck for {days} days");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_processes_can_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = TestClock::new(Timestamp(1_000_000));
    let opening: Vec<_> =
        (0..8).map(|_| tokio::spawn(SqliteStore::open(options(&folder, &clock)))).collect();
    for store in opening {
        store.await.expect("no panic").expect("opens");
    }
}

#[tokio::test]
async fn migrations_are_reported_and_applied() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&folder, &TestClock::new(TEST_EPOCH));
    let before = migrate_status(&options).await.expect("read");
    assert!(before.iter().all(|migration| !migration.applied));
    assert!(!options.path.exists(), "reading the status creates no file");
    let without = SqliteOptions { migrate: false, ..options.clone() };
    let refused = SqliteStore::open(without.clone()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })));
    let after = migrate_up(&options).await.expect("applied");
    assert!(after.iter().all(|migration| migration.applied));
    assert_eq!(migrate_status(&options).await.expect("read"), after);
    SqliteStore::open(without).await.expect("up to date");
}

#[tokio::test]
async fn a_changed_or_newer_schema_is_refused() {
    for damage in [
        "UPDATE migrations SET checksum = 'other'",
        "INSERT INTO migrations (version, name, checksum) VALUES (999, 'future', '')",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(&folder, &TestClock::new(TEST_EPOCH));
        migrate_up(&options).await.expect("applied");
        Connection::open(&options.path).expect("opens").execute(damage, []).expect("corrupted");
        let opened = SqliteStore::open(options.clone()).await;
        assert!(matches!(opened, Err(StoreError::Unavailable { .. })), "{damage}");
        assert!(migrate_up(&options).await.is_err());
        assert!(migrate_status(&options).await.is_err());
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_untouched() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&folder, &TestClock::new(TEST_EPOCH));
    std::fs::write(&options.path, "x".repeat(5000)).expect("writable");
    let opened = SqliteStore::open(options.clone()).await;
    assert!(matches!(opened, Err(StoreError::Corrupt { what: "database", .. })), "{opened:?}");
    assert_eq!(std::fs::read(&options.path).expect("readable"), "x".repeat(5000).into_bytes());
}

#[tokio::test]
async fn the_store_reports_its_kind_and_location() {
    let fixture = Fixture::open().await;
    let info = fixture.store.info();
    assert_eq!(info.kind, "sqlite");
    assert!(info.location.ends_with("wakeline.db"), "{}", info.location);
    fixture.store.ping().await.expect("it answers");
}

#[tokio::test]
async fn only_the_owner_can_read_what_is_stored_whatever_the_umask() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = umask(Mode::empty());
    let options = SqliteOptions::new(folder.path().join("wakeline.db"));
    let store = SqliteStore::open(options).await.expect("opens");
    store.push(vec![item(&queue("q"), "p", "a")]).await.expect("pushed");
    umask(before);
    let mut seen = Vec::new();
    let mut folders = vec![folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            let meta = std::fs::metadata(&path).expect("there");
            let expected = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(meta.permissions().mode() & 0o777, expected, "{}", path.display());
            seen.push(path.extension().expect("one").to_string_lossy().into_owned());
            folders.extend(meta.is_dir().then_some(path));
        }
    }
    seen.sort();
    assert_eq!(seen, ["ballast", "db", "db-shm", "db-wal", "hint", "hints"]);
    store.close().await;
}
