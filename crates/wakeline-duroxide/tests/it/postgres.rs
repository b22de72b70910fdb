//! duroxide's suite on PostgreSQL.

use async_trait::async_trait;
use wakeline_duroxide::{PostgresOptions, PostgresProvider, PostgresProviderOptions};
use wakeline_postgres::{PostgresStore, migrate_up};
use wakeline_testkit::database::TestDatabase;

use crate::stores::{TestStore, waiting};
use crate::waking::switched_off;

/// A separate database.
pub(crate) struct Database {
    database: TestDatabase,
    provider: PostgresProvider,
}

async fn provider_on(database: &TestDatabase, long_polling: bool) -> PostgresProvider {
    let mut options = PostgresProviderOptions::new(database.url());
    options.store.pool_max = PostgresOptions::POOL_MIN;
    options.waiting = waiting(long_polling);
    PostgresProvider::connect(options).await.expect("connected")
}

#[async_trait]
impl TestStore for Database {
    type Store = PostgresStore;

    async fn open(long_polling: bool) -> Self {
        let database = TestDatabase::copy_of("wl_migrated", async |url| {
            migrate_up(&PostgresOptions::new(url)).await.expect("migrated");
        })
        .await;
        let provider = provider_on(&database, long_polling).await;
        Self { database, provider }
    }

    fn provider(&self) -> &PostgresProvider {
        &self.provider
    }

    async fn second_provider(&self) -> PostgresProvider {
        provider_on(&self.database, true).await
    }

    fn url(&self) -> String {
        self.database.url()
    }

    async fn connections(&self) -> usize {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let count: i64 =
            self.database.client().await.query_one(sql, &[]).await.expect("read").get(0);
        usize::try_from(count).expect("not negative")
    }

    async fn corrupt_history(&self, instance: &str) {
        let sql = "UPDATE wakeline.flow_history SET events = 'no events'::bytea
            WHERE lane_id = (SELECT lane_id FROM wakeline.flow_lanes WHERE instance = $1)";
        let client = self.database.client().await;
        assert!(client.execute(sql, &[&instance]).await.expect("it can be written") > 0);
    }

    /// A message counts the leases that ended without a commit; the current lease is added.
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
}

crate::suite::suite!(Database);
crate::waking::on_site!(super::Database);

#[tokio::test]
async fn every_constructor_opens_a_provider_that_waits_unless_configured_not_to() {
    let store = Database::open(true).await;
    let (url, schema) = (store.url(), Some("another"));
    let waiting = [
        PostgresProvider::new(&url).await.expect("connected"),
        PostgresProvider::new_with_schema(&url, schema).await.expect("connected"),
        PostgresProvider::new_with_long_poll(&url).await.expect("connected"),
        PostgresProvider::new_with_long_poll_and_schema(&url, schema).await.expect("connected"),
    ];
    let still = [
        PostgresProvider::new_with_options(&url, None, switched_off()).await.expect("connected"),
        PostgresProvider::new_with_options(&url, schema, switched_off()).await.expect("connected"),
    ];
    crate::waking::constructors_wait(waiting, still).await;
    let wrong = PostgresProvider::new_with_schema(&url, Some("pg_mine")).await;
    assert!(wrong.err().expect("refused").to_string().contains("pg_mine"));
    store.close().await;
}
