//! duroxide's suite on SQLite files.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tempfile::TempDir;
use wakeline_sqlite::{SqliteOptions, SqliteStore};

use crate::bed::{Fed, Site};

/// A file in a folder of its own.
pub(crate) struct File {
    folder: TempDir,
    fed: Fed,
}

impl File {
    /// The file as another program sees it.
    fn raw(&self) -> Connection {
        let file = Connection::open(self.folder.path().join("dx.db")).expect("the file opens");
        file.busy_timeout(Duration::from_secs(5)).expect("it can wait");
        file
    }
}

async fn store_in(folder: &TempDir) -> SqliteStore {
    let options =
        SqliteOptions { ballast_bytes: 0, ..SqliteOptions::new(folder.path().join("dx.db")) };
    SqliteStore::open(options).await.expect("the store opens")
}

#[async_trait]
impl Site for File {
    async fn open(long_polling: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        Self { fed: Fed::over(store_in(&folder).await, long_polling), folder }
    }

    async fn neighbour(&self) -> Fed {
        Fed::over(store_in(&self.folder).await, true)
    }

    fn fed(&self) -> &Fed {
        &self.fed
    }

    async fn corrupt_history(&self, instance: &str) {
        let sql = "UPDATE history SET events = CAST('no events' AS BLOB)
                   WHERE lane_id = (SELECT lane_id FROM lanes WHERE instance = ?1)";
        assert!(self.raw().execute(sql, [instance]).expect("it can be written") > 0);
    }

    /// A message counts the leases that ended without a commit; the one that holds it is on top.
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

    async fn close(self) {
        self.fed.close().await;
    }
}

crate::suite::suite!(File);
crate::waking::on_site!(super::File);
