//! Tests of the other decisions (children, status, values, messages), of random numbers, panics and
//! values that cannot be decoded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::KvKey;
use wakeline_flow::{
    ActivityPolicy, Backoff, EventKind, Execution, ExecutionSetup, ExecutionStart, FailureKind,
    FlowError, FlowMessage, HookEmit, HookSend, KvWrite, Nondeterminism, Orchestration,
    OrchestrationContext, Parent, QueueSend, TurnEnd,
};

use crate::script::{Script, child_done, completed, done, id, json, raised, registry};

const SHIP: Orchestration<u32, String> = Orchestration::named("ship");

#[test]
fn children_report_back_and_detached_ones_do_not() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let parcel = ctx.child(SHIP, 4).version("1.2.0").start();
        assert!(parcel.instance().is_some_and(|child| child.as_str().starts_with("i::1.3.")));
        let audit = ctx.child::<_, ()>("audit", ()).id("audit-1").detached()?;
        Ok::<_, FlowError>((parcel.await?, audit.to_string()))
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let turn = script.turn(vec![]);
    let [ship, audit] = &turn.effects.starts[..] else { panic!("two") };
    let FlowMessage::StartOrchestration { version, parent: Some(known), .. } = ship else {
        panic!("attached")
    };
    let identity = known.identity.clone();
    assert!(identity.is_some(), "another instance with the same id has another identity");
    let parent = Parent { instance: id("i"), execution: 1, event: 3, identity };
    assert_eq!((version.as_deref(), known), (Some("1.2.0"), &parent));
    assert!(matches!(audit, FlowMessage::StartOrchestration { parent: None, .. }));
    assert!(script.turn(vec![child_done(4, "not awaited")]).events.is_empty());
    assert_eq!(script.turn(vec![child_done(3, "parcel")]).end, completed(("parcel", "audit-1")));
}

#[test]
fn dropping_a_child_handle_requests_cancellation_of_the_child() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let child = ctx.child::<_, ()>("slow", ()).start();
        ctx.event::<()>("go").await?;
        drop(child);
        ctx.event::<()>("end").await
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.forgetful = true;
    let started = script.turn(vec![]).effects.starts;
    let FlowMessage::StartOrchestration { instance, parent, .. } = &started[0] else {
        panic!("the child is started")
    };
    let cancels = script.turn(vec![raised("go", ())]).effects.cancels;
    let [FlowMessage::CancelInstance { instance: cancelled, parent: by, .. }] = &cancels[..] else {
        panic!("one request: {cancels:?}")
    };
    assert_eq!((cancelled, by), (instance, parent));
    assert!(by.is_some(), "another instance with this id ignores the request");
}

/// The id of a child may be that of an instance that another caller started.
#[test]
fn only_its_own_parent_can_cancel_a_child() {
    let flow = |ctx: OrchestrationContext, (): ()| async move { ctx.event::<u32>("n").await };
    let registry = registry(|r| r.orchestration("flow", flow));
    let code = registry.newest("flow").expect("registered");
    let parent_of = |execution, event, identity: Option<&str>| {
        let identity = identity.map(str::to_owned);
        Some(Parent { instance: id("p"), execution, event, identity })
    };
    let parent = |event| parent_of(1, event, Some("1"));
    // An earlier program wrote no identity.
    let (earlier, later) = (parent_of(1, 1, None), parent_of(2, 1, None));
    let cancel = |parent| FlowMessage::CancelInstance {
        instance: id("i"),
        reason: "no longer needed".to_owned(),
        parent,
    };
    for (own, by, ends) in [
        (parent(1), parent(1), true),
        (parent(1), parent(2), false),
        (parent(1), parent_of(1, 1, Some("2")), false),
        (parent(1), parent_of(2, 1, Some("1")), false),
        (earlier.clone(), parent(1), true),
        (earlier.clone(), parent(2), false),
        (parent(1), earlier.clone(), true),
        (earlier.clone(), earlier.clone(), true),
        (later, earlier, false),
        (None, parent(1), false),
        (parent(1), None, true),
    ] {
        let setup = ExecutionSetup { instance: id("i"), execution: 1, kv: BTreeMap::new() };
        let start =
            ExecutionStart { input: json(()), parent: own.clone(), seed: 7, carried: Vec::new() };
        let turn = Execution::start(&code, setup, start).deliver(vec![cancel(by.clone())], 1);
        let end = turn.expect("runs").end;
        assert_eq!(matches!(end, TurnEnd::Cancelled(_)), ends, "{own:?}, {by:?}: {end:?}");
    }
}

async fn two_children(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    let detached = ctx.child::<_, ()>("d", ()).detached()?;
    ctx.set_status(detached.as_str());
    ctx.child("c", ()).await
}

/// The ids of the children that [`two_children`] starts.
fn children_of(execution: u64, seed: u64) -> Vec<String> {
    let registry = registry(|r| r.orchestration("flow", two_children));
    let code = registry.newest("flow").expect("registered");
    let setup = ExecutionSetup { instance: id("i"), execution, kv: BTreeMap::new() };
    let start = ExecutionStart { input: json(()), parent: None, seed, carried: Vec::new() };
    let turn = Execution::start(&code, setup, start).deliver(Vec::new(), 1).expect("runs");
    turn.effects.starts.iter().map(|start| start.instance().to_string()).collect()
}

