//! Tests the SQL functions `pop` and `ack`, which consume messages in the user's own transaction.

use tokio_postgres::{Client, Row};
use wakeline_core::{
    GroupName, LeaseToken, MessageId, PartitionName, QueueLine, QueueName, QueueOptions, Selector,
    Subscription, TransactionId,
};
use wakeline_store::{
    ClaimRequest, ConfigureQueue, LineClaim, LineOutcome, PushItem, QueueAdmin as _, QueueStore,
};

use crate::support::{Node, SOON, TestSchema};

fn queue() -> QueueName {
    QueueName::new("q").expect("valid")
}

fn item(partition: &str, txn: &str) -> PushItem {
    PushItem {
        queue: queue(),
        partition: PartitionName::new(partition).expect("valid"),
        id: MessageId::generate(),
        transaction_id: TransactionId::new(txn).expect("valid"),
        trace_id: None,
        payload: format!("{{\"of\":\"{txn}\"}}").into(),
        producer: Some("me".to_owned()),
    }
}

async fn pop(user: &Client, schema: &TestSchema, arguments: &str) -> Vec<Row> {
    let sql = format!(
        "SELECT message_id, transaction_id, queue, partition, partition_id, message_offset,
             attempt, payload->>'of' AS of, trace_id, producer, lease_token,
             lease_until > now() AS leased
         FROM {}.pop({arguments})",
        schema.name
    );
    user.query(&sql, &[]).await.expect("popped")
}

fn ids(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.get("transaction_id")).collect()
}

async fn ack(
    user: &Client,
    schema: &TestSchema,
    row: &Row,
    more: &str,
) -> Result<(), tokio_postgres::Error> {
    let (partition, txn, token): (i64, String, uuid::Uuid) =
        (row.get("partition_id"), row.get("transaction_id"), row.get("lease_token"));
    let sql = format!("SELECT {}.ack({partition}, '{txn}', '{token}'{more})", schema.name);
    user.batch_execute(&sql).await
}

async fn claim(node: &Node) -> LineOutcome {
    let request = ClaimRequest {
        token: LeaseToken::generate(),
        batch_len_max: 10,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: false,
        worker: None,
    };
    let line = QueueLine { selector: Selector::Queue(queue()), group: GroupName::queue_mode() };
    let claim = LineClaim {
        line,
        subscription: Subscription::All,
        requests: vec![request],
        further: false,
    };
    node.store.claim(vec![claim]).await.expect("claimed").remove(0)
}

async fn configure(node: &Node, options: QueueOptions) {
    let command = ConfigureQueue { queue: queue(), namespace: None, task: None, options };
    node.store.configure(command).await.expect("configured");
}

fn claimed(outcome: &LineOutcome) -> Vec<String> {
    let partitions = outcome.results[0].iter().flat_map(|result| &result.partitions);
    let messages = partitions.flat_map(|partition| &partition.messages);
    messages.map(|message| message.transaction_id.as_str().to_owned()).collect()
}

#[tokio::test]
async fn what_is_popped_and_acked_goes_with_the_transaction() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    configure(&node, QueueOptions { retry_delay_ms: 0, ..QueueOptions::default() }).await;
    node.store.push(vec![item("p", "1"), item("p", "2"), item("p", "3")]).await.expect("pushed");
    let user = schema.client().await;
    user.batch_execute("BEGIN").await.expect("begun");
    let rows = pop(&user, &schema, "'q', 2").await;
    assert_eq!(ids(&rows), ["1", "2"]);
    let row = &rows[0];
    assert_eq!((row.get::<_, &str>("partition"), row.get::<_, i64>("message_offset")), ("p", 0));
    assert_eq!((row.get::<_, i32>("attempt"), row.get::<_, &str>("of")), (1, "1"));
    assert_eq!((row.get::<_, &str>("producer"), row.get::<_, bool>("leased")), ("me", true));
    ack(&user, &schema, row, "").await.expect("acked");
    user.batch_execute("ROLLBACK").await.expect("rolled back");

    user.batch_execute("BEGIN").await.expect("begun");
    let rows = pop(&user, &schema, "'q', 2").await;
    assert_eq!(ids(&rows), ["1", "2"], "the rollback gave them back");
    ack(&user, &schema, &rows[0], "").await.expect("acked");
    ack(&user, &schema, &rows[1], ", 'failed', 'no luck'").await.expect("failed");
    user.batch_execute("COMMIT").await.expect("committed");
    let rows = pop(&user, &schema, "'q', 10").await;
    assert_eq!(ids(&rows), ["2", "3"]);
    assert_eq!(rows[0].get::<_, i32>("attempt"), 2);
    assert_eq!(rows[1].get::<_, i32>("attempt"), 1);
    node.stop().await;
}

#[tokio::test]
async fn a_lost_lease_fails_the_users_transaction() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    node.store.push(vec![item("p", "1"), item("p", "2")]).await.expect("pushed");
    let user = schema.client().await;
    let rows = pop(&user, &schema, "'q', 2").await;
    ack(&user, &schema, &rows[0], "").await.expect("acked");
    let again = ack(&user, &schema, &rows[0], "").await.expect_err("it is settled");
    assert_eq!(again.code().expect("a state").code(), "P0002");
    ack(&user, &schema, &rows[1], "").await.expect("acked");
    let over = ack(&user, &schema, &rows[1], "").await.expect_err("the lease is over");
    assert_eq!(over.code().expect("a state").code(), "55000");
    let wrong = ack(&user, &schema, &rows[1], ", 'done'").await.expect_err("no such status");
    assert!(wrong.as_db_error().expect("the server").message().contains("status"), "{wrong}");
    node.stop().await;
}

