//! Tests the SQL function `push`, which pushes a message as part of the user's own transaction.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    GroupName, MessageId, PartitionName, QueueLine, QueueName, QueueOptions, Selector,
    TransactionId,
};
use wakeline_encryption::EncryptionKeys;
use wakeline_postgres::{NotifyMode, PostgresOptions};
use wakeline_store::{
    ConfigureQueue, KeyedStore as _, PushGate, PushItem, QueueAdmin as _, QueueMaintenance as _,
    QueueStore, SetMaintenance, StoreAdmin as _,
};

use crate::support::{Node, SOON, TestSchema, eventually};

async fn payloads(schema: &TestSchema) -> Vec<String> {
    let sql = format!("SELECT payload_text FROM {}.messages ORDER BY message_offset", schema.name);
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
async fn an_open_transaction_that_pushed_delays_no_other_and_order_is_by_commit() {
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
        // The checks at the start of the node are over.
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

#[tokio::test]
async fn payloads_are_json_jsonb_or_text_and_can_be_queried_in_the_view() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let user = schema.client().await;
    for payload in [
        "jsonb_build_object('id', 7)",
        "json_build_object('id', 7)",
        "'{\"id\": 7}'",
        "'{\"id\": 7}'::text",
        "'{\"id\": 7}'::jsonb",
    ] {
        let sql = format!("SELECT wakeline.push('q', {payload}, p_partition => 'p')");
        user.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{payload}: {error}"));
    }
    let value = serde_json::json!({ "id": 7 });
    let sql = "SELECT wakeline.push('q', $1::jsonb)";
    user.query(sql, &[&value]).await.expect("a driver's JSON value");
    // Valid JSON that jsonb cannot hold.
    let odd = r#"SELECT wakeline.push('q', '{"id": "\u0000"}')"#;
    user.batch_execute(odd).await.expect("pushed");
    eventually("all are stored", async || payloads(&schema).await.len() == 7).await;
    let sql = "SELECT payload->>'id' FROM wakeline.messages ORDER BY 1";
    let rows = user.query(sql, &[]).await.expect("read");
    let ids: Vec<Option<&str>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, [[Some("7"); 6].as_slice(), &[None]].concat());
    let refused = user.batch_execute("SELECT wakeline.push('q', 'no JSON')").await;
    assert_eq!(refused.expect_err("refused").code().expect("a state").code(), "22P02");
    node.stop().await;
}

#[tokio::test]
async fn a_push_with_a_delay_is_delivered_later() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let user = schema.client().await;
    let later = "SELECT wakeline.push('q', '{\"id\": 1}', p_delay => interval '1 hour')";
    user.batch_execute(later).await.expect("pushed");
    let soon = "SELECT wakeline.push('q', '2', p_delay => interval '0')";
    user.batch_execute(soon).await.expect("pushed");
    let sql = "SELECT payload->>'id' FROM wakeline.scheduled_messages
        WHERE deliver_at BETWEEN now() + interval '59 min' AND now() + interval '1 hour'";
    eventually("it is scheduled", async || {
        let rows = user.query(sql, &[]).await.expect("read");
        rows.iter().map(|row| row.get::<_, &str>(0)).eq(["1"])
    })
    .await;
    eventually("the other one can be popped", async || {
        !user.query("SELECT FROM wakeline.pop('q')", &[]).await.expect("popped").is_empty()
    })
    .await;
    for delay in ["-1 second", "1000 years"] {
        let sql = format!("SELECT wakeline.push('q', '1', p_delay => interval '{delay}')");
        let refused = user.batch_execute(&sql).await.expect_err("refused");
        assert_eq!(refused.code().expect("a state").code(), "22023", "{delay}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_payload_beyond_the_limit_is_refused_at_once() {
    let schema = TestSchema::new().await;
    let user = schema.client().await;
    let push = |len: usize| format!("SELECT wakeline.push('q', to_json(repeat('x', {len})))");
    // The length includes the quotes.
    let most = 16 * 1024 * 1024 - 2;
    user.batch_execute(&push(most)).await.expect("pushed");
    let refused = user.batch_execute(&push(most + 1)).await.expect_err("refused");
    assert_eq!(refused.code().expect("a state").code(), "54000");
    let lower = format!("SET wakeline.payload_bytes_max = 100; {}", push(99));
    assert!(user.batch_execute(&lower).await.is_err());
}

#[tokio::test]
async fn rows_are_taken_over_in_pieces_of_limited_size() {
    let schema = TestSchema::new().await;
    let user = schema.client().await;
    let push =
        "SELECT wakeline.push('q', to_json(repeat('x', 1048576))) FROM generate_series(1, 20);
        SELECT wakeline.push('q', '\"last\"')";
    user.batch_execute(push).await.expect("pushed");
    let node = Node::start(schema.options()).await;
    let count = "SELECT sum(len)::bigint, max(octet_length(body)) FROM wakeline.segments";
    eventually("all are stored", async || {
        let row = user.query_one(count, &[]).await.expect("read");
        row.get::<_, Option<i64>>(0) == Some(21)
    })
    .await;
    // Rows that are pushed together are stored together.
    let largest: i32 = user.query_one(count, &[]).await.expect("read").get(1);
    assert!(largest < 10 * 1024 * 1024, "{largest}");
    node.stop().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_taken_over_is_quarantined_and_delays_no_other() {
    let schema = TestSchema::new().await;
    let user = schema.client().await;
    // A row that fails in the middle of a batch, for messages and for webhooks.
    let poison = "CREATE FUNCTION wakeline.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF position('poison'::bytea IN NEW.body) > 0 THEN RAISE 'poisoned'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON wakeline.segments
            FOR EACH ROW EXECUTE FUNCTION wakeline.refuse()";
    user.batch_execute(poison).await.expect("prepared");
    let push = "SELECT wakeline.push('q', to_json(
            CASE WHEN n IN (17, 40) THEN 'poison' ELSE n::text END))
        FROM generate_series(1, 50) AS n";
    user.batch_execute(push).await.expect("pushed");
    let node = Node::start(schema.options()).await;
    eventually("all others are stored", async || payloads(&schema).await.len() == 48).await;
    let waiting = "SELECT FROM wakeline.incoming WHERE refused IS NULL";
    eventually("the rest is quarantined", async || {
        user.query(waiting, &[]).await.expect("read").is_empty()
    })
    .await;
    let sql = "SELECT payload::text, refused FROM wakeline.incoming";
    for row in user.query(sql, &[]).await.expect("read") {
        assert_eq!(row.get::<_, &str>(0), "\"poison\"");
        let reason: &str = row.get(1);
        assert!(reason.contains("poisoned"), "{reason}");
    }
    let in_order: Vec<String> =
        (1..=50).filter(|n| ![17, 40].contains(n)).map(|n| format!("\"{n}\"")).collect();
    assert_eq!(payloads(&schema).await, in_order);
    node.stop().await;
}

