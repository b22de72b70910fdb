//! A commit that was confirmed is durable, whatever the defaults of the database are.

use wakeline_postgres::{PostgresOptions, PreparedStatements};
use wakeline_testkit::conformance::ClaimSpec;

use crate::claims::{push, queue, take};
use crate::support::{Node, TestSchema, eventually};

/// Records with which setting each table is written, and who set it.
const RECORD: &str = "CREATE TABLE wakeline.committed (setting text);
    CREATE FUNCTION wakeline.record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO wakeline.committed SELECT setting || ' by ' || source
            FROM pg_settings WHERE name = 'synchronous_commit';
        RETURN NULL;
    END $$;
    CREATE TRIGGER record AFTER INSERT ON wakeline.segments
        FOR EACH STATEMENT EXECUTE FUNCTION wakeline.record();
    CREATE TRIGGER record AFTER UPDATE ON wakeline.cursors
        FOR EACH STATEMENT EXECUTE FUNCTION wakeline.record()";

#[tokio::test]
async fn commits_are_synced_where_the_default_is_weaker() {
    commits_are_synced(PreparedStatements::Auto).await;
}

#[tokio::test]
async fn commits_are_synced_where_sessions_are_shared_with_other_clients() {
    commits_are_synced(PreparedStatements::Off).await;
}

async fn commits_are_synced(prepared_statements: PreparedStatements) {
    let defaults = ["off", "local", "remote_write", "on", "remote_apply"];
    for default in defaults {
        // By the session itself, so that a default that is weakened later does not reach it.
        let expected = match default {
            "remote_apply" => "remote_apply by session",
            _ => "on by session",
        };
        let schema = TestSchema::new().await;
        let client = schema.client().await;
        client.batch_execute(RECORD).await.expect("recorded");
        // Only the owner of a database and superusers may set its defaults.
        let alter =
            format!("ALTER DATABASE {} SET synchronous_commit = {default}", schema.database.name());
        schema.database.superuser().await.batch_execute(&alter).await.expect("weakened");
        // Two nodes, so that notifications are sent in between, which need not be synced.
        let options = PostgresOptions { prepared_statements, ..schema.options() };
        let node = Node::start(options.clone()).await;
        let other = Node::start(options).await;
        push(&node.store, "p", "1").await;
        eventually("the other node was notified", async || node.store.notifies_sent() > 0).await;
        push(&node.store, "p", "2").await;
        take(&node.store, &ClaimSpec::queue(&queue())).await;
        let sql = "SELECT array_agg(DISTINCT setting) FROM wakeline.committed";
        let settings: Vec<String> = client.query_one(sql, &[]).await.expect("read").get(0);
        assert_eq!(settings, [expected], "default {default}");
        node.stop().await;
        other.stop().await;
    }
}
