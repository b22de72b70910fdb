//! Checks the bytes that encrypted queues store in the tables.

use std::sync::Arc;

use async_trait::async_trait;
use wakeline_core::{QueueName, QueueOptions};
use wakeline_encryption::EncryptionKeys;
use wakeline_store::{
    Backend, ConfigureQueue, EncryptedKind, KeyedStore as _, QueueAdmin as _, QueueStore as _,
    StoreAdmin as _,
};
use wakeline_testkit::conformance::item;
use wakeline_testkit::keyed::KeyedUnderTest;

use crate::support::{Node, TestSchema, eventually};

#[async_trait]
impl KeyedUnderTest for TestSchema {
    async fn open(&self) -> Arc<dyn Backend> {
        Arc::new(self.store().await)
    }

    async fn payloads(&self) -> Vec<Vec<u8>> {
        let sql = format!(
            "SELECT substring(s.body FROM coalesce(s.ends[n - 1], 0) + 1
                FOR s.ends[n] - coalesce(s.ends[n - 1], 0))
             FROM {0}.segments s CROSS JOIN LATERAL generate_series(1, s.len) n
             UNION ALL SELECT payload FROM {0}.dead_letters
             UNION ALL SELECT data FROM {0}.traces",
            self.name
        );
        let rows = self.client().await.query(&sql, &[]).await.expect("read");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

wakeline_testkit::keyed_suite!(TestSchema::new().await);

/// A message that arrives by SQL is encrypted when a node takes it over, and the view shows no
/// payload.
#[tokio::test]
async fn messages_that_arrive_by_sql_are_encrypted() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let key = EncryptionKeys::generate("k").expect("random");
    node.store.use_keys(Arc::new(EncryptionKeys::parse(&key).expect("a key")));
    let options = QueueOptions { encrypted: true, ..QueueOptions::default() };
    let queue = QueueName::new("vault").expect("valid");
    let command = ConfigureQueue { queue, namespace: None, task: None, options };
    node.store.configure(command).await.expect("configured");
    let sql = format!("SELECT {}.push('vault', '\"the-secret\"')", schema.name);
    schema.client().await.batch_execute(&sql).await.expect("pushed");
    eventually("it was taken over", async || schema.payloads().await.len() == 1).await;
    let stored = schema.payloads().await.remove(0);
    assert!(!stored.windows(6).any(|part| part == b"secret"));
    let sql = format!("SELECT payload_text, encrypted FROM {}.messages", schema.name);
    let row = schema.client().await.query_one(&sql, &[]).await.expect("read");
    assert_eq!((row.get::<_, Option<String>>(0), row.get::<_, bool>(1)), (None, true));
    node.stop().await;
}

/// A segment that is shortened between reading and replacing it is read again. Otherwise its
/// messages would be lost with the old key.
#[tokio::test]
async fn the_rest_of_a_shortened_segment_is_encrypted_again_too() {
    let schema = TestSchema::new().await;
    let [old, new] = ["old", "new"].map(|id| EncryptionKeys::generate(id).expect("random"));
    let store = schema.store().await;
    store.use_keys(Arc::new(EncryptionKeys::parse(&old).expect("a key")));
    let options = QueueOptions { encrypted: true, ..QueueOptions::default() };
    let queue = QueueName::new("vault").expect("valid");
    let command = ConfigureQueue { queue: queue.clone(), namespace: None, task: None, options };
    store.configure(command).await.expect("configured");
    let items = ["1", "2", "3"].map(|id| item(&queue, "p", id));
    store.push(items.into()).await.expect("pushed");
    store.close().await;

    let store = schema.store().await;
    store.use_keys(Arc::new(EncryptionKeys::parse(&format!("{new},{old}")).expect("keys")));
    let deleting = schema.client().await;
    let sql = format!(
        "BEGIN; SELECT d.* FROM {}.partitions p, {}.message_delete(p.partition_id, '2') d
         WHERE p.name = 'p'",
        schema.name,
        schema.functions().await
    );
    deleting.batch_execute(&sql).await.expect("deleted, and not yet committed");
    let waits = format!(
        "SELECT EXISTS (SELECT FROM pg_stat_activity
         WHERE wait_event_type = 'Lock' AND query LIKE '%{}%.segments SET body%')",
        schema.name
    );
    let (first, ()) = tokio::join!(store.rekey(EncryptedKind::Messages, None), async {
        let watching = schema.client().await;
        eventually("it waits", async || {
            watching.query_one(&waits, &[]).await.expect("read").get(0)
        })
        .await;
        deleting.batch_execute("COMMIT").await.expect("committed");
    });
    let mut step = first.expect("a step");
    let mut reencrypted = step.reencrypted;
    while let Some(after) = step.next {
        step = store.rekey(EncryptedKind::Messages, Some(after)).await.expect("a step");
        reencrypted += step.reencrypted;
    }
    assert_eq!(reencrypted, 2, "the segments before and behind the gap");
    let again = store.rekey(EncryptedKind::Messages, None).await.expect("a step");
    assert_eq!(again.reencrypted, 0);
    store.close().await;
}
