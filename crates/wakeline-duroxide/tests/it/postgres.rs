//! duroxide's suite on PostgreSQL.

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use wakeline_postgres::{PostgresOptions, PostgresStore};

use crate::bed::{Fed, Site};

/// A schema of its own.
pub(crate) struct Schema {
    name: String,
    fed: Fed,
}

fn url() -> String {
    std::env::var("WAKELINE_TEST_POSTGRES")
        .expect("run `cargo xtask test`, which starts a PostgreSQL")
}

/// A connection to do something by other means.
async fn raw() -> Client {
    let (client, connection) =
        tokio_postgres::connect(&url(), NoTls).await.expect("the tests' PostgreSQL answers");
    tokio::spawn(connection);
    client
}

#[async_trait]
impl Site for Schema {
    async fn open(long_polling: bool) -> Self {
        let name = format!("wl_{}", Uuid::new_v4().simple());
        let options = PostgresOptions {
            schema: name.clone(),
            pool_max: PostgresOptions::POOL_MIN,
            ..PostgresOptions::new(url())
        };
        let store = PostgresStore::connect(options).await.expect("a store");
        Self { name, fed: Fed::over(store, long_polling) }
    }

    fn fed(&self) -> &Fed {
        &self.fed
    }

    async fn corrupt_history(&self, instance: &str) {
        let schema = &self.name;
        let sql = format!(
            "UPDATE {schema}.flow_history SET events = 'no events'::bytea
             WHERE lane_id = (SELECT lane_id FROM {schema}.flow_lanes WHERE instance = $1)"
        );
        assert!(raw().await.execute(&sql, &[&instance]).await.expect("it can be written") > 0);
    }

    /// A message counts the leases that ended without a commit; the one that holds it is on top.
    async fn attempt_max(&self, instance: &str) -> u32 {
        let schema = &self.name;
        let sql = format!(
            "SELECT coalesce(max(m.attempts + (l.lease_token IS NOT NULL
                 AND m.visible_at <= l.lease_at AND m.seq <= l.lease_seq)::int), 0)
             FROM {schema}.flow_lanes l JOIN {schema}.flow_messages m USING (lane_id)
             WHERE l.instance = $1"
        );
        let row = raw().await.query_one(&sql, &[&instance]).await.expect("it can be read");
        u32::try_from(row.get::<_, i32>(0)).expect("not negative")
    }

    async fn close(self) {
        self.fed.close().await;
        let sql = format!("DROP SCHEMA {} CASCADE", self.name);
        raw().await.batch_execute(&sql).await.expect("dropped");
    }
}

crate::suite::suite!(Schema);
crate::waking::on_site!(super::Schema);