#[tokio::test]
async fn an_open_transaction_that_popped_delays_neither_pushes_nor_other_partitions() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    node.store.push(vec![item("a", "1")]).await.expect("pushed");
    node.store.push(vec![item("b", "2")]).await.expect("pushed");
    let user = schema.client().await;
    // The group exists already.
    assert!(pop(&user, &schema, "'q', 1, 'empty'").await.is_empty());
    user.batch_execute("BEGIN").await.expect("begun");
    // All messages of its partition, so that a node would put the cursor to sleep.
    let rows = pop(&user, &schema, "'q', 10").await;
    assert_eq!(ids(&rows), ["1"]);
    ack(&user, &schema, &rows[0], "").await.expect("acked");
    let pushed = tokio::time::timeout(SOON, node.store.push(vec![item("a", "3")])).await;
    pushed.expect("not held up by the open transaction").expect("pushed");
    let taken = tokio::time::timeout(SOON, claim(&node)).await.expect("not held up");
    assert_eq!(claimed(&taken), ["2"]);
    user.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(claimed(&claim(&node).await), ["3"]);
    node.stop().await;
}

#[tokio::test]
async fn nodes_are_notified_of_messages_after_an_ack_and_of_the_end_of_a_lease() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    node.store.push(vec![item("p", "1"), item("p", "2")]).await.expect("pushed");
    let user = schema.client().await;
    node.sink.take();
    let rows = pop(&user, &schema, "'q'").await;
    node.sink.until_changed("q").await;
    node.sink.take();
    ack(&user, &schema, &rows[0], "").await.expect("acked");
    node.sink.until_changed("q").await;
    assert_eq!(claimed(&claim(&node).await), ["2"]);
    node.stop().await;
}

#[tokio::test]
async fn groups_begin_with_their_first_pop_and_read_by_themselves() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    node.store.push(vec![item("a", "1"), item("b", "2")]).await.expect("pushed");
    let user = schema.client().await;
    let rows = pop(&user, &schema, "'q', 10, p_group => 'g', p_partitions => 2").await;
    let mut all = ids(&rows);
    all.sort();
    assert_eq!(all, ["1", "2"]);
    for row in &rows {
        ack(&user, &schema, row, ", p_group => 'g'").await.expect("acked");
    }
    assert_eq!(ids(&pop(&user, &schema, "'q', 10, 'b'").await), ["2"], "another group's");
    assert!(pop(&user, &schema, "'nothing of that name'").await.is_empty());
    for (arguments, named) in
        [("NULL", "queue"), ("'q', 0", "batch"), ("'q', 1, NULL, '', 1", "group")]
    {
        let sql = format!("SELECT * FROM {}.pop({arguments})", schema.name);
        let error = user.batch_execute(&sql).await.expect_err(named);
        let message = error.as_db_error().expect("the server").message().to_owned();
        assert!(message.contains(named), "{arguments}: {message}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_role_needs_the_right_to_execute_and_no_other() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    node.store.push(vec![item("p", "1")]).await.expect("pushed");
    // Only a superuser may create a role and act as it.
    let (owner, superuser) = (schema.client().await, schema.database.superuser().await);
    let role = format!("r_{}", schema.database.name());
    superuser.batch_execute(&format!("CREATE ROLE {role}")).await.expect("made");
    let usage = format!("GRANT USAGE ON SCHEMA {} TO {role}", schema.name);
    owner.batch_execute(&usage).await.expect("executed");
    let user = schema.database.superuser().await;
    user.batch_execute(&format!("SET ROLE {role}")).await.expect("changed");
    let sql = format!("SELECT * FROM {}.pop('q')", schema.name);
    let refused = user.batch_execute(&sql).await.expect_err("it may not");
    assert_eq!(refused.code().expect("a state").code(), "42501");
    let grant = format!("GRANT EXECUTE ON FUNCTION {0}.pop, {0}.ack TO {role}", schema.name);
    owner.batch_execute(&grant).await.expect("executed");
    let rows = pop(&user, &schema, "'q'").await;
    ack(&user, &schema, &rows[0], "").await.expect("acked");
    drop(user);
    let unmake = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    superuser.batch_execute(&unmake).await.expect("removed");
    node.stop().await;
}

#[tokio::test]
async fn views_show_queues_groups_and_dead_letters() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    configure(&node, QueueOptions { retry_limit: 0, ..QueueOptions::default() }).await;
    node.store.push(vec![item("p", "1"), item("p", "2")]).await.expect("pushed");
    let user = schema.client().await;
    let rows = pop(&user, &schema, "'q'").await;
    ack(&user, &schema, &rows[0], ", 'failed', 'no luck'").await.expect("failed");
    let sql = format!(
        "SELECT o.partitions, o.pushed, o.dead_letters, g.subscription, g.lag, d.transaction_id,
             d.payload->>'of', d.error
         FROM {0}.queue_overview o JOIN {0}.consumer_groups g USING (queue)
         JOIN {0}.dead_letter_messages d USING (queue)",
        schema.name
    );
    let row = user.query_one(&sql, &[]).await.expect("read");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)), (2, 2, 1));
    assert_eq!((row.get::<_, &str>(3), row.get::<_, i64>(4)), ("all", 1));
    assert_eq!((row.get::<_, &str>(5), row.get::<_, &str>(7)), ("1", "no luck"));
    assert_eq!(row.get::<_, &str>(6), "1");
    node.stop().await;
}
