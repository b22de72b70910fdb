//! Tests the SQL function `emit`, which sends a webhook as part of the user's own transaction.

use std::time::Duration;

use wakeline_core::{ApplicationId, ApplicationRef, HookChangeKind, HookLine, MessageRef};
use wakeline_postgres::{NotifyMode, PostgresOptions, PostgresStore};
use wakeline_store::hook::{
    EventType, HookApplications, HookEndpoints, HookEventTypes, HookMessageFilter, HookReader,
    HookStore, StoredMessage,
};
use wakeline_testkit::hook_conformance as hook;

use crate::support::{Node, ReceivedHint, TestSchema, eventually};

/// Creates an application `shop` with one ordered endpoint.
async fn shop(store: &PostgresStore) -> ApplicationId {
    let new = hook::application(Some("shop"));
    let id = new.id;
    store.create_application(new, None).await.expect("an application");
    let endpoint = hook::endpoint(hook::fifo(9));
    let of = ApplicationRef::Id(id);
    store.create_endpoint(&of, endpoint, None).await.expect("an endpoint");
    id
}

async fn stored(store: &PostgresStore, application: ApplicationId) -> Vec<StoredMessage> {
    let filter = HookMessageFilter { with_content: true, ..HookMessageFilter::default() };
    let page = store.messages(application, filter, hook::first(100)).await;
    page.expect("messages are read").items
}

/// Claims the next deliveries and returns their payloads, in order.
async fn sent(store: &PostgresStore) -> Vec<String> {
    let claim = hook::push(vec![hook::request(9)]);
    let claimed = store.claim_deliveries(vec![claim]).await.expect("claimed");
    let groups = claimed.into_iter().flat_map(|line| line.groups).flatten();
    let payload = |bytes: Option<bytes::Bytes>| {
        String::from_utf8(bytes.expect("kept").to_vec()).expect("JSON")
    };
    groups.flat_map(|group| group.items).map(|item| payload(item.payload)).collect()
}

async fn refused(schema: &TestSchema) -> Vec<Option<String>> {
    let sql = format!("SELECT refused FROM {}.incoming ORDER BY seq", schema.name);
    let rows = schema.client().await.query(&sql, &[]).await.expect("read");
    rows.iter().map(|row| row.get(0)).collect()
}

fn notifies_senders(received: &ReceivedHint) -> bool {
    match received {
        ReceivedHint::Hook(changes) => {
            changes.iter().any(|change| change.what == HookChangeKind::Push)
        }
        _ => false,
    }
}

#[tokio::test]
async fn an_emit_in_sql_happens_with_its_transaction_and_wakes_a_sender() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let app = shop(&node.store).await;
    let user = schema.client().await;
    let emit = |n: u32| format!("SELECT {}.emit('shop', 'order.paid', '{n}')", schema.name);
    let text = format!("BEGIN; {}; ROLLBACK", emit(0));
    user.batch_execute(&text).await.expect("rolled back");
    let text = format!("BEGIN; {}; {}; {}; COMMIT", emit(3), emit(1), emit(2));
    user.batch_execute(&text).await.expect("committed");
    node.sink.until("senders are notified", notifies_senders).await;
    assert_eq!(stored(&node.store, app).await.len(), 3);
    assert_eq!(sent(&node.store).await, ["3", "1", "2"]);
    eventually("the rows are gone", async || refused(&schema).await.is_empty()).await;
    node.stop().await;
}

