//! A store in its own folder, with a clock that tests advance.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tempfile::TempDir;
use wakeline_core::{GroupName, LeaseToken, QueueLine, QueueName, Selector, Subscription, Verdict};
use wakeline_sqlite::{SqliteOptions, SqliteStore, TestClock};
use wakeline_store::hook::HookBackend;
use wakeline_store::{
    ClaimRequest, LineClaim, QueueClaimResult, QueueStore as _, SettleItem, Store, StoreAdmin as _,
};
use wakeline_testkit::conformance::StoreUnderTest;
use wakeline_testkit::flow_conformance::{Flow, FlowUnderTest};
use wakeline_testkit::hook_conformance::HookUnderTest;
use wakeline_testkit::oracle::TEST_EPOCH;

/// A store, whose folder is removed with the fixture.
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

    /// Another store on the same file, as another process would open it.
    pub(crate) async fn second(&self) -> SqliteStore {
        SqliteStore::open(options(&self.folder, &self.clock)).await.expect("the store opens")
    }
}

/// Options for a file in a test's folder, without ballast, so that tests do not use much disk
/// space.
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

impl FlowUnderTest for Fixture {
    fn flow(&self) -> Arc<dyn Flow> {
        Arc::new(self.store.clone())
    }

    fn hooks(&self) -> Arc<dyn HookBackend> {
        Arc::new(self.store.clone())
    }
}

#[async_trait]
impl HookUnderTest for Fixture {
    fn hook(&self) -> Arc<dyn HookBackend> {
        Arc::new(self.store.clone())
    }

    async fn reopened(&self) -> Arc<dyn HookBackend> {
        Arc::new(self.second().await)
    }
}

impl Fixture {
    /// A connection to the database, as another program would open it.
    pub(crate) fn raw(&self) -> Connection {
        Connection::open(self.folder.path().join("wakeline.db")).expect("the file opens")
    }
}

/// The name of a queue.
pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a valid name")
}

/// A claim of one request for some messages of a queue.
pub(crate) fn claim(name: &str, batch_len_max: u32) -> Vec<LineClaim> {
    let line = QueueLine { selector: Selector::Queue(queue(name)), group: GroupName::queue_mode() };
    let request = ClaimRequest {
        token: LeaseToken::generate(),
        batch_len_max,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: false,
        worker: None,
    };
    vec![LineClaim {
        line,
        subscription: Subscription::All,
        requests: vec![request],
        further: false,
    }]
}

/// Claims messages with one request, and returns its result.
pub(crate) async fn take(
    store: &SqliteStore,
    name: &str,
    batch_len_max: u32,
) -> Option<QueueClaimResult> {
    let claimed = store.claim(claim(name, batch_len_max)).await;
    claimed.expect("the claim is answered").remove(0).results.remove(0)
}

/// Settlements that complete all messages of a claim result.
pub(crate) fn completions(claimed: &QueueClaimResult) -> Vec<SettleItem> {
    let token = claimed.lease.as_ref().map(|lease| lease.token);
    let mut items = Vec::new();
    for partition in &claimed.partitions {
        for message in &partition.messages {
            items.push(SettleItem {
                partition: partition.partition_id,
                group: GroupName::queue_mode(),
                token,
                transaction_id: message.transaction_id.clone(),
                verdict: Verdict::Completed,
                error: None,
            });
        }
    }
    items
}
