//! A store in a folder of its own, with a clock that tests move.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use wakeline_sqlite::{SqliteOptions, SqliteStore, TestClock};
use wakeline_store::{Store, StoreAdmin as _};
use wakeline_testkit::conformance::StoreUnderTest;
use wakeline_testkit::oracle::TEST_EPOCH;

/// A store that goes with its folder.
pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) clock: TestClock,
    pub(crate) store: SqliteStore,
}

impl Fixture {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let clock = TestClock::new(TEST_EPOCH);
        let store = SqliteStore::open(options(&folder, &clock)).await.expect("the store opens");
        Self { folder, clock, store }
    }

    /// Another store on the same file, as another process would have it.
    pub(crate) async fn second(&self) -> SqliteStore {
        SqliteStore::open(options(&self.folder, &self.clock)).await.expect("the store opens")
    }
}

/// Options for a file in a test's folder: no ballast, so that tests cost no disk.
pub(crate) fn options(folder: &TempDir, clock: &TestClock) -> SqliteOptions {
    SqliteOptions {
        ballast_bytes: 0,
        clock: Some(clock.clone()),
        ..SqliteOptions::new(folder.path().join("wakeline.db"))
    }
}

#[async_trait]
impl StoreUnderTest for Fixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn finish(&self) {
        self.store.close().await;
    }
}
