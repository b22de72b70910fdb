//! The SQL function `push`: a message as part of the user's own transaction.

use std::time::Duration;

use wakeline_core::{
    GroupName, MessageId, PartitionName, QueueLine, QueueName, Selector, TransactionId,
};
use wakeline_postgres::{NotifyMode, PostgresOptions};
use wakeline_store::{PushGate, PushItem, QueueMaintenance as _, QueueStore, SetMaintenance};

use crate::support::{Node, SOON, TestSchema, eventually};

async fn payloads(schema: &TestSchema) -> Vec<String> {
    let sql = format!("SELECT payload FROM {}.messages ORDER BY message_offset", schema.name);
    let rows = schema.client().await.query(&sql, &[]).await.expect("read");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_push_in_sql_happens_with_its_transaction_and_wakes_a_waiter() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let user = schema.client().await;
    let push = format!("SELECT {}.push('orders', json_build_object('id', 7))", schema.name);
    user.batch_execute(&format!("BEGIN; {push}; ROLLBACK")).await.expect("rolled back");
    user.batch_execute(&format!("BEGIN; {push}; {push}; COMMIT")).await.expect("committed");
    node.sink.until_changed("orders").await;
    eventually("both are stored", async || payloads(&schema).await.len() == 2).await;
    assert_eq!(payloads(&schema).await, [r#"{"id" : 7}"#, r#"{"id" : 7}"#]);
    node.stop().await;
}

#[tokio::test]
async fn an_open_transaction_that_pushed_holds_up_nobody_and_order_is_by_commit() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let user = schema.client().await;
    let push = format!("BEGIN; SELECT {}.push('q', '\"sql\"', 'p')", schema.name);
    user.batch_execute(&push).await.expect("pushed, not committed");
    let item = PushItem {
        queue: QueueName::new("q").expect("valid"),
        partition: PartitionName::new("p").expect("valid"),
        id: MessageId::generate(),
        transaction_id: TransactionId::generate(),
        trace_id: None,
        payload: "\"node\"".into(),
        producer: None,
    };
    let pushed = tokio::time::timeout(SOON, node.store.push(vec![item])).await;
    pushed.expect("not held up by the open transaction").expect("pushed");
    assert_eq!(payloads(&schema).await, ["\"node\""]);
    user.batch_execute("COMMIT").await.expect("committed");
    eventually("it came after", async || payloads(&schema).await == ["\"node\"", "\"sql\""]).await;
    node.stop().await;
}

#[tokio::test]
async fn without_a_notification_the_sweep_finds_it() {
    for notify in [NotifyMode::AfterCommit, NotifyMode::Off] {
        let schema = TestSchema::new().await;
        let node = Node::start_unjoined(PostgresOptions { notify, ..schema.options() }).await;
        // What the start itself looks for is over.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let push = format!("SELECT {}.push('q', '1', p_notify => false)", schema.name);
        schema.client().await.batch_execute(&push).await.expect("pushed");
        let selector = Selector::Queue(QueueName::new("q").expect("valid"));
        let line = QueueLine { selector, group: GroupName::queue_mode() };
        node.store.sweep(vec![line]).await.expect("swept");
        eventually("it is stored", async || payloads(&schema).await == ["1"]).await;
        node.stop().await;
    }
}

#[tokio::test]
async fn a_push_in_sql_is_held_back_or_waits_during_a_maintenance() {
    for (gate, held) in [(PushGate::Hold, 2), (PushGate::Refuse, 0)] {
        let schema = TestSchema::new().await;
        let node = Node::start(schema.options()).await;
        let set = async |gate| {
            let set = SetMaintenance { pushes: Some(gate), ..SetMaintenance::default() };
            node.store.set_maintenance(set).await.expect("set");
        };
        let user = schema.client().await;
        let push = async |queue: &str, payload: u32| {
            let push = format!("SELECT {}.push('{queue}', '{payload}')", schema.name);
            user.batch_execute(&push).await.expect("it is the user's own transaction");
        };
        push("q", 1).await;
        eventually("it is stored", async || payloads(&schema).await == ["1"]).await;
        set(gate).await;
        push("q", 2).await;
        push("new", 3).await;
        eventually("it is held back, or waits", async || {
            let sql = format!("SELECT count(*) FROM {}.incoming", schema.name);
            let waits: i64 = user.query_one(&sql, &[]).await.expect("read").get(0);
            let now = node.store.held_messages().await.expect("counted");
            (waits, now) == (2 - i64::try_from(held).expect("small"), held)
        })
        .await;
        assert_eq!(payloads(&schema).await, ["1"], "{gate:?}");
        set(PushGate::Open).await;
        while node.store.release_held().await.expect("released") > 0 {}
        eventually("all are stored", async || {
            let mut all = payloads(&schema).await;
            all.sort();
            all == ["1", "2", "3"]
        })
        .await;
        node.stop().await;
    }
}

#[tokio::test]
async fn what_could_never_be_stored_fails_in_the_users_transaction() {
    let schema = TestSchema::new().await;
    let _made = schema.store().await;
    for (arguments, named) in [
        ("'', '1'", "queue"),
        ("repeat('x', 256), '1'", "queue"),
        ("'q', '1', E'a\\nb'", "partition"),
        ("'q', '1', 'p', ''", "transaction_id"),
        ("NULL, '1'", "queue"),
        ("'q', NULL", "payload"),
        ("'q', '{broken'", "json"),
    ] {
        let push = format!("SELECT {}.push({arguments})", schema.name);
        let error = schema.client().await.batch_execute(&push).await.expect_err(named);
        let message = error.as_db_error().expect("the server says so").message().to_owned();
        assert!(message.contains(named), "{arguments}: {message}");
    }
}
