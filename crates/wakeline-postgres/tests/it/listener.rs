//! Hints between nodes: nodes join, lose their connections, and reconnect.

use std::time::Duration;

use wakeline_core::PartitionName;
use wakeline_postgres::{NotifyMode, PostgresOptions};
use wakeline_store::{QueueStore, StoreAdmin};

use crate::support::{Node, Proxy, ReceivedHint, TestSchema, change, eventually};

/// Counts the connections that listen to a schema.
async fn listeners(schema: &TestSchema) -> i64 {
    let listen = format!("%LISTEN {}%", channel(schema).await);
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE $1";
    schema.client().await.query_one(sql, &[&listen]).await.expect("read").get(0)
}

/// Returns the channel of a schema as its functions compute it.
async fn channel(schema: &TestSchema) -> String {
    let sql = "SELECT substring(prosrc FROM 'wakeline_[0-9a-f]{16}') FROM pg_proc \
               WHERE pronamespace = $1::text::regnamespace AND proname = 'notify_incoming'";
    schema.client().await.query_one(sql, &[&schema.name]).await.expect("read").get(0)
}

async fn nodes(schema: &TestSchema) -> i64 {
    let sql = format!("SELECT count(*) FROM {}.nodes", schema.name);
    schema.client().await.query_one(&sql, &[]).await.expect("read").get(0)
}

/// Waits until a node knows this many others.
async fn knows(node: &Node, others: usize) {
    eventually("it knows the others", async || node.store.peers() == Some(others)).await;
}

async fn two_nodes(schema: &TestSchema) -> (Node, Node) {
    let (a, b) = (Node::start(schema.options()).await, Node::start(schema.options()).await);
    knows(&a, 1).await;
    knows(&b, 1).await;
    (a, b)
}

#[tokio::test]
async fn a_hint_reaches_the_other_node_and_not_its_sender() {
    let schema = TestSchema::new().await;
    let (a, b) = two_nodes(&schema).await;
    let mut sent = change("n.t");
    sent.partition = PartitionName::new("p:1").ok();
    sent.due_in = Duration::ZERO;
    a.store.notify(std::slice::from_ref(&sent));
    b.sink.until_changed("n.t").await;
    assert_eq!(b.sink.take(), [ReceivedHint::Changed(vec![sent])]);
    // On a's connection, the answer of b arrives after a's own hint.
    b.store.notify(&[change("back")]);
    a.sink.until_changed("back").await;
    assert_eq!(a.sink.take(), [ReceivedHint::Changed(vec![change("back")])]);
    a.stop().await;
    b.stop().await;
}