#[test]
fn child_ids_differ_between_executions_and_between_instances_with_the_same_id() {
    let runs = [children_of(1, 7), children_of(2, 7), children_of(1, 8)];
    let ids: std::collections::BTreeSet<_> = runs.iter().flatten().collect();
    assert_eq!(ids.len(), 6, "{runs:?}");
    assert_eq!(children_of(1, 7), runs[0], "the same history makes the same ids");
}

#[test]
fn a_history_with_child_ids_of_earlier_programs_replays_and_continues() {
    let mut script = Script::new(&registry(|r| r.orchestration("flow", two_children)), ());
    script.turn(vec![]);
    // The history as recorded before ids contained the execution.
    for event in &mut script.history {
        let number = event.id;
        match &mut event.kind {
            EventKind::ChildStarted { instance, .. } => *instance = id(&format!("i::{number}")),
            EventKind::StatusSet { status } => *status = Some("i::3".to_owned()),
            _ => {}
        }
    }
    script.execution = script.replayed().expect("as recorded");
    let ended = script.turn(vec![child_done(5, ())]);
    assert_eq!(ended.end, completed(()));
}

#[test]
fn children_of_instances_with_long_ids_get_short_stable_ids() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let child = ctx.child::<_, ()>("c", ()).detached()?;
        ctx.event::<()>("end").await?;
        Ok::<_, FlowError>(child.to_string())
    };
    let registry = registry(|r| r.orchestration("flow", flow));
    let code = registry.newest("flow").expect("registered");
    let instance = id(&"x".repeat(255));
    let setup = ExecutionSetup { instance, execution: 1, kv: BTreeMap::new() };
    let start = ExecutionStart { input: json(()), parent: None, seed: 0, carried: Vec::new() };
    let mut execution = Execution::start(&code, setup.clone(), start);
    let turn = execution.deliver(Vec::new(), 1).expect("runs");
    let child = turn.effects.starts[0].instance().clone();
    assert_eq!(child.as_str().len(), 64);
    assert!(Execution::replay(&code, setup, turn.events).is_ok());
}

#[test]
fn values_are_the_initial_ones_with_the_executions_own_changes() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let before = ctx.kv_get::<u32>("count")?;
        ctx.kv_set("count", before.unwrap_or(0) + 1)?;
        ctx.event::<()>("go").await?;
        let after = ctx.kv_get::<u32>("count")?;
        ctx.kv_clear("old")?;
        let keys = ctx.kv_keys();
        ctx.kv_clear_all();
        assert!(ctx.kv_get::<u32>("count")?.is_none() && ctx.kv_keys().is_empty());
        Ok::<_, FlowError>((before, after, keys))
    };
    let key = |text: &str| KvKey::new(text).expect("valid");
    for forgetful in [false, true] {
        let registry = registry(|r| r.orchestration("flow", flow));
        let mut script = Script::new(&registry, ());
        script.setup.kv = [("count", 1), ("old", 2)].map(|(k, v)| (key(k), json(v))).into();
        let start = ExecutionStart { input: json(()), parent: None, seed: 7, carried: Vec::new() };
        script.execution = Execution::start(&script.code, script.setup.clone(), start);
        script.forgetful = forgetful;
        assert_eq!(script.turn(vec![]).effects.kv, [KvWrite::Set(key("count"), json(2))]);
        let turn = script.turn(vec![raised("go", ())]);
        assert_eq!(turn.end, completed((Some(1), Some(2), ["count"])));
        assert_eq!(turn.effects.kv, [KvWrite::Clear(key("old")), KvWrite::ClearAll]);
    }
}

#[test]
fn status_changes_pushes_and_signals_are_sent_in_order() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        ctx.set_status("one");
        ctx.clear_status();
        ctx.push("mail", "hello")?;
        ctx.push(QueueSend::to("mail").partition("p"), 2)?;
        ctx.signal("j", "wake", true)?;
        assert!(ctx.push("", 0).is_err() && ctx.signal("", "x", 0).is_err());
        Ok::<_, FlowError>(())
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let effects = script.turn(vec![]).effects;
    assert_eq!(effects.status, [Some("one".to_owned()), None]);
    let pushes: Vec<_> = effects.pushes.iter().map(|p| (p.event, p.partition.clone())).collect();
    assert_eq!(pushes, [(5, None), (6, Some("p".to_owned()))]);
    assert_eq!(effects.signals.len(), 1);
    assert!(script.replayed().is_ok());
}

