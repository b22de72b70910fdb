//! Tests notify = trigger: the hints for rows that other sessions write, by table.

use std::time::Duration;

use wakeline_core::{
    ActivityName, ActivityRoute, Capability, Change, EndpointId, FlowChange, FlowChangeKind,
    GroupName, HookChange, HookChangeKind, InstanceId, Tag,
};
use wakeline_postgres::{NotifyMode, PostgresStore};
use wakeline_store::StoreAdmin;

use crate::support::{Node, ReceivedHint, TestSchema};
use crate::trigger::{fill, run, with};

/// A row that is due this much later is notified with the time until then.
const AHEAD: Duration = Duration::from_secs(60);

fn is_ahead(due_in: Duration) -> bool {
    due_in <= AHEAD && due_in > AHEAD - Duration::from_secs(20)
}

async fn received_flow(node: &Node, what: FlowChangeKind, due: impl Fn(Duration) -> bool) {
    let like = |change: &FlowChange| change.what == what && due(change.due_in);
    let wanted =
        |hint: &ReceivedHint| matches!(hint, ReceivedHint::Flow(all) if all.iter().any(like));
    node.sink.until(&format!("{what:?}"), wanted).await;
    assert!(node.sink.take().iter().all(|received| *received != ReceivedHint::Everything));
}

async fn received_hook(node: &Node, what: HookChangeKind, due: impl Fn(Duration) -> bool) {
    let like = |change: &HookChange| change.what == what && due(change.due_in);
    let wanted =
        |hint: &ReceivedHint| matches!(hint, ReceivedHint::Hook(all) if all.iter().any(like));
    node.sink.until(&format!("{what:?}"), wanted).await;
    assert!(node.sink.take().iter().all(|received| *received != ReceivedHint::Everything));
}

fn at_once(due_in: Duration) -> bool {
    due_in.is_zero()
}

/// An instance that needs the code `greet`, with nothing to do.
const LANE: &str = "INSERT INTO @.flow_capabilities (name) VALUES ('greet');
    INSERT INTO @.flow_lanes (instance, capability_id)
    SELECT 'i', capability_id FROM @.flow_capabilities";

fn greet() -> FlowChangeKind {
    FlowChangeKind::Turn(Capability::new("greet").expect("valid"))
}

/// Inserted messages of instances are notified, and the notification contains the due time.
#[tokio::test]
async fn messages_of_instances_make_their_lanes_due_and_are_notified_with_their_time() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    run(&schema, LANE).await;
    let insert = "INSERT INTO @.flow_messages (lane_id, seq, visible_at, starts, payload)
        SELECT lane_id, next_seq, now() + interval '1 min', false, '{}' FROM @.flow_lanes";
    run(&schema, insert).await;
    received_flow(&node, greet(), is_ahead).await;
    run(&schema, "UPDATE @.flow_messages SET visible_at = now()").await;
    received_flow(&node, greet(), at_once).await;
    let sql = "SELECT next_seq, due_at <= now() FROM wakeline.flow_lanes";
    let row = schema.client().await.query_one(sql, &[]).await.expect("read");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1)), (2, true));
    run(&schema, "UPDATE @.flow_lanes SET due_at = now() + interval '1 min'").await;
    received_flow(&node, greet(), is_ahead).await;
    node.stop().await;
}

#[tokio::test]
async fn a_message_moved_during_a_turn_is_not_taken_for_one_of_its_own() {
    let schema = TestSchema::new().await;
    let store = PostgresStore::connect(with(&schema, NotifyMode::Trigger)).await.expect("a store");
    run(&schema, LANE).await;
    let leased = "INSERT INTO @.flow_messages (lane_id, seq, visible_at, starts, payload)
            SELECT lane_id, 1, now() + interval '1 min', false, '{}' FROM @.flow_lanes;
        UPDATE @.flow_lanes SET lease_token = gen_random_uuid(), lease_at = now(), lease_seq = 1,
            lease_until = now() + interval '1 min', due_at = now() + interval '1 min'";
    run(&schema, leased).await;
    run(&schema, "UPDATE @.flow_messages SET visible_at = now() - interval '1 min'").await;
    let sql = "SELECT m.visible_at > l.lease_at FROM wakeline.flow_messages m
        JOIN wakeline.flow_lanes l USING (lane_id)";
    let row = schema.client().await.query_one(sql, &[]).await.expect("read");
    assert!(row.get::<_, bool>(0), "the turn that runs does not hold it");
    store.close().await;
}