#[tokio::test]
async fn rows_for_a_queue_that_takes_none_delay_no_other() {
    let schema = TestSchema::new().await;
    let options =
        PostgresOptions { statement_timeout: Duration::from_millis(500), ..schema.options() };
    let node = Node::start(options).await;
    let user = schema.client().await;
    // This node has no encryption keys, and another transaction holds the locks of another queue.
    let keys = EncryptionKeys::generate("k").expect("random");
    let other = schema.store().await;
    other.use_keys(Arc::new(EncryptionKeys::parse(&keys).expect("a key")));
    let options = QueueOptions { encrypted: true, ..QueueOptions::default() };
    let queue = QueueName::new("encrypted").expect("valid");
    let command = ConfigureQueue { queue, namespace: None, task: None, options };
    other.configure(command).await.expect("configured");
    other.close().await;
    user.batch_execute("SELECT wakeline.push('locked', '1')").await.expect("pushed");
    eventually("it is stored", async || payloads(&schema).await.len() == 1).await;
    let locker = schema.client().await;
    locker
        .batch_execute("BEGIN; SELECT FROM wakeline.partitions FOR UPDATE")
        .await
        .expect("locked");

    let push = "SELECT wakeline.push(CASE n % 3 WHEN 0 THEN 'encrypted' WHEN 1 THEN 'locked'
            ELSE 'free' END, to_json(n)) FROM generate_series(0, 29) AS n";
    user.batch_execute(push).await.expect("pushed");
    eventually("the others are stored", async || payloads(&schema).await.len() == 11).await;
    locker.batch_execute("ROLLBACK").await.expect("unlocked");
    eventually("what was locked follows", async || payloads(&schema).await.len() == 21).await;
    let waiting = "SELECT count(*) FROM wakeline.incoming
        WHERE queue = 'encrypted' AND refused IS NULL";
    let waiting: i64 = user.query_one(waiting, &[]).await.expect("read").get(0);
    assert_eq!(waiting, 10, "they wait for a node that has the keys");
    node.stop().await;
}

#[tokio::test]
async fn delayed_rows_wait_for_capacity_like_others() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let user = schema.client().await;
    let options = QueueOptions { len_max: 2, ..QueueOptions::default() };
    let queue = QueueName::new("q").expect("valid");
    let command = ConfigureQueue { queue, namespace: None, task: None, options };
    node.store.configure(command).await.expect("configured");
    let push = "SELECT wakeline.push('q', '1', p_delay => interval '1 day')
        FROM generate_series(1, 5); SELECT wakeline.push('other', '1')";
    user.batch_execute(push).await.expect("pushed");
    eventually("those behind them are stored", async || payloads(&schema).await.len() == 1).await;
    let count = "SELECT count(*) FROM wakeline.scheduled";
    assert_eq!(user.query_one(count, &[]).await.expect("read").get::<_, i64>(0), 2);
    node.stop().await;
}

#[tokio::test]
async fn rows_that_no_consumer_could_read_are_quarantined() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let user = schema.client().await;
    let insert = "SELECT wakeline.push('q', (repeat('[', 200) || repeat(']', 200))::json);
        INSERT INTO wakeline.incoming (application, event_type, message_id, payload, channels)
            VALUES ('ada', 'a.b', gen_random_uuid(), '1', ARRAY[NULL]);
        SELECT wakeline.push('q', '1')";
    user.batch_execute(insert).await.expect("inserted");
    eventually("the last one is stored", async || payloads(&schema).await == ["1"]).await;
    let sql = "SELECT refused FROM wakeline.incoming WHERE refused IS NOT NULL ORDER BY seq";
    let reasons = async || {
        let rows = user.query(sql, &[]).await.expect("read");
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    eventually("the others are quarantined", async || reasons().await.len() == 2).await;
    let reasons = reasons().await;
    assert!(reasons[0].contains("deeper than 128 levels"), "{reasons:?}");
    assert!(reasons[1].contains("channel"), "{reasons:?}");
    node.stop().await;
}
