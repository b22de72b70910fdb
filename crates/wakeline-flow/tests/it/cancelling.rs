//! Cancellation, and code that looks after it.

use std::time::Duration;

use wakeline_flow::{Either, End, FailureKind, FlowError, OrchestrationContext, select2};

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
        assert_eq!(turn.end, End::Open);
        assert_eq!(turn.effects.cancelled_activities, [3]);
        let unbook = turn.effects.activities[0].event;
        assert_eq!(script.turn(vec![done(unbook, ())]).end, completed("undone: too late"));
        let told = [
            "started",
            "run book null",
            "cancel too late",
            "cancel run 3",
            "run unbook null",
            "ran 7 null",
            "completed \"undone: too late\"",
        ];
        assert_eq!(script.told(), told);
    }
}

#[test]
fn interest_in_cancellation_ends_with_its_future() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        select2(ctx.event::<()>("go"), ctx.cancelled()).await;
        ctx.event::<()>("never").await
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    script.turn(vec![raised("go", ())]);
    assert_eq!(script.turn(vec![cancel("stop")]).end, End::Cancelled("stop".into()));
}

#[test]
fn code_that_said_it_cares_goes_on_until_it_asks() {
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
        assert_eq!(script.turn(vec![cancel("stop")]).end, End::Open);
        assert_eq!(script.turn(vec![fired(6)]).end, completed(2));
    }
}

#[test]
fn error_of_a_cancelled_child_is_no_cancellation_of_the_parent() {
    let flow =
        |ctx: OrchestrationContext, (): ()| async move { ctx.activity::<_, ()>("part", ()).await };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    let error = FlowError::new(FailureKind::Cancelled, "part was cancelled");
    assert_eq!(script.turn(vec![failed(3, error.clone())]).end, End::Failed(error));
}

#[test]
fn code_that_cleans_up_and_fails_as_cancelled_counts_as_cancelled() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let reason = ctx.cancelled().await;
        Err::<(), _>(FlowError::new(FailureKind::Cancelled, reason))
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    assert_eq!(script.turn(vec![cancel("stop")]).end, End::Cancelled("stop".into()));
}
