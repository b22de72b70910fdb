//! duroxide's suite on SQLite files.

use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{InstanceFilter, ProviderAdmin as _, PruneOptions};
use rusqlite::Connection;
use tempfile::TempDir;
use wakeline_duroxide::{SqliteProvider, SqliteProviderOptions};
use wakeline_sqlite::SqliteStore;

use crate::stores::{TestStore, waiting};
use crate::waking::switched_off;

/// A file in a temporary folder.
pub(crate) struct File {
    folder: TempDir,
    provider: SqliteProvider,
}

impl File {
    /// Opens the file as another program does.
    fn raw(&self) -> Connection {
        let file = Connection::open(self.folder.path().join("dx.db")).expect("the file opens");
        file.busy_timeout(Duration::from_secs(5)).expect("it can wait");
        file
    }
}

async fn provider_in(folder: &TempDir, long_polling: bool) -> SqliteProvider {
    let mut options = SqliteProviderOptions::new(folder.path().join("dx.db"));
    options.store.ballast_bytes = 0;
    options.waiting = waiting(long_polling);
    SqliteProvider::open(options).await.expect("the file opens")
}

#[async_trait]
impl TestStore for File {
    type Store = SqliteStore;

    async fn open(long_polling: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        Self { provider: provider_in(&folder, long_polling).await, folder }
    }

    fn provider(&self) -> &SqliteProvider {
        &self.provider
    }

    async fn second_provider(&self) -> SqliteProvider {
        provider_in(&self.folder, true).await
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("dx.db").display())
    }

    /// Counts the descriptors of this process to the database and the files beside it.
    async fn connections(&self) -> usize {
        let open = std::fs::read_dir("/proc/self/fd").expect("it can be read");
        let ours = |entry: std::io::Result<std::fs::DirEntry>| {
            let file = std::fs::read_link(entry.ok()?.path()).ok()?;
            file.starts_with(self.folder.path()).then_some(())
        };
        open.filter_map(ours).count()
    }

    async fn corrupt_history(&self, instance: &str) {
        let sql = "UPDATE history SET events = CAST('no events' AS BLOB)
                   WHERE lane_id = (SELECT lane_id FROM lanes WHERE instance = ?1)";
        assert!(self.raw().execute(sql, [instance]).expect("it can be written") > 0);
    }

    /// A message counts the leases that ended without a commit; the current lease is added.
    async fn attempt_max(&self, instance: &str) -> u32 {
        let sql = "SELECT coalesce(max(m.attempts + (l.lease_key IS NOT NULL
                       AND m.visible_at <= l.lease_at AND m.seq <= l.lease_seq)), 0)
                   FROM lanes l JOIN lane_messages m USING (lane_id) WHERE l.instance = ?1";
        self.raw().query_row(sql, [instance], |row| row.get(0)).expect("it can be read")
    }

    async fn is_anything_locked(&self) -> bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM lanes WHERE lease_key IS NOT NULL)";
        self.raw().query_row(sql, [], |row| row.get(0)).expect("it can be read")
    }
}

crate::suite::suite!(File);
crate::waking::on_site!(super::File);

#[tokio::test]
async fn every_constructor_opens_a_provider_that_waits_unless_configured_not_to() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (file, schema) = (folder.path().join("dx.db"), Some("another"));
    let waiting = [
        SqliteProvider::new(&file).await.expect("opened"),
        SqliteProvider::new_with_schema(&file, schema).await.expect("opened"),
        SqliteProvider::new_with_long_poll(&file).await.expect("opened"),
        SqliteProvider::new_with_long_poll_and_schema(&file, schema).await.expect("opened"),
    ];
    let still = [
        SqliteProvider::new_with_options(&file, None, switched_off()).await.expect("opened"),
        SqliteProvider::new_with_options(&file, schema, switched_off()).await.expect("opened"),
    ];
    crate::waking::constructors_wait(waiting, still).await;
    let wrong = SqliteProvider::new_with_schema(&file, Some("../mine")).await;
    assert!(wrong.err().expect("refused").to_string().contains("../mine"));
    assert!(folder.path().join("dx-another.db").exists(), "a schema is a file of its own");
}

/// Simulates a process that was killed during a deletion; no other process continues it here.
#[tokio::test]
async fn an_interrupted_deletion_is_finished_by_the_next_deletion_or_pruning() {
    let file = File::open(false).await;
    let (raw, provider) = (file.raw(), file.provider());
    let interrupt = "INSERT INTO lane_leftovers (deletion, lane_id, deleted_at, due_at)
             VALUES (x'00112233445566778899aabbccddeeff', 77, 0, 0);
         WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
         INSERT INTO lane_messages (lane_id, seq, visible_at, starts, payload)
         SELECT 77, n, 0, 0, x'78' FROM n";
    let left = || {
        let sql = "SELECT (SELECT count(*) FROM lane_messages)
            + (SELECT count(*) FROM lane_leftovers)";
        raw.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("counted")
    };
    for pruning in [false, true] {
        raw.execute_batch(interrupt).expect("interrupted");
        assert_eq!(left(), 3_001);
        let filter = InstanceFilter { instance_ids: None, completed_before: None, limit: None };
        if pruning {
            let options = PruneOptions { keep_last: Some(1), completed_before: None };
            provider.prune_executions_bulk(filter, options).await.expect("pruned");
        } else {
            provider.delete_instance_bulk(filter).await.expect("deleted");
        }
        assert_eq!(left(), 0, "pruning: {pruning}");
    }
    file.close().await;
}