#[tokio::test]
async fn an_emit_in_sql_returns_its_id_and_stores_its_arguments() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let app = shop(&node.store).await;
    let sql = format!(
        "SELECT {}.emit($1, 'order.paid', json_build_object('id', 7), 'event-1',
            ARRAY['north', 'p:7'])",
        schema.name
    );
    let user = schema.client().await;
    let by_id = app.to_string();
    let id: String = user.query_one(&sql, &[&by_id]).await.expect("emitted").get(0);
    let again: String = user.query_one(&sql, &[&"shop"]).await.expect("emitted").get(0);
    assert_ne!(id, again);
    let named = MessageRef::parse(&id).expect("an id like any other");
    assert!(matches!(named, MessageRef::Id(_)), "{named:?}");
    eventually("both are taken over", async || {
        !stored(&node.store, app).await.is_empty() && refused(&schema).await.is_empty()
    })
    .await;
    let messages = stored(&node.store, app).await;
    let [message] = &messages[..] else { panic!("its own id is unique: {messages:?}") };
    assert_eq!(message.id.to_string(), id);
    assert_eq!(message.id.0.get_version_num(), 7, "ids begin with the time");
    assert_eq!(message.event_id.as_ref().map(|own| own.as_str()), Some("event-1"));
    assert_eq!(message.channels, hook::channels(&["north", "p:7"]));
    assert_eq!(message.payload.as_deref(), Some(&br#"{"id" : 7}"#[..]));
    node.stop().await;
}

#[tokio::test]
async fn an_emit_to_an_unknown_application_is_quarantined_and_delays_no_other() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let app = shop(&node.store).await;
    let user = schema.client().await;
    for application in ["unknown", "shop"] {
        let emit = format!("SELECT {}.emit('{application}', 'a', to_jsonb(1))", schema.name);
        user.batch_execute(&emit).await.expect("emitted");
    }
    let reason = Some("there is no such application".to_owned());
    eventually("one is stored, one is quarantined", async || {
        stored(&node.store, app).await.len() == 1
            && refused(&schema).await == std::slice::from_ref(&reason)
    })
    .await;
    // The row is repaired manually: the application is created, and the reason is removed.
    node.store.create_application(hook::application(Some("unknown")), None).await.expect("made");
    let repair = format!("UPDATE {}.incoming SET refused = NULL", schema.name);
    user.batch_execute(&repair).await.expect("repaired");
    node.store.sweep_hook(vec![HookLine::Push]).await.expect("swept");
    eventually("it is taken over", async || refused(&schema).await.is_empty()).await;
    node.stop().await;
}

#[tokio::test]
async fn an_emit_that_does_not_match_its_event_type_is_quarantined_and_delays_no_other() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let app = shop(&node.store).await;
    let schemas = Some(br#"{"1": {"type": "object", "required": ["total"]}}"#[..].into());
    let paid = EventType { schemas, enforced: true, ..hook::event_type("order.paid") };
    node.store.put_event_type(paid.clone()).await.expect("put");
    let user = schema.client().await;
    for payload in ["{\"total\": 1}", "{\"secret\": 2}", "{\"total\": 3}"] {
        let emit = format!("SELECT {}.emit('shop', 'order.paid', '{payload}')", schema.name);
        user.batch_execute(&emit).await.expect("emitted");
    }
    eventually("two are stored, one is quarantined", async || {
        stored(&node.store, app).await.len() == 2 && refused(&schema).await.len() == 1
    })
    .await;
    let reason = refused(&schema).await.remove(0).expect("it says why");
    assert!(reason.contains("schema of order.paid") && !reason.contains("secret"), "{reason}");
    assert_eq!(sent(&node.store).await, ["{\"total\": 1}", "{\"total\": 3}"]);
    // The row is repaired manually: the schema is not enforced any more, and the reason is removed.
    node.store.put_event_type(EventType { enforced: false, ..paid }).await.expect("put");
    let repair = format!("UPDATE {}.incoming SET refused = NULL", schema.name);
    user.batch_execute(&repair).await.expect("repaired");
    node.store.sweep_hook(vec![HookLine::Push]).await.expect("swept");
    eventually("it is taken over", async || refused(&schema).await.is_empty()).await;
    assert_eq!(stored(&node.store, app).await.len(), 3);
    node.stop().await;
}

