//! Tests of select, join, timeouts and dropped operations.

use std::time::Duration;

use wakeline_flow::{
    Either, Either3, FailureKind, FlowError, OrchestrationContext, TurnEnd, join, join3, race,
    select2, select3, try_join_all,
};

use crate::script::{Script, completed, done, failed, fired, raised, registry};

#[test]
fn select_returns_the_result_delivered_first_within_a_turn() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let a = ctx.activity::<_, u32>("a", ());
        let b = ctx.activity::<_, u32>("b", ());
        Ok::<_, FlowError>(match select2(a, b).await {
            Either::First(value) => format!("a{}", value?),
            Either::Second(value) => format!("b{}", value?),
        })
    };
    let registry = registry(|r| r.orchestration("flow", flow));
    for (messages, winner) in
        [(vec![done(3, 1), done(4, 2)], "a1"), (vec![done(4, 2), done(3, 1)], "b2")]
    {
        let mut script = Script::new(&registry, ());
        script.turn(vec![]);
        let turn = script.turn(messages);
        assert_eq!(turn.end, completed(winner));
        assert_eq!(turn.effects.cancelled_activities.len(), 1);
        assert!(script.replayed().expect("replays").has_ended());
    }
}

#[test]
fn select3_and_race_return_the_winner() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let names = ["x", "y", "z"];
        let (index, value) = race(names.map(|name| ctx.activity::<_, u32>(name, ()))).await;
        let third = select3(ctx.event::<u32>("e"), ctx.sleep(Duration::from_secs(9)), async {
            ctx.activity::<_, u32>("late", ()).await
        });
        let third = match third.await {
            Either3::First(_) => 1,
            Either3::Second(()) => 2,
            Either3::Third(_) => 3,
        };
        Ok::<_, FlowError>((index, value?, third))
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    let turn = script.turn(vec![done(4, 10)]);
    assert_eq!(turn.effects.cancelled_activities, [3, 5]);
    let late = turn.effects.activities[0].event;
    let turn = script.turn(vec![done(late, 0)]);
    assert_eq!(turn.end, completed((1, 10, 3)));
    assert_eq!(turn.effects.cancelled_timers.len(), 1);
}

#[test]
fn joins_keep_the_order_of_their_arguments() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let call = |name: &'static str| ctx.activity::<_, u32>(name, ());
        let (a, b) = join(call("a"), call("b")).await;
        let (c, d, e) = join3(call("c"), call("d"), call("e")).await;
        Ok::<_, FlowError>([a?, b?, c?, d?, e?])
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    let turn = script.turn(vec![done(4, 2), done(3, 1)]);
    let [c, d, e] = [0, 1, 2].map(|place| turn.effects.activities[place].event);
    let turn = script.turn(vec![done(e, 5), done(c, 3), done(d, 4)]);
    assert_eq!(turn.end, completed([1, 2, 3, 4, 5]));
}

#[test]
fn first_error_of_a_try_join_cancels_the_others() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        try_join_all((0..4).map(|n| ctx.activity::<_, u32>("part", n))).await
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        script.turn(vec![done(5, 0)]);
        let turn = script.turn(vec![failed(4, "broke".into())]);
        assert_eq!(turn.end, TurnEnd::Failed("broke".into()));
        assert_eq!(turn.effects.cancelled_activities, [3, 6]);
    }
}

#[test]
fn an_activity_that_exceeds_its_timeout_is_cancelled_and_fails() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let slow = ctx.activity::<_, u32>("slow", ()).timeout(Duration::from_secs(5));
        match slow.await {
            Err(error) if error.kind == FailureKind::Timeout => Ok("late".to_owned()),
            other => other.map(|n| n.to_string()),
        }
    };
    let registry = registry(|r| r.orchestration("flow", flow));
    let mut late = Script::new(&registry, ());
    late.turn(vec![]);
    let turn = late.turn(vec![fired(4)]);
    assert_eq!((turn.end, turn.effects.cancelled_activities), (completed("late"), vec![3]));
    let mut punctual = Script::new(&registry, ());
    punctual.turn(vec![]);
    let turn = punctual.turn(vec![done(3, 7)]);
    assert_eq!((turn.end, turn.effects.cancelled_timers), (completed("7"), vec![4]));
}

#[test]
fn an_expired_timeout_removes_its_event_wait_from_the_queue() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let first = ctx.timeout(Duration::from_secs(5), ctx.event::<u32>("approve")).await;
        let second = ctx.event::<u32>("approve").await?;
        Ok::<_, FlowError>((first.is_none(), second))
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        script.turn(vec![fired(4)]);
        assert_eq!(script.turn(vec![raised("approve", 1)]).end, completed((true, 1)));
        let event_texts = [
            "started",
            "wait approve",
            "timer",
            "fired 4",
            "forgo 3",
            "wait approve",
            "raised approve 1",
            "completed [true,1]",
        ];
        assert_eq!(script.event_texts(), event_texts);
    }
}

#[test]
fn operations_started_and_dropped_in_one_turn_are_recorded_but_have_no_effect() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        drop(ctx.activity::<_, ()>("unwanted", ()).start());
        drop(ctx.sleep(Duration::from_secs(1)).start());
        drop(ctx.child::<_, ()>("unwanted", ()).start());
        drop(ctx.event::<()>("unwanted").start());
        drop(ctx.activity::<_, ()>("never begun", ()));
        ctx.event::<()>("end").await
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let turn = script.turn(vec![]);
    let event_texts = [
        "started",
        "run unwanted null",
        "cancel run 3",
        "timer",
        "cancel timer 5",
        "child i::1.7.e9be175a true",
        "cancel child 7",
        "wait unwanted",
        "forgo 9",
        "wait end",
    ];
    assert_eq!(script.event_texts(), event_texts);
    let effects = turn.effects;
    assert!(effects.activities.is_empty() && effects.cancelled_activities.is_empty());
    assert!(effects.timers.is_empty() && effects.cancelled_timers.is_empty());
    assert!(effects.starts.is_empty() && effects.cancels.is_empty());
}

#[test]
fn dropping_an_execution_records_nothing() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let kept = ctx.activity::<_, u32>("kept", ()).start();
        ctx.event::<()>("end").await?;
        kept.await
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    script.execution = script.replayed().expect("the first one recorded nothing");
    assert_eq!(script.turn(vec![done(3, 4), raised("end", ())]).end, completed(4));
}

#[test]
fn a_biased_tokio_select_works() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let mut call = ctx.activity::<_, u32>("a", ()).start();
        let mut ticks = 0;
        loop {
            tokio::select! {
                biased;
                value = &mut call => return value.map(|value| value + ticks),
                () = ctx.sleep(Duration::from_secs(1)) => ticks += 1,
            }
        }
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        let turn = script.turn(vec![fired(4)]);
        assert_eq!(turn.effects.timers.len(), 1);
        assert_eq!(script.turn(vec![done(3, 10)]).end, completed(11));
    }
}
