//! Tests which worker gets which activity, with tokio's clock paused.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wakeline_flow::provider::{Provider, StoreProvider, StoreProviderOptions, WorkFilter};
use wakeline_flow::{
    ActivityContext, Client, ClientError, FailureKind, FlowError, OrchestrationContext, Registry,
    RegistryBuilder, Runtime, RuntimeOptions, UNCLAIMED_AFTER,
};
use wakeline_testkit::oracle::MemoryStore;

const LONG: Duration = Duration::from_secs(3600);

/// Creates the provider of one of several processes over a store.
fn node(store: &Arc<MemoryStore>) -> Arc<dyn Provider> {
    let store = Arc::clone(store);
    Arc::new(StoreProvider::new(store, StoreProviderOptions::default()))
}

async fn run(provider: Arc<dyn Provider>, registry: RegistryBuilder) -> Runtime {
    let registry = registry.build().expect("no duplicate names");
    Runtime::start(provider, registry).await.expect("started")
}

async fn double(_: ActivityContext, n: u32) -> Result<u32, FlowError> {
    Ok(2 * n)
}

async fn doubles(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    ctx.activity("double", n).await
}

#[tokio::test(start_paused = true)]
async fn an_activity_runs_at_once_on_the_only_runtime_that_has_it() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    // The runtimes share the waiters of one process, so each of them could get the activity.
    let provider = node(&store);
    let mut runtimes = Vec::new();
    for _ in 0..9 {
        let other = Registry::builder().activity("other", double).activity_elsewhere("double");
        runtimes.push(run(Arc::clone(&provider), other.orchestration("doubles", doubles)).await);
    }
    runtimes.push(run(Arc::clone(&provider), Registry::builder().activity("double", double)).await);
    let client = Client::new(provider);
    let began = Instant::now();
    for n in 0..20 {
        let id = format!("i-{n}");
        client.start(&id, "doubles", &n).await.expect("started");
        let doubled: u32 = client.wait(&id, LONG).await.expect("completed");
        assert_eq!(doubled, 2 * n);
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    for runtime in runtimes {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_its_code_does_not_touch_an_activity() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = node(&store);
    let other = Registry::builder().orchestration("doubles", doubles).activity("other", double);
    let without = run(Arc::clone(&provider), other.activity_elsewhere("double")).await;
    let client = Client::new(Arc::clone(&provider));
    client.start("i", "doubles", &21).await.expect("started");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(store.flow_calls().get("abandon"), None, "nothing was taken and given back");
    let with = run(provider, Registry::builder().activity("double", double)).await;
    let began = Instant::now();
    let doubled: u32 = client.wait("i", LONG).await.expect("completed");
    assert_eq!((doubled, began.elapsed()), (42, Duration::ZERO));
    for runtime in [with, without] {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

/// Runs a child and an activity that no process has, and returns how each failed.
async fn misspelt(ctx: OrchestrationContext, (): ()) -> Result<Vec<String>, FlowError> {
    let child = ctx.child::<_, ()>("chlid", ()).await;
    let activity = ctx.activity::<_, ()>("dubble", 1).await;
    let message = [child, activity].map(|failed| match failed {
        Err(error) => format!("{:?}: {}", error.kind, error.message),
        Ok(()) => "it ran".to_owned(),
    });
    Ok(message.to_vec())
}

fn reason(status: &wakeline_flow::Status) -> Option<String> {
    let unclaimed = status.instance()?.unclaimed.as_ref()?;
    Some(unclaimed.what.to_string())
}

#[tokio::test(start_paused = true)]
async fn unclaimed_work_is_reported_with_its_instance() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = node(&store);
    let registry = Registry::builder().orchestration("doubles", doubles);
    let runtime = run(Arc::clone(&provider), registry.activity_elsewhere("double")).await;
    let client = Client::new(provider);
    client.start("misspelt", "dubbles", &1).await.expect("started");
    client.start("running", "doubles", &1).await.expect("started");
    tokio::time::sleep(UNCLAIMED_AFTER - Duration::from_secs(1)).await;
    for instance in ["misspelt", "running"] {
        let status = client.status(instance).await.expect("read");
        assert_eq!(reason(&status), None, "{instance}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let message = async |instance| reason(&client.status(instance).await.expect("read"));
    let orchestration = "no worker has claimed orchestration `dubbles`";
    assert_eq!(message("misspelt").await.as_deref(), Some(orchestration));
    assert_eq!(
        message("running").await.as_deref(),
        Some("no worker has claimed activity `double`")
    );
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn unclaimed_work_fails_at_its_deadline() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = node(&store);
    let deadline = Some(Duration::from_secs(60));
    let options = RuntimeOptions { unclaimed_timeout: deadline, ..RuntimeOptions::default() };
    let registry = Registry::builder().orchestration("misspelt", misspelt);
    let registry = registry.anything_elsewhere().build();
    let registry = registry.expect("no duplicate names");
    let started = Runtime::start_with_options(Arc::clone(&provider), registry, options).await;
    let runtime = started.expect("valid options");
    let client = Client::new(provider);
    client.start("parent", "misspelt", &()).await.expect("started");
    client.start("alone", "mispelt", &()).await.expect("started");
    let message: Vec<String> = client.wait("parent", LONG).await.expect("completed");
    let expected = [
        "Timeout: no worker has claimed orchestration `chlid` within 60000 ms",
        "Timeout: no worker has claimed activity `dubble` within 60000 ms",
    ];
    assert_eq!(message, expected);
    let failed = client.wait::<()>("alone", LONG).await.expect_err("it has failed");
    let ClientError::Failed { error, .. } = failed else { panic!("{failed}") };
    assert_eq!(error.kind, FailureKind::Timeout);
    assert_eq!(client.status("alone").await.expect("read").name(), "failed");
    runtime.shutdown(Duration::from_secs(1)).await;
}

/// Waits for the second of two activities that no process has, and returns how it failed.
async fn second(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    let _first = ctx.activity::<_, ()>("dubble", 1).start();
    match ctx.activity::<_, ()>("dubble", 2).session("s").await {
        Err(error) => Ok(error.message),
        Ok(()) => Ok("it ran".to_owned()),
    }
}

/// The older activity of the same name was given back a while ago, so it is not late.
#[tokio::test(start_paused = true)]
async fn a_late_activity_fails_behind_one_that_is_not_late() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = node(&store);
    let deadline = Some(Duration::from_secs(60));
    let options = RuntimeOptions { unclaimed_timeout: deadline, ..RuntimeOptions::default() };
    let registry = Registry::builder().orchestration("second", second);
    let registry = registry.activity_elsewhere("dubble").build();
    let registry = registry.expect("no duplicate names");
    let started = Runtime::start_with_options(Arc::clone(&provider), registry, options).await;
    let runtime = started.expect("valid options");
    let client = Client::new(Arc::clone(&provider));
    client.start("i", "second", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(50)).await;
    let fetched = provider.fetch_work_item_for(&WorkFilter::default(), LONG, None).await;
    let first = fetched.expect("fetched").expect("one without a session waits");
    provider.abandon_work_item(&first.lock_token, None, true).await.expect("given back");
    let message: String = client.wait("i", Duration::from_secs(40)).await.expect("completed");
    assert_eq!(message, "no worker has claimed activity `dubble` within 60000 ms");
    runtime.shutdown(Duration::from_secs(1)).await;
}

async fn calls(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    ctx.call(double, n).await
}

async fn starts_a_child(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    ctx.child("doubles", n).await
}

async fn sends_to_a_tag(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    ctx.activity("double", n).tag("gpu").await
}

/// Starts an instance, waits until it is suspended, and returns the reason.
async fn suspended(client: &Client, name: &str) -> String {
    client.start("i", name, &21).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = client.status("i").await.expect("read");
    let instance = status.instance().expect("it was started");
    assert_eq!(instance.unclaimed, None);
    assert!(client.history("i", None).await.expect("read").is_empty(), "nothing is recorded");
    instance.suspended.clone().expect("it is suspended")
}

#[tokio::test(start_paused = true)]
async fn calling_an_unregistered_activity_suspends_until_a_runtime_has_it() {
    let provider = node(&Arc::new(MemoryStore::with_tokio_clock()));
    let client = Client::new(Arc::clone(&provider));
    let registry = || Registry::builder().orchestration("doubles", doubles);
    let without = run(Arc::clone(&provider), registry().activity("duoble", double)).await;
    let reason = suspended(&client, "doubles").await;
    for part in [
        "activity `double` at crates/wakeline-flow/tests/it/routing.rs:",
        "did you mean `duoble`?",
        "register it with `activity`",
        "`activity_elsewhere`",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    without.shutdown(Duration::from_secs(1)).await;
    let with = run(provider, registry().activity("double", double)).await;
    let doubled: u32 = client.wait("i", LONG).await.expect("completed");
    assert_eq!(doubled, 42);
    with.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_function_suspends_until_it_is_declared_elsewhere() {
    let provider = node(&Arc::new(MemoryStore::with_tokio_clock()));
    let client = Client::new(Arc::clone(&provider));
    let registry = || Registry::builder().orchestration("calls", calls);
    let first = run(Arc::clone(&provider), registry()).await;
    let reason = suspended(&client, "calls").await;
    assert!(reason.contains("function `it::routing::double`, which is not"), "{reason}");
    first.shutdown(Duration::from_secs(1)).await;
    let second =
        run(Arc::clone(&provider), registry().activity_elsewhere_fn("double", double)).await;
    let worker = run(provider, Registry::builder().activity("double", double)).await;
    let doubled: u32 = client.wait("i", LONG).await.expect("completed");
    assert_eq!(doubled, 42);
    for runtime in [second, worker] {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_child_suspends_until_it_is_declared_elsewhere() {
    let provider = node(&Arc::new(MemoryStore::with_tokio_clock()));
    let client = Client::new(Arc::clone(&provider));
    let registry = || Registry::builder().orchestration("starts_a_child", starts_a_child);
    let first = run(Arc::clone(&provider), registry()).await;
    let reason = suspended(&client, "starts_a_child").await;
    assert!(reason.contains("child `doubles` at "), "{reason}");
    assert!(reason.contains("`orchestration_elsewhere`"), "{reason}");
    first.shutdown(Duration::from_secs(1)).await;
    let second = run(Arc::clone(&provider), registry().orchestration_elsewhere("doubles")).await;
    let child = Registry::builder().orchestration("doubles", doubles).activity("double", double);
    let other = run(provider, child).await;
    let doubled: u32 = client.wait("i", LONG).await.expect("completed");
    assert_eq!(doubled, 42);
    for runtime in [second, other] {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

/// A tag that a runtime does not accept already implies that other processes run the activity.
#[tokio::test(start_paused = true)]
async fn an_activity_for_another_tag_needs_no_declaration() {
    let provider = node(&Arc::new(MemoryStore::with_tokio_clock()));
    let client = Client::new(Arc::clone(&provider));
    let registry = Registry::builder().orchestration("sends_to_a_tag", sends_to_a_tag);
    let runtime = run(Arc::clone(&provider), registry).await;
    client.start("i", "sends_to_a_tag", &21).await.expect("started");
    let registry =
        Registry::builder().activity("double", double).build().expect("no duplicate names");
    let gpu = wakeline_core::Tag::new("gpu").expect("valid");
    let tags = wakeline_core::TagFilter::Of { untagged: false, tags: [gpu].into() };
    let options = RuntimeOptions { tags, ..RuntimeOptions::default() };
    let worker = Runtime::start_with_options(provider, registry, options).await;
    let worker = worker.expect("valid options");
    let doubled: u32 = client.wait("i", LONG).await.expect("completed");
    assert_eq!(doubled, 42);
    for runtime in [runtime, worker] {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

async fn stays(ctx: OrchestrationContext, spans: Vec<u64>) -> Result<Vec<String>, FlowError> {
    let mut calls = Vec::new();
    for span in spans {
        calls.push(ctx.activity::<_, String>("work", span).session("s").start());
        // The first activity claims the session before the others are scheduled.
        ctx.sleep(Duration::from_secs(1)).await;
    }
    wakeline_flow::try_join_all(calls).await
}

/// Starts a runtime with this owner of sessions, whose activities take the given number of seconds.
async fn worker(provider: Arc<dyn Provider>, owner: &'static str, slots: usize) -> Runtime {
    let work = move |_: ActivityContext, secs: u64| async move {
        tokio::time::sleep(Duration::from_secs(secs)).await;
        Ok::<_, FlowError>(owner.to_owned())
    };
    let registry = Registry::builder().orchestration("stays", stays).activity("work", work);
    let options = RuntimeOptions {
        worker_concurrency: slots,
        session_owner: wakeline_core::OwnerId::new(owner).ok(),
        session_idle_timeout: Duration::from_secs(5),
        prefetch: wakeline_flow::Prefetch::Fixed(0),
        ..RuntimeOptions::default()
    };
    let registry = registry.build().expect("no duplicate names");
    Runtime::start_with_options(provider, registry, options).await.expect("valid options")
}

#[tokio::test(start_paused = true)]
async fn a_session_stays_while_an_activity_runs_longer_than_its_idle_time() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let first = worker(node(&store), "first", 1).await;
    let client = Client::new(node(&store));
    client.start("i", "stays", &[200_u64, 1]).await.expect("started");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let second = worker(node(&store), "second", 1).await;
    let message: Vec<String> = client.wait("i", LONG).await.expect("completed");
    assert_eq!(message, ["first", "first"]);
    for runtime in [first, second] {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_ends_releases_its_sessions() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = node(&store);
    let first = worker(Arc::clone(&provider), "first", 1).await;
    let client = Client::new(Arc::clone(&provider));
    client.start("i", "stays", &[2_u64, 1]).await.expect("started");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let second = worker(provider, "second", 1).await;
    first.shutdown(Duration::from_secs(10)).await;
    let began = Instant::now();
    let message: Vec<String> = client.wait("i", LONG).await.expect("completed");
    assert_eq!(message, ["first", "second"]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    second.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_without_a_version_takes_the_newest_of_the_runtime_that_starts_it() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = node(&store);
    let code = |version: &'static str| {
        move |_: OrchestrationContext, (): ()| async move { Ok::<_, FlowError>(version.to_owned()) }
    };
    let old = Registry::builder().orchestration_versioned("flow", "1.0.0", code("old"));
    let new = Registry::builder().orchestration_versioned("flow", "1.0.0", code("old"));
    let new = new.orchestration_versioned("flow", "2.0.0", code("new"));
    let (old, new) = (run(Arc::clone(&provider), old).await, run(provider, new).await);
    for n in 0..20 {
        for (runtime, expected) in [(&old, "old"), (&new, "new")] {
            let (client, id) = (runtime.client(), format!("{expected}-{n}"));
            client.start(&id, "flow", &()).await.expect("started");
            let ran: String = client.wait(&id, LONG).await.expect("completed");
            assert_eq!(ran, expected);
        }
    }
    for runtime in [old, new] {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}
