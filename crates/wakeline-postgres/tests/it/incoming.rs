//! A plain INSERT into `incoming` is a push, under notify = trigger.

use wakeline_core::{
    GroupName, LeaseToken, QueueLine, QueueName, QueueOptions, Selector, Subscription,
};
use wakeline_postgres::{NotifyMode, PostgresOptions, PostgresStore};
use wakeline_store::{ClaimRequest, ConfigureQueue, LineClaim, QueueAdmin, QueueStore, StoreAdmin};

use crate::support::{Node, TestSchema, eventually};

fn with(schema: &TestSchema, notify: NotifyMode) -> PostgresOptions {
    PostgresOptions { notify, ..schema.options() }
}

async fn insert(schema: &TestSchema, columns: &str, values: &str) {
    let sql = format!("INSERT INTO {}.incoming ({columns}) VALUES ({values})", schema.name);
    schema.client().await.batch_execute(&sql).await.expect("inserted");
}

async fn stored(schema: &TestSchema) -> Vec<(String, String, String)> {
    let sql = format!(
        "SELECT queue, partition, payload_text FROM {}.messages
         ORDER BY queue, partition, message_offset",
        schema.name
    );
    let rows = schema.client().await.query(&sql, &[]).await.expect("read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test]
async fn a_plain_insert_wakes_a_waiter() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    insert(&schema, "queue, payload", "'orders', '{\"id\": 7}'").await;
    node.sink.until_changed("orders").await;
    let expected = ("orders".to_owned(), "Default".to_owned(), "{\"id\": 7}".to_owned());
    assert_eq!(stored(&schema).await, [expected]);
    eventually("the row was taken over", async || {
        let sql = format!("SELECT count(*) FROM {}.incoming", schema.name);
        schema.client().await.query_one(&sql, &[]).await.expect("read").get::<_, i64>(0) == 0
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn rows_inserted_while_no_node_ran_are_taken_over_by_the_next() {
    let schema = TestSchema::new().await;
    PostgresStore::connect(with(&schema, NotifyMode::Trigger))
        .await
        .expect("a store")
        .close()
        .await;
    let rows = "queue, partition, transaction_id, payload";
    insert(&schema, rows, "'q', 'a', 't1', '1'").await;
    insert(&schema, rows, "'q', 'a', 't1', '\"the same again\"'").await;
    insert(&schema, rows, "'q', 'a', 't2', '2'").await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    node.sink.until_changed("q").await;
    let row = |payload: &str| ("q".to_owned(), "a".to_owned(), payload.to_owned());
    assert_eq!(stored(&schema).await, [row("1"), row("2")]);
    node.stop().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_pushed_is_quarantined_and_delays_no_other() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    insert(&schema, "queue, payload", "'', '1'").await;
    insert(&schema, "queue, payload", "'good', '2'").await;
    node.sink.until_changed("good").await;
    eventually("the bad row has its reason", async || {
        let sql = format!("SELECT refused FROM {}.incoming", schema.name);
        let rows = schema.client().await.query(&sql, &[]).await.expect("read");
        let refused: Vec<Option<String>> = rows.iter().map(|row| row.get(0)).collect();
        refused == [Some("queue must not be empty".to_owned())]
    })
    .await;
    node.stop().await;
}

async fn configure(node: &Node, queue: &str, options: QueueOptions) {
    let queue = QueueName::new(queue).expect("valid");
    let command = ConfigureQueue { queue, namespace: None, task: None, options };
    node.store.configure(command).await.expect("configured");
}

#[tokio::test]
async fn rows_for_a_full_queue_wait_in_order_and_delay_no_other() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    configure(&node, "full", QueueOptions { len_max: 2, ..QueueOptions::default() }).await;
    insert(&schema, "queue, payload", "'full', '1'), ('full', '2'), ('full', '3'), ('full', '4'")
        .await;
    insert(&schema, "queue, payload", "'other', '5'").await;
    node.sink.until_changed("other").await;
    let row =
        |queue: &str, payload: &str| (queue.to_owned(), "Default".to_owned(), payload.to_owned());
    assert_eq!(stored(&schema).await, [row("full", "1"), row("full", "2"), row("other", "5")]);
    let line = QueueLine {
        selector: Selector::Queue(QueueName::new("full").expect("valid")),
        group: GroupName::queue_mode(),
    };
    let request = ClaimRequest {
        token: LeaseToken::generate(),
        batch_len_max: 2,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: true,
        worker: None,
    };
    let claim = LineClaim {
        line,
        subscription: Subscription::All,
        requests: vec![request],
        further: false,
    };
    node.store.claim(vec![claim]).await.expect("claimed");
    let all = ["1", "2", "3", "4"].map(|payload| row("full", payload));
    eventually("the others follow", async || stored(&schema).await.starts_with(&all)).await;
    node.stop().await;
}

#[tokio::test]
async fn rows_without_a_partition_go_to_lanes() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    configure(&node, "laned", QueueOptions { lanes: 4, ..QueueOptions::default() }).await;
    insert(&schema, "queue, payload", "'laned', '1'").await;
    insert(&schema, "queue, partition, payload", "'laned', 'mine', '2'").await;
    eventually("both are stored", async || {
        let stored = stored(&schema).await;
        let places: Vec<&str> = stored.iter().map(|(_, partition, _)| partition.as_str()).collect();
        places.len() == 2 && places[0].starts_with("lane-000") && places[1] == "mine"
    })
    .await;
    node.stop().await;
}
