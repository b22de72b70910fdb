//! Tests the SQL function `configure`, which sets options of queues in the user's own transaction.

use futures_util::future::join_all;
use tokio_postgres::Client;
use wakeline_core::{MessageOrder, PartitionName, QueueName, QueueOptions};
use wakeline_store::{AccessStore as _, AuditFilter, QueueAdmin as _};

use crate::support::{TestSchema, eventually};

async fn configure(
    user: &Client,
    schema: &TestSchema,
    options: &str,
) -> Result<(), tokio_postgres::Error> {
    let sql = format!("SELECT {}.configure('n.q', $1::text::jsonb)", schema.name);
    user.execute(&sql, &[&options]).await.map(drop)
}

#[tokio::test]
async fn a_queue_is_configured_from_sql_option_by_option() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let user = schema.client().await;
    let queue = QueueName::new("n.q").expect("valid");
    let read = async || store.queue(&queue).await.expect("it is read").expect("it exists");

    configure(&user, &schema, r#"{"unordered": true, "ordering": "relaxed"}"#).await.expect("set");
    let detail = read().await;
    let expected =
        QueueOptions { lanes: 16, ordering: MessageOrder::Relaxed, ..QueueOptions::default() };
    assert_eq!(detail.options, expected);
    assert_eq!(detail.namespace.expect("it has one").as_str(), "n");

    let more = r#"{"leaseTime": 60.0, "retentionSeconds": 5, "partitionPriorities": {"p": -1}}"#;
    configure(&user, &schema, more).await.expect("set");
    let options = read().await.options;
    assert_eq!((options.lanes, options.lease_secs, options.retention), (16, 60, true));
    assert_eq!(options.partition_priorities.len(), 1);
    configure(&user, &schema, r#"{"unordered": false, "lanes": null}"#).await.expect("set");
    assert_eq!(read().await.options.lanes, 0);

    let audit =
        store.audit(AuditFilter { limit: 10, ..Default::default() }).await.expect("it is read");
    assert_eq!((audit[0].action.as_str(), audit[0].target.as_str()), ("queue.configure", "n.q"));
    assert!(audit[0].actor.starts_with("sql:"), "{}", audit[0].actor);
}

#[tokio::test]
async fn what_http_refuses_is_refused_from_sql() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let user = schema.client().await;
    for (options, message, hint) in [
        (r#"{"lease_time": 5}"#, "unknown option lease_time", "did you mean leaseTime?"),
        (r#"{"colour": 5}"#, "unknown option colour", "known options: leaseTime, "),
        (r#"{"leaseTime": 0}"#, "option leaseTime must be a whole number from 1 to 604800", ""),
        (r#"{"leaseTime": 1.5}"#, "option leaseTime must be a whole number", ""),
        (r#"{"leaseTime": "5"}"#, "option leaseTime must be a JSON number", ""),
        (r#"{"ordering": "random"}"#, "option ordering must be one of strict,relaxed", ""),
        (r#"{"groupIdleSeconds": 599}"#, "must be 0 or from 600", ""),
        (r#"{"unordered": true, "lanes": 0}"#, "contradict", "leave out"),
        (r#"{"encryptionEnabled": true}"#, "encryption cannot", "HTTP"),
        (r#"{"partitionPriorities": {"p": "x"}}"#, "option partitionPriorities", ""),
        (r#"{"partitionPriorities": {"p": 1.5}}"#, "the priority of partition p", ""),
        (r#"{"partitionPriorities": {"p": 2147483648}}"#, "the priority of partition p", ""),
        ("[]", "must be a JSON object", ""),
    ] {
        let error = configure(&user, &schema, options).await.expect_err(options);
        let error = error.as_db_error().expect("of the database");
        assert!(error.message().contains(message), "{options}: {error:?}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{options}: {error:?}");
    }
    let queue = QueueName::new("n.q").expect("valid");
    assert_eq!(store.queue(&queue).await.expect("it is read"), None);
}

#[tokio::test]
async fn numbers_with_a_point_are_stored_as_whole_numbers() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let user = schema.client().await;
    let given = r#"{"maxSize": 2.0,
        "partitionPriorities": {"vip": 1.0, "low": -2147483648.00, "a.b,{c}": 3}}"#;
    configure(&user, &schema, given).await.expect("set");
    let queue = QueueName::new("n.q").expect("valid");
    let options = store.queue(&queue).await.expect("it is read").expect("it exists").options;
    assert_eq!(options.len_max, 2);
    let priorities = [("vip", 1), ("low", i32::MIN), ("a.b,{c}", 3)]
        .map(|(name, priority)| (PartitionName::new(name).expect("valid"), priority));
    assert_eq!(options.partition_priorities, priorities.into());
}

#[tokio::test]
async fn callers_that_create_the_same_queue_concurrently_all_succeed() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let watcher = schema.client().await;
    let mut first = schema.client().await;
    let open = first.transaction().await.expect("begun");
    let sql = format!("SELECT {}.configure('n.q', '{{\"leaseTime\": 1}}')", schema.name);
    open.execute(&sql, &[]).await.expect("set");
    let others = ["retryLimit", "retryDelay", "priority", "ttl", "maxSize"].map(async |name| {
        let user = schema.client().await;
        configure(&user, &schema, &format!(r#"{{"{name}": 7}}"#)).await
    });
    let commit = async {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        eventually("all others wait", async || {
            let row = watcher.query_one(sql, &[]).await.expect("read");
            row.get::<_, i64>(0) == 5
        })
        .await;
        open.commit().await.expect("committed");
    };
    let (done, ()) = tokio::join!(join_all(others), commit);
    for done in done {
        done.expect("set");
    }
    let queue = QueueName::new("n.q").expect("valid");
    let options = store.queue(&queue).await.expect("it is read").expect("it exists").options;
    let expected = QueueOptions {
        lease_secs: 1,
        retry_limit: 7,
        retry_delay_ms: 7,
        priority: 7,
        ttl_secs: 7,
        len_max: 7,
        ..QueueOptions::default()
    };
    assert_eq!(options, expected);
}