/// Inserted activities are notified.
#[tokio::test]
async fn activities_are_notified_to_workers_that_take_their_tag_and_name() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    run(&schema, LANE).await;
    let names = "INSERT INTO @.flow_tags (name) VALUES ('gpu');
                 INSERT INTO @.flow_activity_names (name) VALUES ('draw')";
    run(&schema, names).await;
    let work = |activity: u32, tag: &str, name: &str| {
        format!(
            "INSERT INTO @.flow_work (lane_id, execution, activity, state, tag_id, name_id)
             SELECT lane_id, 1, {activity}, 0, {tag}, {name} FROM @.flow_lanes"
        )
    };
    let route = |tag: Option<&str>, name: Option<&str>| {
        FlowChangeKind::Work(ActivityRoute {
            tag: tag.map(|tag| Tag::new(tag).expect("valid")),
            name: name.map(|name| ActivityName::new(name).expect("valid")),
        })
    };
    let tag = "(SELECT tag_id FROM @.flow_tags)";
    let name = "(SELECT name_id FROM @.flow_activity_names)";
    run(&schema, &work(1, "0", "0")).await;
    received_flow(&node, route(None, None), at_once).await;
    run(&schema, &work(2, tag, "0")).await;
    received_flow(&node, route(Some("gpu"), None), at_once).await;
    run(&schema, &work(3, "0", name)).await;
    received_flow(&node, route(None, Some("draw")), at_once).await;
    run(&schema, &work(4, tag, name)).await;
    received_flow(&node, route(Some("gpu"), Some("draw")), at_once).await;
    let later = "UPDATE @.flow_work SET state = 1, due_at = now() + interval '1 min'
        WHERE activity = 1";
    run(&schema, later).await;
    received_flow(&node, route(None, None), is_ahead).await;
    node.stop().await;
}

#[tokio::test]
async fn a_changed_instance_is_notified_to_its_waiters() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    let instance = "INSERT INTO @.flow_instances
        (lane_id, instance, name, execution, state, created_at, updated_at)
        VALUES (1, 'i', 'greet', 1, 'running', now(), now());
        UPDATE @.flow_instances SET status = 'half', status_version = 1";
    run(&schema, instance).await;
    let outcome = FlowChangeKind::Outcome(InstanceId::new("i").expect("valid"));
    received_flow(&node, outcome, at_once).await;
    node.stop().await;
}

#[tokio::test]
async fn deliveries_make_their_endpoints_due_and_are_notified_with_their_time() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    let pulled = EndpointId::generate();
    let states = format!(
        "INSERT INTO @.hook_states (endpoint_id, pull)
         VALUES (gen_random_uuid(), false), ('{}', true)",
        pulled.0
    );
    run(&schema, &states).await;
    let insert = |pull: bool, due: &str| {
        format!(
            "INSERT INTO @.hook_deliveries (endpoint_id, message_id, state, class, fifo, due_at,
                 created_at, updated_at)
             SELECT endpoint_id, gen_random_uuid(), 0, 0, false, {due}, now(), now()
             FROM @.hook_states WHERE pull = {pull}"
        )
    };
    run(&schema, &insert(false, "now() + interval '1 min'")).await;
    received_hook(&node, HookChangeKind::Push, is_ahead).await;
    run(&schema, &insert(true, "now()")).await;
    received_hook(&node, HookChangeKind::Pull(pulled), at_once).await;
    run(&schema, "UPDATE @.hook_deliveries SET due_at = now()").await;
    received_hook(&node, HookChangeKind::Push, at_once).await;
    node.stop().await;
}

#[tokio::test]
async fn background_work_of_webhooks_is_notified_when_it_is_added_and_when_a_job_is_reopened() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    let job = "INSERT INTO @.hook_jobs
        (job_id, application_id, kind, event_types, states, created_at, updated_at, finished_at)
        VALUES (gen_random_uuid(), gen_random_uuid(), 0, '{}', '{}', now(), now(), now())";
    let fan_out = "INSERT INTO @.hook_fan_outs (application_id, message_id, patterns)
        VALUES (gen_random_uuid(), gen_random_uuid(), '{}')";
    for write in [job, "UPDATE @.hook_jobs SET finished_at = NULL", fan_out] {
        run(&schema, write).await;
        received_hook(&node, HookChangeKind::Background, at_once).await;
    }
    node.stop().await;
}

#[tokio::test]
async fn parked_and_scheduled_messages_are_notified_with_their_time() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    fill(&schema, 1).await;
    let received = async |what: &str, group: Option<&str>, due: fn(Duration) -> bool| {
        let like = |change: &Change| {
            change.group.as_ref().map(GroupName::as_str) == group && due(change.due_in)
        };
        let wanted = |hint: &ReceivedHint| match hint {
            ReceivedHint::Changed(all) => all.iter().any(like),
            _ => false,
        };
        node.sink.until(what, wanted).await;
        node.sink.take();
    };
    let parked = "INSERT INTO @.retries
            (partition_id, group_id, message_offset, failures, due_at, solo)
            SELECT partition_id, group_id, 0, 1, now() + interval '1 h', false FROM @.cursors;
        UPDATE @.cursors SET due_at = now() + interval '1 min', parked = 1";
    run(&schema, parked).await;
    received("the cursor", Some("g"), is_ahead).await;
    run(&schema, "UPDATE @.retries SET due_at = now()").await;
    received("the parked message", Some("g"), at_once).await;
    let scheduled = "INSERT INTO @.scheduled
        (queue_id, partition_id, deliver_at, id, txn_id, scheduled_at, payload)
        SELECT queue_id, partition_id, now() + interval '1 min', gen_random_uuid(), 't', now(),
            '{}' FROM @.partitions";
    run(&schema, scheduled).await;
    received("the scheduled message", None, is_ahead).await;
    run(&schema, "UPDATE @.scheduled SET deliver_at = now()").await;
    received("the moved message", None, at_once).await;
    node.stop().await;
}
