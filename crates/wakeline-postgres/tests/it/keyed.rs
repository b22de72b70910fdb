//! Encrypted queues, by the bytes in the tables.

use std::sync::Arc;

use async_trait::async_trait;
use wakeline_core::{QueueName, QueueOptions};
use wakeline_seal::KeyRing;
use wakeline_store::{ConfigureQueue, KeyedStore as _, QueueAdmin as _, WholeStore};
use wakeline_testkit::keyed::KeyedUnderTest;

use crate::support::{Node, TestSchema, client, eventually};

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
        let rows = client().await.query(&sql, &[]).await.expect("read");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

wakeline_testkit::keyed_suite!(TestSchema::new());

/// What arrives by SQL is sealed when a node takes it over, and the view shows no payload.
#[tokio::test]
async fn messages_that_arrive_by_sql_are_sealed() {
    let schema = TestSchema::new();
    let node = Node::start(schema.options()).await;
    let key = KeyRing::generate("k").expect("random");
    node.store.use_keys(Arc::new(KeyRing::parse(&key).expect("a key")));
    let options = QueueOptions { encrypted: true, ..QueueOptions::default() };
    let queue = QueueName::new("vault").expect("valid");
    let command = ConfigureQueue { queue, namespace: None, task: None, options };
    node.store.configure(command).await.expect("configured");
    let sql = format!("SELECT {}.push('vault', '\"the-secret\"')", schema.name);
    client().await.batch_execute(&sql).await.expect("pushed");
    eventually("it was taken over", async || schema.payloads().await.len() == 1).await;
    let stored = schema.payloads().await.remove(0);
    assert!(!stored.windows(6).any(|part| part == b"secret"));
    let sql = format!("SELECT payload, encrypted FROM {}.messages", schema.name);
    let row = client().await.query_one(&sql, &[]).await.expect("read");
    assert_eq!((row.get::<_, Option<String>>(0), row.get::<_, bool>(1)), (None, true));
    node.stop().await;
}