#[tokio::test]
async fn a_payload_beyond_the_limit_fails_in_the_users_transaction() {
    let schema = TestSchema::new().await;
    let _made = schema.store().await;
    let user = schema.client().await;
    let emit = |len: u32| {
        let payload = format!("to_json(repeat('x', {len} - 2))");
        format!("SELECT {}.emit('shop', 'a', {payload})", schema.name)
    };
    user.batch_execute(&emit(1_048_576)).await.expect("emitted");
    let error = user.batch_execute(&emit(1_048_577)).await.expect_err("too much");
    let error = error.as_db_error().expect("the server says so");
    assert_eq!(error.code(), &tokio_postgres::error::SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert!(error.message().contains("1048577 bytes"), "{}", error.message());
    user.batch_execute("SET wakeline.hook_payload_bytes_max = 2000000").await.expect("set");
    user.batch_execute(&emit(2_000_000)).await.expect("emitted");
    user.batch_execute(&emit(2_000_001)).await.expect_err("too much");
    assert_eq!(refused(&schema).await.len(), 2);
}

#[tokio::test]
async fn without_a_notification_a_sweep_of_senders_finds_it() {
    for notify in [NotifyMode::AfterCommit, NotifyMode::Off] {
        let schema = TestSchema::new().await;
        let node = Node::start_unjoined(PostgresOptions { notify, ..schema.options() }).await;
        let app = shop(&node.store).await;
        // The checks at the start of the node are over.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let emit = format!("SELECT {}.emit('shop', 'a', '1', p_notify => false)", schema.name);
        schema.client().await.batch_execute(&emit).await.expect("emitted");
        node.store.sweep_hook(vec![HookLine::Push]).await.expect("swept");
        eventually("it is stored", async || stored(&node.store, app).await.len() == 1).await;
        node.stop().await;
    }
}

#[tokio::test]
async fn senders_that_only_poll_find_it() {
    let schema = TestSchema::new().await;
    let notify = NotifyMode::Off;
    let node = Node::start_unjoined(PostgresOptions { notify, ..schema.options() }).await;
    shop(&node.store).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let emit = format!("SELECT {}.emit('shop', 'a', '1')", schema.name);
    schema.client().await.batch_execute(&emit).await.expect("emitted");
    eventually("a claim leads to it", async || sent(&node.store).await == ["1"]).await;
    node.stop().await;
}

#[tokio::test]
async fn what_could_never_be_emitted_fails_in_the_users_transaction() {
    let schema = TestSchema::new().await;
    let _made = schema.store().await;
    for (arguments, named) in [
        ("'', 'a', '1'", "application"),
        ("NULL, 'a', '1'", "application"),
        ("'a b', 'a', '1'", "application"),
        ("'shop', 'a/b', '1'", "event_type"),
        ("'shop', repeat('a', 257), '1'", "event_type"),
        ("'shop', E'a\\n', '1'", "event_type"),
        ("'shop', 'a', '1', ''", "event_id"),
        ("'shop', 'a', '1', 'msg_' || repeat('0', 22)", "event_id"),
        ("'shop', 'a', '1', NULL, ARRAY['x,y']", "channels"),
        ("'shop', 'a', '1', NULL, ARRAY[NULL]", "channels"),
        ("'shop', 'a', NULL", "payload"),
        ("'shop', 'a', '{broken'", "json"),
    ] {
        let emit = format!("SELECT {}.emit({arguments})", schema.name);
        let error = schema.client().await.batch_execute(&emit).await.expect_err(named);
        let message = error.as_db_error().expect("the server says so").message().to_owned();
        assert!(message.contains(named), "{arguments}: {message}");
    }
}

#[tokio::test]
async fn psql_can_emit() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let app = shop(&node.store).await;
    let psql = std::env::var("WAKELINE_TEST_PSQL").expect("run `cargo xtask test`");
    let emit = format!("SELECT {}.emit('shop', 'order.paid', '{{\"id\": 7}}')", schema.name);
    let psql = std::process::Command::new(psql)
        .args([schema.database.url().as_str(), "-XAtq", "-c", &emit])
        .output()
        .expect("psql runs");
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
    let id = String::from_utf8(psql.stdout).expect("a text");
    eventually("it is stored", async || {
        stored(&node.store, app).await.first().is_some_and(|one| one.id.to_string() == id.trim())
    })
    .await;
    node.stop().await;
}
