//! Encrypted queues, by the bytes in the tables.

use std::sync::Arc;

use async_trait::async_trait;
use wakeline_core::{QueueName, QueueOptions};
use wakeline_seal::KeyRing;
use wakeline_store::{
    ConfigureQueue, KeyedStore as _, QueueAdmin as _, QueueStore as _, SealedKind, StoreAdmin as _,
    WholeStore,
};
use wakeline_testkit::conformance::item;
use wakeline_testkit::keyed::KeyedUnderTest;

use crate::support::{Node, TestSchema, eventually};

#[async_trait]
impl KeyedUnderTest for TestSchema {
    async fn open(&self) -> Arc<dyn WholeStore> {
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

/// What arrives by SQL is sealed when a node takes it over, and the view shows no payload.
#[tokio::test]
async fn messages_that_arrive_by_sql_are_sealed() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let key = KeyRing::generate("k").expect("random");
    node.store.use_keys(Arc::new(KeyRing::parse(&key).expect("a key")));
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

/// A segment that is shortened between being read and being replaced is read again: otherwise its
/// messages would be lost with the old key.
#[tokio::test]
async fn what_is_left_of_a_segment_is_sealed_anew_too() {
    let schema = TestSchema::new().await;
    let [old, new] = ["old", "new"].map(|id| KeyRing::generate(id).expect("random"));
    let store = schema.store().await;
    store.use_keys(Arc::new(KeyRing::parse(&old).expect("a key")));
    let options = QueueOptions { encrypted: true, ..QueueOptions::default() };
    let queue = QueueName::new("vault").expect("valid");
    let command = ConfigureQueue { queue: queue.clone(), namespace: None, task: None, options };
    store.configure(command).await.expect("configured");
    let items = ["1", "2", "3"].map(|id| item(&queue, "p", id));
    store.push(items.into()).await.expect("pushed");
    store.close().await;

    let store = schema.store().await;
    store.use_keys(Arc::new(KeyRing::parse(&format!("{new},{old}")).expect("keys")));
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
    let (first, ()) = tokio::join!(store.rekey(SealedKind::Messages, None), async {
        let watching = schema.client().await;
        eventually("it waits", async || {
            watching.query_one(&waits, &[]).await.expect("read").get(0)
        })
        .await;
        deleting.batch_execute("COMMIT").await.expect("committed");
    });
    let mut step = first.expect("a step");
    let mut resealed = step.resealed;
    while let Some(after) = step.next {
        step = store.rekey(SealedKind::Messages, Some(after)).await.expect("a step");
        resealed += step.resealed;
    }
    assert_eq!(resealed, 2, "the segments before and behind the gap");
    let again = store.rekey(SealedKind::Messages, None).await.expect("a step");
    assert_eq!(again.resealed, 0);
    store.close().await;
}
