//! A store of webhooks with a concurrent transaction that is kept open at the critical moment.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use uuid::Uuid;
use wakeline_core::HookMessageId;
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::StoreAdmin as _;
use wakeline_testkit::database::connect;
use wakeline_testkit::hook_conformance::HookBench;

use crate::conformance::Fixture;
use crate::support::eventually;

/// A store with one application, and a connection whose transactions the test keeps open.
pub(super) struct Stage {
    pub(super) bench: HookBench,
    /// Options for another node on the same schema.
    pub(super) options: PostgresOptions,
    pub(super) store: PostgresStore,
    pub(super) rival: Client,
}

impl Stage {
    pub(super) async fn open() -> Self {
        let fixture = Fixture::open().await;
        let (store, rival) = (fixture.store.clone(), fixture.schema.client().await);
        let options = PostgresOptions { test_clock: true, ..fixture.schema.options() };
        rival.batch_execute(&fixture.schema.search_path().await).await.expect("set");
        Self { bench: HookBench::new(Box::new(fixture)).await, options, store, rival }
    }

    pub(super) async fn run(&self, sql: &str) {
        self.rival.batch_execute(sql).await.expect("the rival's statement goes through");
    }

    /// Runs a statement that may fail, and returns the server's error.
    pub(super) async fn try_run(&self, sql: &str) -> Result<(), String> {
        let refused = |error: tokio_postgres::Error| {
            error.as_db_error().expect("the server refuses it").message().to_owned()
        };
        self.rival.batch_execute(sql).await.map_err(refused)
    }

    /// Begins a transaction that stores a message, without committing it.
    pub(super) async fn begin_emit(&self) -> HookMessageId {
        let id = HookMessageId::generate();
        self.run(&format!("BEGIN; {}", emit(self.bench.app.0, id.0))).await;
        id
    }

    /// Returns the process id of the other connection.
    pub(super) async fn pid(&self) -> i32 {
        let row = self.rival.query_one("SELECT pg_backend_pid()", &[]).await;
        row.expect("read").get(0)
    }

    /// Starts a call of the store, and waits until the open transaction blocks it.
    pub(super) async fn held_up<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let call = tokio::spawn(call);
        let (pid, watcher) = (self.pid().await, connect(&self.options.url).await);
        let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity a
                   WHERE a.wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(a.pid)))";
        eventually("the rival holds it up", async || {
            watcher.query_one(sql, &[&pid]).await.expect("read").get(0)
        })
        .await;
        call
    }

    pub(super) async fn close(self) {
        drop(self.bench);
        self.store.close().await;
    }
}

/// The statement that stores a message, without requests.
fn emit(app: Uuid, id: Uuid) -> String {
    format!(
        "SELECT count(*) FROM hook_emit(ARRAY['{id}']::uuid[], ARRAY['{app}']::uuid[], \
         ARRAY[NULL]::text[], '{{1}}', '{{order.paid}}', '{{order.paid,*}}', '{{1,1}}', \
         ARRAY[NULL]::text[], ARRAY[NULL]::text[], ARRAY['x']::bytea[], '{{1000000000}}', \
         ARRAY[NULL]::uuid[], ARRAY[NULL]::text[], ARRAY[NULL]::bytea[], ARRAY[NULL]::uuid[], \
         ARRAY[NULL]::text[], ARRAY[NULL]::text[], ARRAY[NULL]::bigint[], ARRAY[NULL]::bytea[], \
         '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
    )
}
