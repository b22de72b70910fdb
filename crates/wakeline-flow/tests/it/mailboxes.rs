//! Tests of events from outside: early and late ones, their order, dropped waits, and events that
//! are carried over.

use std::time::Duration;

use wakeline_flow::{
    Either, ExecutionStart, FlowError, OrchestrationContext, Raised, TurnEnd, join, select2,
};

use crate::script::{Script, cancel, completed, done, fired, json, raised, registry};

#[test]
fn events_that_arrive_before_the_start_are_kept() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        ctx.activity::<_, ()>("first", ()).await?;
        let a: u32 = ctx.event("e").await?;
        let b: u32 = ctx.event("e").await?;
        Ok::<_, FlowError>((a, b))
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![raised("e", 1), raised("other", 0), raised("e", 2)]);
        assert_eq!(script.turn(vec![done(3, ())]).end, completed((1, 2)));
    }
}

#[test]
fn waits_are_served_in_order_and_each_event_once() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let (first, second) = (ctx.event::<u32>("e").start(), ctx.event::<u32>("e").start());
        let (second, first) = join(second, first).await;
        Ok::<_, FlowError>((first?, second?))
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    assert_eq!(script.turn(vec![raised("e", 1), raised("e", 2)]).end, completed((1, 2)));
}

#[test]
fn the_unread_event_of_a_dropped_wait_goes_to_the_next_in_its_order() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let early = ctx.event::<u32>("e").start();
        ctx.activity::<_, ()>("meanwhile", ()).await?;
        drop(early);
        let a: u32 = ctx.event("e").await?;
        let b: u32 = ctx.event("e").await?;
        Ok::<_, FlowError>((a, b))
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        script.turn(vec![raised("e", 1), raised("e", 2)]);
        assert_eq!(script.turn(vec![done(4, ())]).end, completed((1, 2)));
    }
}

#[test]
fn a_dropped_wait_passes_its_event_to_the_next_wait() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let early = ctx.event::<u32>("e").start();
        let late = ctx.event::<u32>("e").start();
        ctx.activity::<_, ()>("meanwhile", ()).await?;
        drop(early);
        late.await
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        script.turn(vec![raised("e", 1)]);
        assert_eq!(script.turn(vec![done(5, ())]).end, completed(1));
    }
}

#[test]
fn a_mailbox_returns_delivered_events_without_waiting() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let mailbox = ctx.mailbox::<u32>("m");
        let mut seen = vec![mailbox.next().await?];
        ctx.sleep(Duration::from_secs(1)).await;
        while let Some(value) = mailbox.try_next()? {
            seen.push(value);
        }
        Ok::<_, FlowError>(seen)
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        let turn = script.turn(vec![raised("m", 1), raised("m", 2), raised("m", 3)]);
        let timer = turn.effects.timers[0].event;
        assert_eq!(script.turn(vec![fired(timer), raised("m", 4)]).end, completed([1, 2, 3]));
    }
}

#[test]
fn an_event_that_cannot_be_decoded_fails_only_its_own_wait() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let wrong = ctx.event::<u32>("e").await.is_err();
        Ok::<_, FlowError>((wrong, ctx.event::<u32>("e").await?))
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let turn = script.turn(vec![raised("e", "text"), raised("e", 2)]);
    assert_eq!(turn.end, completed((true, 2)));
}

async fn batches(ctx: OrchestrationContext, sum: u32) -> Result<u32, FlowError> {
    let mailbox = ctx.mailbox::<u32>("n");
    let idle = ctx.event::<u32>("other").start();
    let n = mailbox.next().await?;
    if n == 0 {
        drop(idle);
        return Ok(sum);
    }
    ctx.continue_as_new(sum + n).await
}

#[test]
fn continue_as_new_carries_over_events_not_taken() {
    let registry = registry(|r| r.orchestration("flow", batches));
    let mut script = Script::new(&registry, 0);
    script.turn(vec![]);
    let turn = script.turn(vec![
        raised("other", 9),
        raised("n", 5),
        raised("n", 6),
        cancel("stop"),
        done(4, ()),
        raised("n", 0),
    ]);
    let TurnEnd::ContinuedAsNew { input, version, carried, cancel } = turn.end else {
        panic!("{:?}", turn.end)
    };
    assert_eq!((input, version, cancel.as_deref()), (json(5), None, Some("stop")));
    let event = |name: &str, n: u32| Raised { name: name.into(), data: json(n) };
    assert_eq!(carried, [event("other", 9), event("n", 6), event("n", 0)]);
    assert_eq!(script.event_texts().last().map(String::as_str), Some("again 5"));
    assert!(script.replayed().expect("replays").has_ended());

    let code = registry.newest("flow").expect("registered");
    let start = ExecutionStart { input: json(5), parent: None, seed: 1, carried };
    let mut next = Script::with(code, start);
    let TurnEnd::ContinuedAsNew { carried, .. } = next.turn(vec![]).end else {
        panic!("it continues")
    };
    assert_eq!(carried, [event("other", 9), event("n", 0)]);
    assert!(next.replayed().expect("replays").has_ended());
}

#[test]
fn cancellation_that_the_code_has_seen_is_not_carried_over() {
    let flow = |ctx: OrchestrationContext, round: u32| async move {
        match select2(ctx.event::<u32>("n"), ctx.cancelled()).await {
            Either::First(n) => n,
            Either::Second(_) => ctx.continue_as_new(round + 1).version("2.0.0").await,
        }
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), 1);
    script.turn(vec![]);
    let TurnEnd::ContinuedAsNew { version, cancel, .. } = script.turn(vec![cancel("stop")]).end
    else {
        panic!("it continues")
    };
    assert_eq!((version.as_deref(), cancel), (Some("2.0.0"), None));
}
