//! Tests of large fan-ins, live and on replay.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use wakeline_flow::{FlowError, FlowMessage, OrchestrationContext, Registry, join_all};

use crate::script::{Script, child_done, completed, done, registry};

async fn sum(ctx: OrchestrationContext, n: u64) -> Result<u64, FlowError> {
    let all = join_all((0..n).map(|i| ctx.activity::<_, u64>("square", i))).await;
    all.into_iter().sum()
}

async fn sum_with_futures_util(ctx: OrchestrationContext, n: u64) -> Result<u64, FlowError> {
    let calls = (0..n).map(|i| ctx.activity::<_, u64>("square", i).start());
    let all = futures_util::future::join_all(calls).await;
    all.into_iter().sum()
}

async fn sum_unordered(ctx: OrchestrationContext, n: u64) -> Result<u64, FlowError> {
    let calls = (0..n).map(|i| ctx.activity::<_, u64>("square", i).start());
    let mut calls: FuturesUnordered<_> = calls.collect();
    let mut total = 0;
    while let Some(square) = calls.next().await {
        total += square?;
        ctx.kv_set("total", total)?;
    }
    Ok(total)
}

async fn sum_children(ctx: OrchestrationContext, n: u64) -> Result<u64, FlowError> {
    let all = join_all((0..n).map(|i| ctx.child::<_, u64>("square", i))).await;
    all.into_iter().sum()
}

fn fans_in(registry: &Registry, n: u64, answer: impl Fn(u64) -> FlowMessage, per_turn: usize) {
    let mut script = Script::new(registry, n);
    script.turn(vec![]);
    let mut answers: Vec<u64> = (3..3 + n).collect();
    // The results arrive neither in the order of the calls nor in its reverse.
    answers.sort_by_key(|event| event.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut end = wakeline_flow::TurnEnd::Open;
    for batch in answers.chunks(per_turn) {
        end = script.turn(batch.iter().map(|event| answer(*event)).collect()).end;
    }
    assert_eq!(end, completed(n));
    assert!(script.replayed().expect("replays").has_ended());
}

#[test]
fn ten_thousand_activities_fan_in_in_one_turn() {
    let registry = registry(|r| r.orchestration("flow", sum));
    fans_in(&registry, 10_000, |event| done(event, 1), 10_000);
}

#[test]
fn ten_thousand_activities_fan_in_over_many_turns() {
    let registry = registry(|r| r.orchestration("flow", sum));
    fans_in(&registry, 10_000, |event| done(event, 1), 7);
}

#[test]
fn a_thousand_and_twenty_four_children_fan_in() {
    let registry = registry(|r| r.orchestration("flow", sum_children));
    fans_in(&registry, 1_024, |event| child_done(event, 1), 100);
}

#[test]
fn combinators_of_futures_util_fan_in_as_well() {
    let joined = registry(|r| r.orchestration("flow", sum_with_futures_util));
    fans_in(&joined, 10_000, |event| done(event, 1), 1_000);
    let unordered = registry(|r| r.orchestration("flow", sum_unordered));
    fans_in(&unordered, 2_000, |event| done(event, 1), 300);
}

#[test]
fn a_long_history_suggests_continue_as_new_and_keeps_running() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let mut rounds = 0_u32;
        while !ctx.suggests_continue_as_new() {
            ctx.activity::<_, ()>("round", rounds).await?;
            rounds += 1;
        }
        ctx.activity::<_, ()>("one more", ()).await?;
        Ok::<_, FlowError>(rounds)
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let mut turn = script.turn(vec![]);
    while let Some(task) = turn.effects.activities.first() {
        turn = script.turn(vec![done(task.event, ())]);
    }
    assert_eq!(turn.end, completed(3_333));
    assert!(script.replayed().is_ok());
}
