//! A schema that tests fill directly, and the measurement of the buffers that its functions read.
//!
//! Buffers are counted, not times. The functions force generic plans, so a plan that was made on
//! tiny tables must also be good on large ones: the connection that makes its plans on the small
//! store is measured on the large one.

use tokio_postgres::Client;

use crate::support::TestSchema;

/// A migrated schema, and the connection that fills and measures it.
pub(crate) struct Measured {
    pub(crate) schema: TestSchema,
    pub(crate) client: Client,
}

impl Measured {
    /// Creates a schema; the tables to be filled are not logged, which makes filling them faster.
    pub(crate) async fn open(filled: &[&str], prepare: &str) -> Self {
        let schema = TestSchema::new().await;
        let client = schema.client().await;
        let mut sql = schema.search_path().await;
        for table in filled {
            sql.push_str(&format!("ALTER TABLE {table} SET UNLOGGED;"));
        }
        client.batch_execute(&(sql + prepare)).await.expect("prepared");
        Self { schema, client }
    }

    /// Fills tables, and updates the planner's statistics. Only of this schema: an `ANALYZE` of all
    /// tables would hold locks on tables that other tests drop.
    pub(crate) async fn fill(&self, sql: &str) {
        self.client.batch_execute(sql).await.expect("filled");
        let analyze = "DO $$ DECLARE name text; BEGIN
             FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
                WHERE schemaname = current_schema()
             LOOP EXECUTE 'ANALYZE ' || name; END LOOP; END $$";
        self.client.batch_execute(analyze).await.expect("analyzed");
    }

    /// Counts the buffers that a statement reads after another one, once its plans and the
    /// catalog's caches are warm. Both statements are rolled back each time.
    pub(crate) async fn buffers(&self, before: &str, statement: &str) -> i64 {
        let mut least = i64::MAX;
        for _ in 0..4 {
            let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}");
            self.client.batch_execute(&format!("BEGIN; {before}")).await.expect("begun");
            let row = self.client.query_one(&explain, &[]).await.expect("explained");
            self.client.batch_execute("ROLLBACK").await.expect("undone");
            let plan: serde_json::Value = row.get(0);
            let count = |kind: &str| plan[0]["Plan"][kind].as_i64().expect("counted");
            least = least.min(count("Shared Hit Blocks") + count("Shared Read Blocks"));
        }
        least
    }
}
