//! Tests that a failed store call, or a process that dies during one, does not change the result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::QueueName;
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_flow::{
    ActivityContext, Client, ClientError, EventKind, FlowError, Json, OrchestrationContext,
    Registry, Runtime, join,
};
use wakeline_store::QueueStore as _;
use wakeline_store::flow::{FlowBackend, FlowStore as _, InstanceState};
use wakeline_testkit::conformance::ClaimSpec;
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

const LONG: Duration = Duration::from_secs(3600);
/// The time by which everything has ended, unless the process hangs.
const SOON: Duration = Duration::from_secs(300);
/// The number of events that wait before their instance is started.
const EARLY: u32 = 1_200;

async fn double(_: ActivityContext, n: u32) -> Result<u32, FlowError> {
    Ok(2 * n)
}

async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    let (a, b) = join(ctx.call(double, n), ctx.call(double, n + 1)).await;
    let sum = a? + b?;
    ctx.push("out", sum)?;
    ctx.sleep(Duration::from_secs(1)).await;
    let (reported, returned) =
        join(ctx.event::<u32>("report"), ctx.child("child", sum).id("c")).await;
    let returned: u32 = returned?;
    ctx.push("out", returned)?;
    Ok(reported? + returned)
}

async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    ctx.signal("p", "report", n)?;
    let doubled = ctx.call(double, n).await?;
    ctx.push("out", n + 1)?;
    Ok(doubled)
}

/// Takes more events than fit into one turn, in two executions with one child each.
async fn looping(ctx: OrchestrationContext, taken: u32) -> Result<u32, FlowError> {
    let mut taken = taken;
    for _ in 0..EARLY / 2 {
        if ctx.event::<u32>("n").await? != taken {
            return Err(FlowError::application("an event is missing"));
        }
        taken += 1;
    }
    let doubled: u32 = ctx.child("leaf", taken).await?;
    ctx.push("out", doubled)?;
    if taken < EARLY { ctx.continue_as_new(taken).await } else { Ok(doubled) }
}

async fn leaf(_: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    Ok(2 * n)
}

/// Everything that can be observed after a run.
#[derive(Debug, PartialEq)]
struct Observed {
    returned: u32,
    /// The messages in the queue.
    pushed: Vec<String>,
    instances: [u64; 7],
    /// The number of events by instance and kind.
    events: BTreeMap<(&'static str, String), usize>,
    /// The number of items that still wait or are leased.
    left: u64,
}

/// Runs everything in one process, and repeats failed calls until they succeed.
async fn process(store: Arc<dyn FlowBackend>) -> u32 {
    let provider = Arc::new(StoreProvider::new(store, StoreProviderOptions::default()));
    let registry = Registry::builder()
        .orchestration("parent", parent)
        .orchestration("child", child)
        .orchestration("looping", looping)
        .orchestration("leaf", leaf)
        .activity("double", double)
        .build()
        .expect("a registry");
    let _runtime = Runtime::start(provider.clone(), registry).await.expect("started");
    let client = Client::new(provider);
    while client.start("p", "parent", &3_u32).await.is_err() {}
    while client.start("l", "looping", &0_u32).await.is_err() {}
    returned(&client, "p").await + returned(&client, "l").await
}

async fn returned(client: &Client, instance: &str) -> u32 {
    loop {
        match client.wait(instance, LONG).await {
            Ok(returned) => return returned,
            Err(ClientError::Provider(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Creates a store with events for an instance that has not been started.
async fn prepared() -> Arc<MemoryStore> {
    let memory = Arc::new(MemoryStore::with_tokio_clock());
    let event = |n: u32| {
        let data = Json::of(&n).expect("a number");
        Client::event_envelope("l", "n", data).expect("valid")
    };
    memory.enqueue((0..EARLY).map(event).collect(), Vec::new()).await.expect("stored");
    memory
}

async fn observed(store: Arc<MemoryStore>, returned: u32) -> Observed {
    let queue = QueueName::new("out").expect("valid");
    let all = ClaimSpec::queue(&queue).batch(100).partitions(100);
    let mut claimed = store.claim(vec![all.line_claim(1)]).await.expect("claimed");
    let batch = claimed.remove(0).results.remove(0).expect("something was pushed");
    let messages = batch.partitions.iter().flat_map(|partition| &partition.messages);
    let text = |payload: &[u8]| String::from_utf8_lossy(payload).into_owned();
    let mut pushed: Vec<_> = messages.map(|message| text(&message.payload)).collect();
    pushed.sort();
    let client = Client::new(Arc::new(StoreProvider::new(store, StoreProviderOptions::default())));
    let mut events = BTreeMap::new();
    for instance in ["p", "c"] {
        for event in client.history(instance, None).await.expect("read") {
            // How its events are distributed over turns depends on timing.
            if !matches!(event.kind, EventKind::Turn { .. }) {
                let kind = format!("{:?}", event.kind);
                let kind = kind.split([' ', '(']).next().unwrap_or_default().to_owned();
                *events.entry((instance, kind)).or_default() += 1;
            }
        }
    }
    let depths = client.depths().await.expect("read");
    let left = depths.messages + depths.work + depths.leased_turns + depths.leased_work;
    Observed { returned, pushed, instances: depths.instances, events, left }
}

/// Runs with a fault in the n-th call. Returns what is observed, and whether there was such a call.
/// A process that hangs is killed, and another one takes over.
async fn interrupted(nth: u64, fault: Fault) -> (Observed, bool) {
    let memory = prepared().await;
    let store = Arc::new(FaultingStore::new(memory.clone()));
    store.fail(nth, fault);
    let returned = match tokio::time::timeout(SOON, process(store.clone())).await {
        Ok(returned) => returned,
        Err(_) => {
            assert!(matches!(fault, Fault::HangBefore | Fault::HangAfter), "call {nth}, {fault:?}");
            let second = tokio::time::timeout(SOON, process(memory.clone())).await;
            second.unwrap_or_else(|_| panic!("stuck after call {nth}, {fault:?}"))
        }
    };
    (observed(memory, returned).await, store.pending() == 0)
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_any_store_call_does_not_change_the_result() {
    let memory = prepared().await;
    let returned = process(memory.clone()).await;
    let expected = observed(memory, returned).await;
    assert_eq!((returned, expected.left), (14 + 28 + 2 * EARLY, 0));
    assert_eq!(expected.pushed, ["1200", "14", "15", "2400", "28"]);
    let completed = InstanceState::ALL.iter().position(|state| *state == InstanceState::Completed);
    assert_eq!(expected.instances[completed.expect("a state")], 5);
    for fault in Fault::ALL {
        let mut nth = 1;
        loop {
            let (observed, came) = interrupted(nth, fault).await;
            assert_eq!(observed, expected, "call {nth}, {fault:?}");
            if !came {
                break;
            }
            nth += 1;
        }
        assert!(nth > 15, "{nth} calls only, {fault:?}");
    }
}