#[test]
fn emitted_messages_are_sent_in_order_and_replayed() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        ctx.emit("customer-7", "order.paid", 1)?;
        ctx.emit(HookSend::to("customer-8").channel("north"), "order.sent", "x")?;
        assert!(ctx.emit("no such name", "order.paid", 0).is_err());
        assert!(ctx.emit("customer-7", "not a type", 0).is_err());
        let most = wakeline_core::MESSAGE_PAYLOAD_BYTES_MAX;
        assert!(ctx.emit("customer-7", "order.paid", "x".repeat(most - 1)).is_err());
        assert!(ctx.emit(HookSend::to("customer-7").channel("a b"), "order.paid", 0).is_err());
        ctx.event::<()>("go").await?;
        Ok::<_, FlowError>(())
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let event_texts = |emit: &HookEmit| {
        let channels = emit.channels.iter().map(ToString::to_string).collect::<Vec<_>>();
        (emit.event, emit.application.clone(), emit.event_type.to_string(), channels)
    };
    let emits: Vec<_> = script.turn(vec![]).effects.emits.iter().map(event_texts).collect();
    let first = (3, "customer-7".to_owned(), "order.paid".to_owned(), vec![]);
    let second = (4, "customer-8".to_owned(), "order.sent".to_owned(), vec!["north".to_owned()]);
    assert_eq!(emits, [first, second]);
    script.forgetful = true;
    assert_eq!(script.turn(vec![raised("go", ())]).effects.emits, [], "a replay emits nothing");
    assert!(script.replayed().is_ok());
}

#[test]
fn activities_carry_their_tag_session_and_policy() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let call = ctx.activity::<_, ()>("render", ()).tag("gpu").session("s-1").attempts(5);
        let backoff = Backoff::Fixed { delay_ms: 10 };
        call.backoff(backoff).attempt_timeout(Duration::from_secs(2)).await
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let turn = script.turn(vec![]);
    let task = &turn.effects.activities[0];
    assert_eq!(task.tag.as_ref().map(|t| t.as_str()), Some("gpu"));
    assert_eq!(task.session.as_ref().map(|s| s.as_str()), Some("s-1"));
    let policy = ActivityPolicy {
        attempts_max: 5,
        backoff: Backoff::Fixed { delay_ms: 10 },
        attempt_timeout_ms: Some(2_000),
    };
    assert_eq!(task.policy, policy);
}

#[test]
fn invalid_names_are_errors_of_the_call() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let tag = ctx.activity::<_, ()>("a", ()).tag("").await;
        let child = ctx.child::<_, ()>("", ()).await;
        let id = ctx.child::<_, ()>("c", ()).id("\n").detached();
        Ok::<_, FlowError>([tag.is_err(), child.is_err(), id.is_err(), ctx.kv_set("", 1).is_err()])
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    assert_eq!(script.turn(vec![]).end, completed([true; 4]));
}

#[test]
fn random_numbers_and_ids_repeat_on_replay_and_differ_otherwise() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let ids = [ctx.uuid(), ctx.uuid()];
        ctx.event::<()>("go").await?;
        let number = ctx.random_u64();
        assert!(ctx.random_below(6) < 6 && (0.0..1.0).contains(&ctx.random_f64()));
        Ok::<_, FlowError>((ids, number))
    };
    let registry = registry(|r| r.orchestration("flow", flow));
    let mut ends = Vec::new();
    for (seed, forgetful) in [(7, false), (7, true), (8, false)] {
        let start = ExecutionStart { input: json(()), parent: None, seed, carried: Vec::new() };
        let mut script = Script::with(registry.newest("flow").expect("registered"), start);
        script.forgetful = forgetful;
        script.turn(vec![]);
        ends.push(script.turn(vec![raised("go", ())]).end);
    }
    assert_eq!(ends[0], ends[1]);
    assert_ne!(ends[0], ends[2]);
    let TurnEnd::Completed(output) = &ends[0] else { panic!("completed") };
    let (ids, _): ([uuid::Uuid; 2], u64) = output.to().expect("decodes");
    assert!(ids[0] != ids[1] && ids[0].get_version_num() == 4);
}

#[test]
fn a_panic_of_the_code_is_reported_and_does_not_end_the_execution() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let _open = ctx.activity::<_, ()>("open", ()).start();
        ctx.event::<()>("go").await?;
        if ctx.execution() == 1 {
            panic!("lost my way");
        }
        Ok::<_, FlowError>(())
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    let panic = script.try_turn(vec![raised("go", ())]).expect_err("a panic");
    assert_eq!(panic, Nondeterminism::Panic { message: "lost my way".to_owned() });
    assert!(!script.replayed().expect("replays").has_ended(), "as it was before the turn");
}

#[test]
fn values_that_cannot_be_decoded_fail_as_codec() {
    let flow =
        |ctx: OrchestrationContext, n: u32| async move { ctx.activity::<_, u32>("a", n).await };
    let registry = registry(|r| r.orchestration("flow", flow));
    let kind = |end| match end {
        TurnEnd::Failed(error) => error.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(Script::new(&registry, "text").turn(vec![]).end), FailureKind::Codec);
    let mut script = Script::new(&registry, 1);
    script.turn(vec![]);
    assert_eq!(kind(script.turn(vec![done(3, "text")]).end), FailureKind::Codec);
}

#[test]
fn executions_can_be_sent_between_threads() {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    sent::<Execution>();
    shared::<OrchestrationContext>();
    shared::<Arc<wakeline_flow::Registry>>();
}
