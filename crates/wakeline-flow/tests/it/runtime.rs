//! Tests of a whole runtime over the oracle, with tokio's clock paused.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wakeline_core::ApplicationRef;
use wakeline_flow::provider::{Provider, StoreProvider, StoreProviderOptions};
use wakeline_flow::{
    ActivityContext, Client, ClientError, FlowError, HookSend, OrchestrationContext, Prefetch,
    Registry, Runtime, RuntimeOptions, Started, Status,
};
use wakeline_store::hook::{
    HookApplications as _, HookEndpoints as _, HookMessageFilter, HookReader as _,
};
use wakeline_testkit::hook_conformance as hook;
use wakeline_testkit::oracle::MemoryStore;

const LONG: Duration = Duration::from_secs(3600);

struct Env {
    store: Arc<MemoryStore>,
    provider: Arc<dyn Provider>,
    client: Client,
}

fn env() -> Env {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider: Arc<dyn Provider> =
        Arc::new(StoreProvider::new(store.clone(), StoreProviderOptions::default()));
    Env { store, client: Client::new(provider.clone()), provider }
}

impl Env {
    async fn run(&self, registry: Registry) -> Runtime {
        self.run_with(registry, RuntimeOptions::default()).await
    }

    async fn run_with(&self, registry: Registry, options: RuntimeOptions) -> Runtime {
        Runtime::start_with_options(self.provider.clone(), registry, options)
            .await
            .expect("the options are valid")
    }
}

async fn greet(_: ActivityContext, name: String) -> Result<String, FlowError> {
    Ok(format!("hello {name}"))
}

async fn one_activity(ctx: OrchestrationContext, name: String) -> Result<String, FlowError> {
    ctx.call(greet, name).await
}