/// Other nodes wake their waiters when the work becomes due, so a hint contains the due time.
#[tokio::test]
async fn a_later_due_time_travels_with_the_hint() {
    let schema = TestSchema::new().await;
    let (a, b) = two_nodes(&schema).await;
    let mut later = change("q");
    later.due_in = Duration::from_secs(60);
    a.store.notify(&[later]);
    b.sink.until_changed("q").await;
    let received = b.sink.take();
    let [ReceivedHint::Changed(changes)] = received.as_slice() else { panic!("{received:?}") };
    assert!(changes[0].due_in > Duration::from_secs(50), "{changes:?}");
    assert!(changes[0].due_in <= Duration::from_secs(60), "{changes:?}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn nothing_is_sent_while_no_other_node_listens_and_nothing_is_missed() {
    let schema = TestSchema::new().await;
    let a = Node::start(schema.options()).await;
    for n in 0..10 {
        a.store.notify(&[change(&format!("q{n}"))]);
    }
    // Joining does not wait for other nodes, so a sends a hint for everything when b says hello.
    let b = Node::start(schema.options()).await;
    b.sink.until("a's everything", |received| *received == ReceivedHint::Everything).await;
    eventually("a has counted it", async || a.store.notifies_sent() == 1).await;
    // At a second hello no hints were omitted.
    let c = Node::start(schema.options()).await;
    knows(&a, 2).await;
    a.store.notify(&[change("now")]);
    b.sink.until_changed("now").await;
    c.sink.until_changed("now").await;
    eventually("a has counted it", async || a.store.notifies_sent() >= 2).await;
    assert_eq!(a.store.notifies_sent(), 2);
    assert_eq!(c.sink.all().len(), 1, "{:?}", c.sink.all());
    for node in [a, b, c] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_node_whose_listener_does_not_run_still_notifies_others() {
    let schema = TestSchema::new().await;
    let writer = schema.store().await;
    writer.notify(&[change("unheard")]);
    let b = Node::start(schema.options()).await;
    writer.notify(&[change("received")]);
    b.sink.until_changed("received").await;
    writer.close().await;
    assert_eq!(writer.notifies_sent(), 1, "the first had no one to go to");
    b.stop().await;
}

#[tokio::test]
async fn a_burst_of_hints_is_sent_as_a_few_notifications() {
    let schema = TestSchema::new().await;
    let mut options = schema.options();
    options.timings.coalesce = Duration::from_millis(200);
    let (a, b) = (Node::start(options).await, Node::start(schema.options()).await);
    knows(&a, 1).await;
    for n in 0..100 {
        a.store.notify(&[change(&format!("q{n}"))]);
        tokio::task::yield_now().await;
    }
    b.sink.until_changed("q99").await;
    let received: usize = b
        .sink
        .take()
        .iter()
        .map(|received| match received {
            ReceivedHint::Changed(changes) => changes.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(received, 100);
    assert!(a.store.notifies_sent() <= 3, "{} sent", a.store.notifies_sent());
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_cut_connection_comes_back_and_wakes_everything() {
    let schema = TestSchema::new().await;
    let proxy = Proxy::start().await;
    let options =
        PostgresOptions { listen_url: Some(proxy.url(&schema.database.url())), ..schema.options() };
    let (a, b) = (Node::start(schema.options()).await, Node::start(options).await);
    knows(&a, 1).await;
    proxy.refuse();
    proxy.cut();
    b.sink.until("down", |received| *received == ReceivedHint::Down).await;
    a.store.notify(&[change("lost")]);
    proxy.pass();
    b.sink.until_joined().await;
    assert_eq!(b.sink.take(), [ReceivedHint::Down, ReceivedHint::Up, ReceivedHint::Everything]);
    a.store.notify(&[change("after")]);
    b.sink.until_changed("after").await;
    assert_eq!(nodes(&schema).await, 2, "the same node came back");
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_black_hole_is_noticed_without_any_statement() {
    let schema = TestSchema::new().await;
    let proxy = Proxy::start().await;
    let mut options =
        PostgresOptions { listen_url: Some(proxy.url(&schema.database.url())), ..schema.options() };
    options.timings.listener_patience = Duration::from_millis(300);
    options.timings.connect = Duration::from_millis(300);
    let b = Node::start(options).await;
    proxy.black_hole();
    b.sink.until("down", |received| *received == ReceivedHint::Down).await;
    proxy.pass();
    b.sink.until_joined().await;
    b.stop().await;
}

#[tokio::test]
async fn an_idle_listener_runs_no_statement() {
    let schema = TestSchema::new().await;
    let mut options = schema.options();
    options.timings.listener_check = Duration::from_millis(5);
    let node = Node::start(options).await;
    let key = format!("SELECT lock_key FROM {}.nodes", schema.name);
    let key: i64 = schema.client().await.query_one(&key, &[]).await.expect("joined").get(0);
    let sql = "SELECT a.query_start::text FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
               WHERE l.locktype = 'advisory' \
               AND ((l.classid::bigint << 32) | l.objid::bigint) = $1";
    let client = schema.client().await;
    let read = async || -> String {
        client.query_one(sql, &[&key]).await.expect("its lock is held").get(0)
    };
    let before = read().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(read().await, before);
    node.stop().await;
}

#[tokio::test]
async fn a_garbled_notification_means_everything() {
    let schema = TestSchema::new().await;
    let node = Node::start(schema.options()).await;
    let channel = channel(&schema).await;
    let client = schema.client().await;
    for payload in
        ["", "{", "{\"k\":\"changed\",\"c\":[{\"q\":\"\"}]}", "{\"k\":\"from the future\"}"]
    {
        node.sink.take();
        client.execute("SELECT pg_notify($1, $2)", &[&channel, &payload]).await.expect("sent");
        node.sink.until_joined().await;
        assert_eq!(node.sink.all(), [ReceivedHint::Everything]);
    }
    node.stop().await;
}

#[tokio::test]
async fn closing_the_store_leaves_no_listener_behind() {
    let schema = TestSchema::new().await;
    let a = Node::start(schema.options()).await;
    let b = Node::start(schema.options()).await;
    assert_eq!((nodes(&schema).await, listeners(&schema).await), (2, 2));
    a.store.close().await;
    assert_eq!(nodes(&schema).await, 1, "it said goodbye");
    knows(&b, 0).await;
    b.crash().await;
    eventually("no connection listens", async || listeners(&schema).await == 0).await;
}

#[tokio::test]
async fn a_dead_node_is_forgotten_by_the_next_one_that_joins() {
    let schema = TestSchema::new().await;
    let a = Node::start(schema.options()).await;
    a.crash().await;
    assert_eq!(nodes(&schema).await, 1, "no node has checked yet");
    eventually("the dead node's row is gone", async || {
        let b = Node::start(schema.options()).await;
        let alone = nodes(&schema).await == 1;
        b.stop().await;
        alone
    })
    .await;
}

#[tokio::test]
async fn a_dead_node_is_forgotten_by_the_sweep() {
    let schema = TestSchema::new().await;
    let mut options = schema.options();
    options.timings.reap = Duration::ZERO;
    let (a, b) = (Node::start(options).await, Node::start(schema.options()).await);
    knows(&a, 1).await;
    b.crash().await;
    eventually("a is alone", async || {
        a.store.sweep(Vec::new()).await.expect("swept");
        a.store.peers() == Some(0)
    })
    .await;
    assert_eq!(nodes(&schema).await, 1);
    a.stop().await;
}

#[tokio::test]
async fn a_listener_that_receives_nothing_is_reported_and_stops_nothing() {
    let schema = TestSchema::new().await;
    // As through a transaction pooler, another database does not receive this one's NOTIFY.
    let other = TestSchema::missing().await;
    let mut options = schema.options();
    options.listen_url = Some(other.database.url());
    options.timings.listener_patience = Duration::from_millis(100);
    let node = Node::start_unjoined(options).await;
    node.sink.until("off", |received| matches!(received, ReceivedHint::Off(_))).await;
    let received = node.sink.take();
    let [ReceivedHint::Off(reason)] = received.as_slice() else { panic!("{received:?}") };
    assert!(reason.contains("listen_url"), "{reason}");
    node.store.ping().await.expect("the store works on");
    node.stop().await;
}

#[tokio::test]
async fn an_unreachable_listen_url_is_reported_and_stops_nothing() {
    let schema = TestSchema::new().await;
    let proxy = Proxy::start().await;
    proxy.refuse();
    let options =
        PostgresOptions { listen_url: Some(proxy.url(&schema.database.url())), ..schema.options() };
    let node = Node::start_unjoined(options).await;
    node.sink.until("down", |received| *received == ReceivedHint::Down).await;
    node.store.ping().await.expect("the store works");
    proxy.pass();
    node.sink.until_joined().await;
    assert_eq!(node.sink.take(), [ReceivedHint::Down, ReceivedHint::Up, ReceivedHint::Everything]);
    node.stop().await;
}

#[tokio::test]
async fn a_disabled_listener_reports_it_and_opens_no_connection() {
    let schema = TestSchema::new().await;
    let options = PostgresOptions { notify: NotifyMode::Off, ..schema.options() };
    let b = Node::start(schema.options()).await;
    let a = Node::start_unjoined(options).await;
    a.sink.until("off", |received| matches!(received, ReceivedHint::Off(_))).await;
    a.store.notify(&[change("q")]);
    assert_eq!(nodes(&schema).await, 1);
    a.stop().await;
    assert_eq!(b.sink.all(), []);
    b.stop().await;
}

#[tokio::test]
async fn a_black_holed_store_call_is_an_error_within_its_deadline() {
    let schema = TestSchema::new().await;
    let proxy = Proxy::start().await;
    let mut options = schema.options();
    options.url = proxy.url(&schema.database.url());
    options.statement_timeout = Duration::from_millis(100);
    let store = wakeline_postgres::PostgresStore::connect(options).await.expect("a store");
    store.ping().await.expect("a connection is open");
    proxy.black_hole();
    let error = store.ping().await.expect_err("no answer");
    assert!(error.is_transient(), "{error:?}");
    proxy.pass();
    store.ping().await.expect("a new connection works");
    store.close().await;
}

#[tokio::test]
async fn a_lost_connection_is_replaced_by_the_next_call() {
    let schema = TestSchema::new().await;
    let proxy = Proxy::start().await;
    let options = PostgresOptions { url: proxy.url(&schema.database.url()), ..schema.options() };
    let store = wakeline_postgres::PostgresStore::connect(options).await.expect("a store");
    proxy.cut();
    // The first call may still use the dead connection; then its outcome is unknown.
    eventually("a call succeeds", async || store.ping().await.is_ok()).await;
    proxy.refuse();
    proxy.cut();
    eventually("nothing can be sent", async || {
        let refused = store.ping().await;
        matches!(refused, Err(wakeline_store::StoreError::Unavailable { .. }))
    })
    .await;
    store.close().await;
}

#[tokio::test]
async fn a_feed_that_is_dropped_does_not_stop_notifications() {
    let schema = TestSchema::new().await;
    let a = Node::start(schema.options()).await;
    let writer = a.store.clone();
    a.abort().await;
    let b = Node::start(schema.options()).await;
    writer.notify(&[change("q")]);
    b.sink.until_changed("q").await;
    writer.close().await;
    b.stop().await;
}

#[tokio::test]
async fn dropping_the_store_closes_its_connections() {
    let schema = TestSchema::new().await;
    let client = schema.client().await;
    let node = Node::start(schema.options()).await;
    node.store.ping().await.expect("works");
    let open = async || -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        client.query_one(sql, &[]).await.expect("read").get(0)
    };
    assert!(open().await >= 2);
    node.abort().await;
    eventually("all are closed", async || open().await == 0).await;
}
