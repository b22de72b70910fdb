//! duroxide's suite on PostgreSQL.

use async_trait::async_trait;
use wakeline_postgres::{PostgresOptions, PostgresStore, migrate_up};
use wakeline_testkit::database::TestDatabase;

use crate::bed::{Fed, Site};

/// A database of its own.
pub(crate) struct Database {
    database: TestDatabase,
    fed: Fed,
}

async fn store_on(database: &TestDatabase) -> PostgresStore {
    let options = PostgresOptions {
        pool_max: PostgresOptions::POOL_MIN,
        ..PostgresOptions::new(database.url())
    };
    PostgresStore::connect(options).await.expect("a store")
}

#[async_trait]
impl Site for Database {
    async fn open(long_polling: bool) -> Self {
        let database = TestDatabase::copy_of("wl_migrated", async |url| {
            migrate_up(&PostgresOptions::new(url)).await.expect("migrated");
        })
        .await;
        let fed = Fed::over(store_on(&database).await, long_polling);
        Self { database, fed }
    }

    async fn neighbour(&self) -> Fed {
        Fed::over(store_on(&self.database).await, true)
    }

    fn fed(&self) -> &Fed {
        &self.fed
    }

    async fn corrupt_history(&self, instance: &str) {
        let sql = "UPDATE wakeline.flow_history SET events = 'no events'::bytea
            WHERE lane_id = (SELECT lane_id FROM wakeline.flow_lanes WHERE instance = $1)";
        let client = self.database.client().await;
        assert!(client.execute(sql, &[&instance]).await.expect("it can be written") > 0);
    }

    /// A message counts the leases that ended without a commit; the one that holds it is on top.
    async fn attempt_max(&self, instance: &str) -> u32 {
        let sql = "SELECT coalesce(max(m.attempts + (l.lease_token IS NOT NULL
                AND m.visible_at <= l.lease_at AND m.seq <= l.lease_seq)::int), 0)
            FROM wakeline.flow_lanes l JOIN wakeline.flow_messages m USING (lane_id)
            WHERE l.instance = $1";
        let client = self.database.client().await;
        let row = client.query_one(sql, &[&instance]).await.expect("it can be read");
        u32::try_from(row.get::<_, i32>(0)).expect("not negative")
    }

    async fn is_anything_locked(&self) -> bool {
        let sql = "SELECT EXISTS (SELECT FROM wakeline.flow_lanes WHERE lease_token IS NOT NULL)";
        self.database.client().await.query_one(sql, &[]).await.expect("it can be read").get(0)
    }

    async fn close(self) {
        self.fed.close().await;
    }
}

crate::suite::suite!(Database);
crate::waking::on_site!(super::Database);
