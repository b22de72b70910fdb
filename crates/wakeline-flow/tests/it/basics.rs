//! Tests of activities, timers, events, completion and replay.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::Timestamp;
use wakeline_flow::{
    Activity, ActivityContext, ExecutionStart, FailureKind, FlowError, FlowMessage,
    OrchestrationContext, Registry, TurnEnd, select2,
};

use crate::script::{
    Script, cancel, child_done, completed, done, failed, fired, id, json, raised, registry,
};

const DOUBLE: Activity<u32, u32> = Activity::named("double");

async fn chain(ctx: OrchestrationContext, start: u32) -> Result<u32, FlowError> {
    let twice = ctx.activity(DOUBLE, start).await?;
    ctx.sleep(Duration::from_secs(60)).await;
    let more: u32 = ctx.event("more").await?;
    ctx.activity::<_, u32>("double", twice + more).await
}

fn chained() -> Registry {
    registry(|r| r.orchestration("flow", chain))
}

#[test]
fn a_chain_of_activity_timer_and_event_replays() {
    for forgetful in [false, true] {
        let mut script = Script::new(&chained(), 3);
        script.forgetful = forgetful;
        let first = script.turn(vec![]);
        assert_eq!(first.effects.activities[0].event, 3);
        assert_eq!(first.effects.activities[0].name, "double");
        let second = script.turn(vec![done(3, 6)]);
        assert_eq!(second.effects.timers[0].fire_at, script.now + 60_000_000);
        let timer = second.effects.timers[0].event;
        assert_eq!(script.turn(vec![raised("more", 1)]).end, TurnEnd::Open);
        let third = script.turn(vec![fired(timer)]);
        assert_eq!(third.effects.activities[0].input.as_str(), "7");
        let last = script.turn(vec![done(third.effects.activities[0].event, 14)]);
        assert_eq!(last.end, completed(14));
        assert!(script.execution.has_ended());
        let event_texts = [
            "started",
            "run double 3",
            "ran 3 6",
            "timer",
            "raised more 1",
            "fired 6",
            "wait more",
            "run double 7",
            "ran 12 14",
            "completed 14",
        ];
        assert_eq!(script.event_texts(), event_texts);
    }
}

#[test]
fn messages_that_do_not_match_are_dropped_without_an_event() {
    let mut script = Script::new(&chained(), 3);
    script.turn(vec![]);
    let other = |execution, event| FlowMessage::ActivityDone {
        instance: id("i"),
        execution,
        event,
        identity: None,
        result: Ok(wakeline_flow::Json::null()),
    };
    let elsewhere = FlowMessage::EventRaised {
        instance: id("j"),
        name: "more".into(),
        data: wakeline_flow::Json::null(),
    };
    let strays =
        vec![other(2, 3), other(1, 2), other(1, 99), fired(3), child_done(3, 1), elsewhere];
    let turn = script.turn(strays);
    assert!(turn.events.is_empty());
    assert_eq!(turn.end, TurnEnd::Open);
    script.turn(vec![done(3, 6), done(3, 7)]);
    assert_eq!(script.event_texts(), ["started", "run double 3", "ran 3 6", "timer"]);
    assert!(script.turn(vec![done(3, 6)]).events.is_empty());
}

#[test]
fn now_is_the_time_of_the_turn_also_on_replay() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let before = ctx.now();
        let since = ctx.system_time().duration_since(std::time::UNIX_EPOCH).expect("later");
        assert_eq!(i64::try_from(since.as_micros()), Ok(before.0));
        ctx.event::<()>("go").await?;
        Ok::<_, FlowError>((before.0, ctx.now().0))
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        let before = Timestamp(script.now);
        let turn = script.turn(vec![raised("go", ())]);
        assert_eq!(turn.end, completed((before.0, script.now)));
    }
}

#[test]
fn the_failure_of_an_activity_reaches_the_code_unchanged() {
    let mut script = Script::new(&chained(), 3);
    script.turn(vec![]);
    let error = FlowError::new(FailureKind::Poison, "crashed too often");
    assert_eq!(script.turn(vec![failed(3, error.clone())]).end, TurnEnd::Failed(error));
}

#[test]
fn the_losers_of_a_select_are_cancelled_and_their_results_dropped() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let slow = ctx.activity::<_, u32>("slow", ());
        select2(slow, ctx.sleep(Duration::from_secs(1))).await;
        ctx.event::<u32>("end").await
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        let turn = script.turn(vec![fired(4)]);
        assert_eq!(turn.effects.cancelled_activities, [3]);
        assert!(script.turn(vec![done(3, 1)]).events.is_empty());
        assert_eq!(script.turn(vec![raised("end", 5)]).end, completed(5));
    }
}

#[test]
fn cancellation_ends_code_that_does_not_handle_it_and_cancels_open_operations() {
    let mut script = Script::new(&chained(), 3);
    script.turn(vec![]);
    let turn = script.turn(vec![cancel("enough")]);
    assert_eq!(turn.end, TurnEnd::Cancelled("enough".into()));
    assert_eq!(turn.effects.cancelled_activities, [3]);
    assert!(script.replayed().expect("replays").has_ended());
}

async fn double(_ctx: ActivityContext, n: u32) -> Result<u32, String> {
    Ok(n * 2)
}

#[test]
fn functions_are_called_by_their_registered_names() {
    let flow = |ctx: OrchestrationContext, n: u32| async move { ctx.call(double, n).await };
    let registry = registry(|r| r.orchestration("flow", flow).activity("double", double));
    let mut script = Script::new(&registry, 4);
    let turn = script.turn(vec![]);
    assert_eq!(turn.effects.activities[0].name, "double");
    assert_eq!(script.turn(vec![done(3, 8)]).end, completed(8));
}

/// An instance that was deleted may be started again under its id while its activities and children
/// still run.
#[test]
fn completions_for_another_instance_with_the_same_id_are_dropped() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let (activity, child) =
            (ctx.activity::<_, u32>("a", ()).start(), ctx.child::<_, u32>("c", ()).start());
        Ok::<_, FlowError>(activity.await? + child.await?)
    };
    let registry = registry(|r| r.orchestration("flow", flow));
    let code = registry.newest("flow").expect("registered");
    let ends = |seed| {
        let start = ExecutionStart { input: json(()), parent: None, seed, carried: Vec::new() };
        let mut life = Script::with(Arc::clone(&code), start);
        let effects = life.turn(vec![]).effects;
        let task = &effects.activities[0];
        let activity = FlowMessage::ActivityDone {
            instance: task.instance.clone(),
            execution: task.execution,
            event: task.event,
            identity: task.identity.clone(),
            result: Ok(json(1)),
        };
        let FlowMessage::StartOrchestration { parent: Some(parent), .. } = &effects.starts[0]
        else {
            panic!("the parent waits for it")
        };
        let child = FlowMessage::ChildDone {
            instance: parent.instance.clone(),
            execution: parent.execution,
            event: parent.event,
            identity: parent.identity.clone(),
            result: Ok(json(2)),
        };
        (life, vec![activity, child])
    };
    let ((_, of_first), (mut second, of_second)) = (ends(7), ends(8));
    assert!(second.turn(of_first).events.is_empty());
    assert_eq!(second.turn(of_second).end, completed(3));
}
