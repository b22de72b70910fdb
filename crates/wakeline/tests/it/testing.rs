//! Tests of the helpers for users' tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wakeline::testing::{
    ActivityEnv, TestEnv, TestError, TransitionPhase, crash_everywhere, export, replay_folder, save,
};
use wakeline::{
    ActivityContext, Backoff, FlowError, OrchestrationContext, Registry, RegistryBuilder,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn registry(build: impl FnOnce(RegistryBuilder) -> RegistryBuilder) -> Registry {
    build(Registry::builder()).build().expect("no name twice")
}

async fn patient(ctx: OrchestrationContext, days: u32) -> Result<i64, FlowError> {
    let began = ctx.now();
    for _ in 0..days {
        ctx.sleep(DAY).await;
    }
    Ok(i64::try_from(began.until(ctx.now()).as_secs()).expect("days"))
}

#[tokio::test]
async fn thirty_days_pass_at_once() {
    let env = TestEnv::new(registry(|r| r.orchestration("patient", patient))).await;
    let began = env.now();
    let slept: i64 = env.run("patient", &30).await.expect("completed");
    assert_eq!(slept, 30 * 24 * 3600);
    assert_eq!(began.until(env.now()), 30 * DAY);
}

#[tokio::test]
async fn the_clock_stands_still_unless_a_test_waits_or_advances_it() {
    let code = async |ctx: OrchestrationContext, (): ()| {
        let answer = ctx.timeout(DAY, ctx.event::<String>("answer")).await;
        answer.unwrap_or_else(|| Ok("no answer".to_owned()))
    };
    let env = TestEnv::new(registry(|r| r.orchestration("question", code))).await;
    env.client().start("a", "question", &()).await.expect("started");
    env.settle().await.expect("settled");
    env.client().raise_event("a", "answer", "ann").await.expect("raised");
    assert_eq!(env.wait::<String>("a").await.expect("completed"), "ann");
    assert_eq!(env.run::<String>("question", &()).await.expect("completed"), "no answer");
}

#[tokio::test]
async fn advancing_the_clock_runs_everything_at_its_own_time() {
    let code = async |ctx: OrchestrationContext, (): ()| {
        let began = ctx.now();
        let mut hours = Vec::new();
        for _ in 0..3 {
            ctx.sleep(Duration::from_secs(3600)).await;
            ctx.activity::<_, ()>("note", ()).await?;
            hours.push(began.until(ctx.now()).as_secs() / 3600);
            ctx.kv_set("hours", hours.clone())?;
        }
        ctx.event::<()>("never").await
    };
    let env = TestEnv::builder(registry(|r| r.orchestration("hourly", code)))
        .mock("note", |(): ()| Ok(()))
        .start()
        .await;
    env.client().start("h", "hourly", &()).await.expect("started");
    let began = env.now();
    env.advance(Duration::from_secs(2 * 3600 + 1800)).await.expect("advanced");
    let hours: Option<Vec<u64>> = env.client().kv_get("h", "hours").await.expect("read");
    assert_eq!(hours, Some(vec![1, 2]));
    assert_eq!(env.calls::<()>("note").len(), 2);
    env.advance_to(began.plus(DAY)).await.expect("advanced");
    assert_eq!(began.until(env.now()), DAY);
    let hours: Option<Vec<u64>> = env.client().kv_get("h", "hours").await.expect("read");
    assert_eq!(hours, Some(vec![1, 2, 3]));
}

#[tokio::test]
async fn a_running_activity_keeps_its_lease_while_a_test_advances_the_clock() {
    let (tries, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (counted, opened) = (tries.clone(), gate.clone());
    let env = TestEnv::new(registry(|r| {
        r.orchestration("slow", async |ctx: OrchestrationContext, (): ()| {
            ctx.activity::<_, ()>("wait", ()).await
        })
        .activity("wait", move |_: ActivityContext, (): ()| {
            let (tries, gate) = (counted.clone(), opened.clone());
            async move {
                tries.fetch_add(1, Ordering::SeqCst);
                gate.notified().await;
                Ok::<_, FlowError>(())
            }
        })
    }))
    .await;
    env.client().start("s", "slow", &()).await.expect("started");
    env.advance(10 * DAY).await.expect("advanced");
    gate.notify_one();
    env.wait::<()>("s").await.expect("completed");
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn retry_delays_pass_in_skipped_time() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let env = TestEnv::builder(registry(|r| {
        r.orchestration("stubborn", async |ctx: OrchestrationContext, (): ()| {
            let backoff = Backoff::Fixed { delay_ms: 3_600_000 };
            ctx.activity::<_, String>("flaky", 1).attempts(5).backoff(backoff).await
        })
    }))
    .mock("flaky", move |_: u32| match counted.fetch_add(1, Ordering::SeqCst) {
        4 => Ok("at last".to_owned()),
        failed => Err(FlowError::application(format!("try {failed}"))),
    })
    .start()
    .await;
    assert_eq!(env.run::<String>("stubborn", &()).await.expect("completed"), "at last");
    assert_eq!(env.calls::<u32>("flaky"), [1; 5]);
}

#[tokio::test]
async fn a_mock_replaces_an_activity() {
    async fn charge(_: ActivityContext, _: u32) -> Result<u32, FlowError> {
        panic!("the real one")
    }
    let env = TestEnv::builder(registry(|r| {
        r.activity("charge", charge)
            .orchestration("pay", async |ctx: OrchestrationContext, n: u32| {
                ctx.call(charge, n).await
            })
    }))
    .mock("charge", |n: u32| Ok(n + 1))
    .start()
    .await;
    assert_eq!(env.run::<u32>("pay", &1).await.expect("completed"), 2);
}

async fn stuck_with(registry: Registry) -> String {
    let env = TestEnv::new(registry).await;
    let error = env.run::<()>("flow", &()).await.expect_err("it cannot end");
    assert!(matches!(error, TestError::Stuck { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_run_that_cannot_continue_reports_what_it_waits_for() {
    let words = stuck_with(registry(|r| {
        r.orchestration("flow", async |ctx: OrchestrationContext, (): ()| {
            ctx.event::<()>("approved").await
        })
    }))
    .await;
    assert!(words.contains("event \"approved\"") && words.contains("testing.rs:"), "{words}");

    let words = stuck_with(registry(|r| {
        r.orchestration("flow", async |ctx: OrchestrationContext, (): ()| {
            ctx.activity::<_, ()>("missing", ()).await
        })
        .activity("other", async |_: ActivityContext, (): ()| Ok::<_, FlowError>(()))
        .activity_elsewhere("missing")
    }))
    .await;
    assert!(words.contains("activity missing"), "{words}");

    let words = stuck_with(registry(|r| {
        r.orchestration("flow", async |ctx: OrchestrationContext, (): ()| {
            ctx.activity::<_, ()>("missing", ()).await
        })
    }))
    .await;
    assert!(words.contains("calls activity `missing` at "), "{words}");

    let words = stuck_with(registry(|r| {
        r.orchestration("flow", async |ctx: OrchestrationContext, (): ()| {
            ctx.child::<_, ()>("deaf", ()).id("below").await
        })
        .orchestration("deaf", async |ctx: OrchestrationContext, (): ()| {
            ctx.event::<()>("call").await
        })
    }))
    .await;
    assert!(words.contains("child below of deaf"), "{words}");
    assert!(words.contains("below: it waits for event \"call\""), "{words}");

    let words = stuck_with(registry(|r| r.orchestration("other", patient))).await;
    assert!(words.contains("no code for it is registered"), "{words}");
}

#[tokio::test]
async fn nondeterministic_code_fails_its_test() {
    let turns = Arc::new(AtomicU32::new(0));
    let words = stuck_with(registry(|r| {
        r.orchestration("flow", move |ctx: OrchestrationContext, (): ()| {
            let turns = turns.clone();
            async move {
                let name = format!("step-{}", turns.fetch_add(1, Ordering::SeqCst));
                ctx.set_status(name);
                ctx.sleep(DAY).await;
                Ok::<_, FlowError>(())
            }
        })
    }))
    .await;
    assert!(words.contains("suspended") && words.contains("step-0"), "{words}");
}

async fn checkout(ctx: OrchestrationContext, order: u32) -> Result<String, FlowError> {
    let ticket: String = ctx.activity("reserve", order).await?;
    ctx.kv_set("ticket", &ticket)?;
    ctx.sleep(DAY).await;
    let paid: String = ctx.activity("charge", ticket).await?;
    ctx.child("mail", paid).await
}

async fn mail(ctx: OrchestrationContext, text: String) -> Result<String, FlowError> {
    ctx.activity("send", text).await
}

fn shop() -> wakeline::testing::TestEnvBuilder {
    TestEnv::builder(registry(|r| {
        r.orchestration("checkout", checkout).orchestration("mail", mail)
    }))
    .mock("reserve", |order: u32| Ok(format!("ticket {order}")))
    .mock("charge", |ticket: String| Ok(format!("{ticket}, paid")))
    .mock("send", |text: String| Ok(format!("{text}, sent")))
}

#[tokio::test]
async fn a_scenario_killed_at_every_transition_returns_the_same_result() {
    let crashes = crash_everywhere(shop, async |env: &TestEnv| {
        env.run::<String>("checkout", &7).await.expect("completed")
    })
    .await;
    assert_eq!(crashes.result, "ticket 7, paid, sent");
    assert!(crashes.kills >= 20, "{crashes:?}");
}

#[tokio::test]
#[should_panic(expected = "but undisturbed")]
async fn a_scenario_with_another_result_after_a_kill_fails() {
    let calls = AtomicU32::new(0);
    crash_everywhere(shop, async |env: &TestEnv| {
        let result = env.run::<String>("checkout", &7).await.expect("completed");
        (result, calls.fetch_add(1, Ordering::SeqCst).min(3))
    })
    .await;
}

#[tokio::test]
async fn a_crashed_environment_leaves_its_leases_and_another_continues() {
    let env = shop().start().await;
    // The start and the first turn: the activity was leased in the same commit, and is not run.
    env.crash_at(TransitionPhase::After, 2);
    let error = env.run::<String>("checkout", &7).await.expect_err("killed");
    assert!(matches!(error, TestError::Crashed), "{error}");
    let before = env.now();
    let env = env.restart(shop()).await;
    assert!(before.until(env.now()) >= Duration::from_secs(30), "past the leases");
    assert_eq!(env.run::<String>("checkout", &7).await.expect("completed"), "ticket 7, paid, sent");
    assert!(env.transitions() > 5);
}

#[tokio::test]
async fn saved_histories_replay_only_with_the_code_that_wrote_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let looping = |last: u32| {
        registry(|r| {
            r.orchestration("loop", move |ctx: OrchestrationContext, n: u32| async move {
                let before: Option<u32> = ctx.kv_get("sum")?;
                let sum = before.unwrap_or_default() + n;
                ctx.kv_set("sum", sum)?;
                if sum > last { Ok::<_, FlowError>(sum) } else { ctx.continue_as_new(n + 1).await }
            })
        })
    };
    let env = TestEnv::new(looping(5)).await;
    assert_eq!(env.run_as::<u32>("l/1", "loop", &1).await.expect("completed"), 6);
    let histories = export(env.client(), "l/1").await.expect("exported");
    assert_eq!(histories.len(), 3);
    assert_eq!(histories[2].kv.len(), 1, "what earlier executions left");
    let files = save(env.client(), "l/1", folder.path()).await.expect("saved");
    assert_eq!(files[0].file_name().expect("a name"), "l_1-1.json");
    assert_eq!(replay_folder(folder.path(), &looping(5)).expect("fits"), 3);
    let error = replay_folder(folder.path(), &looping(2)).expect_err("ends earlier");
    assert_eq!(error.failures().len(), 1);
    let words = format!("{error:?}");
    assert!(words.starts_with("1 of 3 histories cannot be replayed"), "{words}");
    assert!(words.contains("l_1-2.json") && words.contains("| code"), "{words}");
    let empty = tempfile::tempdir().expect("a folder");
    replay_folder(empty.path(), &looping(5)).expect_err("nothing to check is an error");
}

#[tokio::test]
async fn an_activity_runs_alone_with_its_context() {
    async fn name(ctx: ActivityContext, n: u32) -> Result<String, FlowError> {
        if ctx.is_cancelled() {
            return Err("cancelled".into());
        }
        Ok(format!("{} {n} try {}", ctx.name(), ctx.attempt()))
    }
    let env = ActivityEnv::new().attempt(2);
    assert_eq!(env.run(name, 7).await, Ok("name 7 try 2".to_owned()));
    env.cancel();
    assert_eq!(env.run(name, 7).await, Err("cancelled".into()));
}