fn greeting() -> Registry {
    Registry::builder()
        .orchestration("greeting", one_activity)
        .activity("greet", greet)
        .build()
        .expect("a registry")
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_runs_its_activity_and_returns() {
    let env = env();
    let runtime = env.run(greeting()).await;
    let started = env.client.start("g-1", "greeting", "ann").await.expect("started");
    assert_eq!(started, Started::New);
    let said: String = env.client.wait("g-1", LONG).await.expect("completed");
    assert_eq!(said, "hello ann");
    let again = env.client.start("g-1", "greeting", "bob").await.expect("idempotent");
    assert_eq!(again, Started::Exists);
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_one_activity_orchestration_is_four_commits() {
    let env = env();
    let runtime = env.run(greeting()).await;
    // All dispatchers have found nothing and wait.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before: u64 = env.store.flow_calls().values().sum();
    env.client.start("g-1", "greeting", "ann").await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let calls = env.store.flow_calls();
    assert_eq!(calls.values().sum::<u64>() - before, 4, "{calls:?}");
    let status = env.client.status("g-1").await.expect("read");
    assert_eq!(status.name(), "completed");
    runtime.shutdown(Duration::from_secs(1)).await;
}

/// Emits before and after an activity, and once to an unknown application.
async fn emitting(ctx: OrchestrationContext, name: String) -> Result<String, FlowError> {
    ctx.emit("shop", "greeting.begun", &name)?;
    ctx.emit("unknown", "greeting.begun", &name)?;
    let said = ctx.call(greet, name).await?;
    ctx.emit(HookSend::to("shop").channel("north"), "greeting.done", &said)?;
    Ok(said)
}

#[tokio::test(start_paused = true)]
async fn a_deleted_and_restarted_instance_emits_again() {
    let env = env();
    let shop = hook::application(Some("shop"));
    let (id, of) = (shop.id, ApplicationRef::Id(shop.id));
    env.store.create_application(shop, None).await.expect("an application");
    env.store.create_endpoint(&of, hook::endpoint(hook::plain()), None).await.expect("one");
    let registry =
        Registry::builder().orchestration("emitting", emitting).activity("greet", greet).build();
    let runtime = env.run(registry.expect("a registry")).await;
    let mut seen = HashSet::new();
    for life in 1..=2 {
        env.client.start("t", "emitting", "ann").await.expect("started");
        env.client.wait::<String>("t", LONG).await.expect("completed");
        let filter = HookMessageFilter { with_content: true, ..HookMessageFilter::default() };
        let stored = env.store.messages(id, filter, hook::first(9)).await.expect("read").items;
        assert_eq!(stored.len(), 2 * life);
        let new: Vec<_> = stored.iter().filter(|message| seen.insert(message.id)).collect();
        let types: Vec<_> = new.iter().map(|message| message.event_type.as_str()).collect();
        assert_eq!(types, ["greeting.begun", "greeting.done"]);
        assert_eq!(new[1].payload.as_deref(), Some(&br#""hello ann""#[..]));
        assert_eq!(new[1].channels, hook::channels(&["north"]));
        env.client.delete("t", false).await.expect("deleted");
    }
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_orchestration_makes_no_store_calls_and_wakes_on_time() {
    let env = env();
    let registry = Registry::builder()
        .orchestration("sleeper", async |ctx: OrchestrationContext, (): ()| {
            ctx.sleep(Duration::from_secs(500)).await;
            Ok::<_, FlowError>(())
        })
        .build()
        .expect("a registry");
    let runtime = env.run(registry).await;
    env.client.start("s", "sleeper", &()).await.expect("started");
    // The hub looks once when the lease of the first turn would have ended.
    tokio::time::sleep(Duration::from_secs(40)).await;
    let calls = || {
        let mut calls = env.store.flow_calls();
        calls.remove("sweep_flow");
        calls
    };
    let asleep = calls();
    tokio::time::sleep(Duration::from_secs(450)).await;
    assert_eq!(calls(), asleep, "nothing polls while it sleeps");
    env.client.wait::<()>("s", LONG).await.expect("woke up");
    let detail = env.client.status("s").await.expect("read");
    let instance = detail.instance().expect("it exists");
    let slept = instance.created_at.until(instance.ended_at.expect("ended"));
    assert!(slept >= Duration::from_secs(500), "never early: {slept:?}");
    assert!(slept < Duration::from_millis(500_100), "on time: {slept:?}");
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_counted_and_retried_without_turns() {
    let env = env();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let registry = Registry::builder()
        .orchestration("stubborn", async |ctx: OrchestrationContext, (): ()| {
            ctx.activity::<_, u32>("flaky", ()).attempts(3).await
        })
        .activity("flaky", move |ctx: ActivityContext, (): ()| {
            let tries = counted.clone();
            async move {
                tries.fetch_add(1, Ordering::SeqCst);
                match ctx.attempt() {
                    3 => Ok(ctx.attempt()),
                    attempt => Err(FlowError::application(format!("try {attempt}"))),
                }
            }
        })
        .build()
        .expect("a registry");
    let runtime = env.run(registry).await;
    env.client.start("f", "stubborn", &()).await.expect("started");
    let attempt: u32 = env.client.wait("f", LONG).await.expect("the third try succeeds");
    assert_eq!((attempt, tries.load(Ordering::SeqCst)), (3, 3));
    let turns = env.client.history("f", None).await.expect("read");
    let count =
        turns.iter().filter(|event| format!("{:?}", event.kind).starts_with("Turn")).count();
    assert_eq!(count, 2, "retries make no turns: {turns:?}");
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn events_raised_before_the_start_are_delivered() {
    let env = env();
    let registry = Registry::builder()
        .orchestration("approval", async |ctx: OrchestrationContext, (): ()| {
            let first: String = ctx.event("approved").await?;
            let second: String = ctx.event("approved").await?;
            Ok::<_, FlowError>(format!("{first}, {second}"))
        })
        .build()
        .expect("a registry");
    let unknown = env.client.raise_event("a", "approved", "early").await;
    assert!(matches!(unknown, Err(ClientError::NotFound(_))), "{unknown:?}");
    env.client.raise_event_early("a", "approved", "early").await.expect("kept");
    let runtime = env.run(registry).await;
    env.client.start("a", "approval", &()).await.expect("started");
    env.client.raise_event("a", "approved", "later").await.expect("delivered");
    let said: String = env.client.wait("a", LONG).await.expect("completed");
    assert_eq!(said, "early, later");
    let late = env.client.raise_event("a", "approved", "too late").await;
    assert!(matches!(late, Err(ClientError::Ended(_))), "{late:?}");
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_an_unknown_instance_fails_and_does_not_affect_a_later_start() {
    let env = env();
    let registry = Registry::builder()
        .orchestration("plain", async |_: OrchestrationContext, (): ()| Ok::<_, FlowError>(7))
        .build()
        .expect("a registry");
    let cancelled = env.client.cancel("misspelt", "not needed").await;
    assert!(matches!(cancelled, Err(ClientError::NotFound(_))), "{cancelled:?}");
    let runtime = env.run(registry).await;
    env.client.start("misspelt", "plain", &()).await.expect("started");
    let value: u32 = env.client.wait("misspelt", LONG).await.expect("completed");
    assert_eq!(value, 7);
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn children_return_their_results_to_their_parents() {
    let env = env();
    let registry = Registry::builder()
        .orchestration("parent", async |ctx: OrchestrationContext, n: u32| {
            let mut sum = 0;
            for i in 0..n {
                sum += ctx.child::<_, u32>("child", i).await?;
            }
            Ok::<_, FlowError>(sum)
        })
        .orchestration("child", async |ctx: OrchestrationContext, n: u32| {
            if n == 9 {
                return Err(FlowError::application("nine is too much"));
            }
            ctx.sleep(Duration::from_secs(1)).await;
            Ok(n)
        })
        .build()
        .expect("a registry");
    let runtime = env.run(registry).await;
    env.client.start("p", "parent", &4).await.expect("started");
    assert_eq!(env.client.wait::<u32>("p", LONG).await.expect("completed"), 6);
    env.client.start("q", "parent", &10).await.expect("started");
    let failed = env.client.wait::<u32>("q", LONG).await.expect_err("the tenth child fails");
    assert!(failed.to_string().contains("nine is too much"), "{failed}");
    assert_eq!(env.client.tree("p").await.expect("read").len(), 5);
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_eternal_loop_continues_as_new() {
    let env = env();
    let registry = Registry::builder()
        .orchestration("counter", async |ctx: OrchestrationContext, n: u32| {
            ctx.sleep(Duration::from_secs(10)).await;
            if n < 5 { ctx.continue_as_new(n + 1).await } else { Ok::<_, FlowError>(n) }
        })
        .build()
        .expect("a registry");
    let runtime = env.run(registry).await;
    env.client.start("c", "counter", &0).await.expect("started");
    assert_eq!(env.client.wait::<u32>("c", LONG).await.expect("completed"), 5);
    assert_eq!(env.client.executions("c").await.expect("read").len(), 6);
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn mismatching_code_suspends_and_matching_code_resumes() {
    let env = env();
    let first = Registry::builder()
        .orchestration("changing", async |ctx: OrchestrationContext, (): ()| {
            ctx.sleep(Duration::from_secs(10)).await;
            let _: String = ctx.event("go").await?;
            Ok::<_, FlowError>(1)
        })
        .build()
        .expect("a registry");
    let runtime = env.run(first).await;
    env.client.start("x", "changing", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(11)).await;
    runtime.shutdown(Duration::from_secs(1)).await;
    let second = Registry::builder()
        .orchestration("changing", async |ctx: OrchestrationContext, (): ()| {
            let _: String = ctx.event("go").await?;
            Ok::<_, FlowError>(2)
        })
        .build()
        .expect("a registry");
    let runtime = env.run(second).await;
    env.client.raise_event("x", "go", "").await.expect("sent");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let Status::Running(held) = env.client.status("x").await.expect("read") else {
        panic!("it has not ended")
    };
    let reason = held.suspended.expect("suspended");
    assert!(reason.contains("history") && reason.contains("code"), "{reason}");
    runtime.shutdown(Duration::from_secs(1)).await;
    let third = Registry::builder()
        .orchestration("changing", async |ctx: OrchestrationContext, (): ()| {
            ctx.sleep(Duration::from_secs(10)).await;
            let _: String = ctx.event("go").await?;
            Ok::<_, FlowError>(3)
        })
        .build()
        .expect("a registry");
    let runtime = env.run(third).await;
    assert_eq!(env.client.wait::<u32>("x", LONG).await.expect("completed"), 3);
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_an_instance_cancels_its_activity() {
    let env = env();
    let cancelled = Arc::new(AtomicU32::new(0));
    let counted = cancelled.clone();
    let registry = Registry::builder()
        .orchestration("long", async |ctx: OrchestrationContext, (): ()| {
            ctx.activity::<_, ()>("forever", ()).await
        })
        .activity("forever", move |ctx: ActivityContext, (): ()| {
            let cancelled = counted.clone();
            async move {
                ctx.cancelled().await;
                cancelled.fetch_add(1, Ordering::SeqCst);
                Err::<(), _>(FlowError::application("cancelled"))
            }
        })
        .build()
        .expect("a registry");
    let runtime = env.run(registry).await;
    env.client.start("l", "long", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    env.client.cancel("l", "not needed").await.expect("requested");
    let ended = env.client.wait_for_end("l", LONG).await.expect("waited");
    assert_eq!(ended.name(), "cancelled");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(cancelled.load(Ordering::SeqCst), 1, "its worker noticed at the next renewal");
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn unregistered_names_stay_pending_without_a_busy_loop() {
    let env = env();
    let runtime = env.run(greeting()).await;
    env.client.start("u", "unknown", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let calls = env.store.flow_calls();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(env.store.flow_calls(), calls);
    assert_eq!(env.client.status("u").await.expect("read").name(), "pending");
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn prefetched_items_keep_their_leases_and_are_given_back_at_shutdown() {
    let env = env();
    let registry = Registry::builder()
        .orchestration("two", async |ctx: OrchestrationContext, (): ()| {
            let slow = (0..2).map(|n| ctx.activity::<_, u32>("slow", n).start());
            let done = wakeline_flow::join_all(slow).await;
            done.into_iter().sum::<Result<u32, FlowError>>()
        })
        .activity("slow", async |ctx: ActivityContext, n: u32| {
            tokio::time::sleep(Duration::from_secs(100)).await;
            Ok::<_, FlowError>(n + ctx.attempt())
        })
        .build()
        .expect("a registry");
    let options = RuntimeOptions {
        worker_concurrency: 1,
        prefetch: Prefetch::Fixed(1),
        ..Default::default()
    };
    let runtime = env.run_with(registry, options).await;
    env.client.start("t", "two", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(50)).await;
    let depths = env.client.depths().await.expect("read");
    assert_eq!((depths.leased_work, depths.work), (2, 0), "one runs, one is prefetched");
    // Without renewal both leases would have ended long ago; a second attempt would change the sum.
    assert_eq!(env.client.wait::<u32>("t", LONG).await.expect("completed"), 1 + 1 + 1);
    env.client.start("u", "two", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(50)).await;
    runtime.shutdown(Duration::from_secs(1)).await;
    let depths = env.client.depths().await.expect("read");
    assert_eq!(depths.leased_work, 0, "nothing is left to its lease");
}
