//! Tests of cancellation, and of code that handles it.

use std::time::Duration;

use wakeline_flow::{Either, FailureKind, FlowError, OrchestrationContext, TurnEnd, select2};

use crate::script::{Script, cancel, completed, done, failed, fired, raised, registry};

async fn saga(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    let book = ctx.activity::<_, ()>("book", ());
    match select2(book, ctx.cancelled()).await {
        Either::First(booked) => booked.map(|()| "booked".to_owned()),
        Either::Second(reason) => {
            ctx.activity::<_, ()>("unbook", ()).await?;
            Ok(format!("undone: {reason}"))
        }
    }
}

#[test]
fn code_that_waits_for_cancellation_cleans_up_first() {
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", saga)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        let turn = script.turn(vec![cancel("too late"), cancel("again")]);
        assert_eq!(turn.end, TurnEnd::Open);
        assert_eq!(turn.effects.cancelled_activities, [3]);
        let unbook = turn.effects.activities[0].event;
        assert_eq!(script.turn(vec![done(unbook, ())]).end, completed("undone: too late"));
        let event_texts = [
            "started",
            "run book null",
            "cancel too late",
            "cancel run 3",
            "run unbook null",
            "ran 7 null",
            "completed \"undone: too late\"",
        ];
        assert_eq!(script.event_texts(), event_texts);
    }
}

#[test]
fn dropping_the_cancellation_future_ends_its_effect() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        select2(ctx.event::<()>("go"), ctx.cancelled()).await;
        ctx.event::<()>("never").await
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    script.turn(vec![raised("go", ())]);
    assert_eq!(script.turn(vec![cancel("stop")]).end, TurnEnd::Cancelled("stop".into()));
}

#[test]
fn after_on_cancel_the_code_continues_until_it_checks() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        ctx.on_cancel();
        let mut rounds = 0;
        while !ctx.is_cancelled() {
            ctx.sleep(Duration::from_secs(1)).await;
            rounds += 1;
        }
        Ok::<_, FlowError>(rounds)
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        script.turn(vec![fired(3)]);
        assert_eq!(script.turn(vec![cancel("stop")]).end, TurnEnd::Open);
        assert_eq!(script.turn(vec![fired(6)]).end, completed(2));
    }
}

#[test]
fn the_error_of_a_cancelled_child_does_not_cancel_the_parent() {
    let flow =
        |ctx: OrchestrationContext, (): ()| async move { ctx.activity::<_, ()>("part", ()).await };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    let error = FlowError::new(FailureKind::Cancelled, "part was cancelled");
    assert_eq!(script.turn(vec![failed(3, error.clone())]).end, TurnEnd::Failed(error));
}

#[test]
fn code_that_cleans_up_and_fails_as_cancelled_counts_as_cancelled() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let reason = ctx.cancelled().await;
        Err::<(), _>(FlowError::new(FailureKind::Cancelled, reason))
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    assert_eq!(script.turn(vec![cancel("stop")]).end, TurnEnd::Cancelled("stop".into()));
}
