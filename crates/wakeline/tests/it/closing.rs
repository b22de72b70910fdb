//! Tests of what happens to children and activities when their instance ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use wakeline::provider::{StoreProvider, StoreProviderOptions};
use wakeline::{
    ActivityContext, Client, ClosePolicy, FailureKind, FlowError, LongPollConfig,
    OrchestrationContext, Registry, Runtime, RuntimeOptions,
};
use wakeline_store::flow::FlowBackend;
use wakeline_testkit::faults::{Fault, FaultingStore, FlowWrite};

use crate::support::{Store, eventually};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// Starts a child with each close policy, a detached one, and one that has a child itself. Ends on
/// an event in the way that its input says.
async fn parent(ctx: OrchestrationContext, how: String) -> Result<(), FlowError> {
    let child = |name: &'static str| ctx.child::<_, ()>("idler", ()).id(name);
    let _deep = ctx.child::<_, ()>("middle", ()).id("deep").start();
    let _requested =
        ctx.child::<_, ()>("polite", ()).id("requested").close_policy(ClosePolicy::RequestCancel);
    let _requested = _requested.start();
    let _left = child("left").close_policy(ClosePolicy::Abandon).start();
    child("apart").detached()?;
    ctx.event::<()>("end").await?;
    if how == "fail" { Err(FlowError::application("no")) } else { Ok(()) }
}

async fn middle(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.child::<_, ()>("idler", ()).id("deeper").await
}

async fn idler(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.event("go on").await
}

/// Cleans up when cancellation is requested.
async fn polite(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    Ok(format!("requested: {}", ctx.cancelled().await))
}

fn registry() -> Registry {
    let registry = Registry::builder()
        .orchestration("parent", parent)
        .orchestration("middle", middle)
        .orchestration("polite", polite)
        .orchestration("idler", idler);
    registry.build().expect("no name twice")
}

/// Returns the states of instances, such as `deep terminated`.
async fn states(client: &Client, instances: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for instance in instances {
        let status = client.status(instance).await.expect("read");
        all.push(format!("{instance} {}", status.name()));
    }
    all
}

async fn running(client: &Client) {
    let all = ["deep", "deeper", "requested", "left", "apart"];
    let expected = all.map(|name| format!("{name} running"));
    eventually("all children run", async || states(client, &all).await == expected).await;
}

/// Asserts that the children are closed according to their policies.
async fn closed(client: &Client, store: &str) {
    for instance in ["deep", "deeper"] {
        let status = client.wait_for_end(instance, WAIT_MAX).await.expect("read");
        assert_eq!(status.name(), "terminated", "{store}: {instance}");
    }
    let requested: String = client.wait("requested", WAIT_MAX).await.expect("completed");
    assert_eq!(requested, "requested: the parent instance p has ended", "{store}");
    assert_eq!(states(client, &["left", "apart"]).await, ["left running", "apart running"]);
}

#[tokio::test]
async fn children_of_an_ended_parent_are_closed_by_their_policies() {
    for how in ["complete", "fail", "cancel", "terminate"] {
        for store in Store::both().await {
            let node = store.node(LongPollConfig::default()).await;
            let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
            let client = runtime.client();
            client.start("p", "parent", how).await.expect("started");
            running(&client).await;
            match how {
                "cancel" => client.cancel("p", "enough").await.expect("cancelled"),
                "terminate" => assert!(client.terminate("p", "enough").await.expect("ended")),
                _ => client.raise_event("p", "end", &()).await.expect("raised"),
            }
            closed(&client, store.name()).await;
            runtime.shutdown(WAIT_MAX).await;
        }
    }
}

/// A tree is also closed if no runtime has its code, and while its instances are suspended.
#[tokio::test]
async fn terminating_closes_a_tree_without_a_runtime() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
        let client = Client::new(node.provider());
        client.start("p", "parent", "").await.expect("started");
        running(&client).await;
        runtime.shutdown(WAIT_MAX).await;
        assert!(client.suspend("deep", "for a look").await.expect("answered"));
        assert!(client.terminate("p", "enough").await.expect("ended"));
        let all = ["p", "deep", "deeper"];
        let expected = all.map(|name| format!("{name} terminated"));
        assert_eq!(states(&client, &all).await, expected, "{}", store.name());
    }
}

/// Creates a provider that receives no hints of other providers over the same store.
fn provider(store: Arc<dyn FlowBackend>) -> Arc<StoreProvider> {
    Arc::new(StoreProvider::new(store, StoreProviderOptions::default()))
}

/// The first turn starts children after the caller has read that the instance is pending.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_begins_during_its_termination_leaves_no_child() {
    for store in Store::both().await {
        let inner = store.open().await;
        let faulting = Arc::new(FaultingStore::new(inner.clone()));
        let (elsewhere, client) =
            (provider(inner.clone()), Client::new(provider(faulting.clone())));
        client.start("p", "parent", "").await.expect("started");
        let (first, handle) = (Mutex::new(Some(elsewhere)), Handle::current());
        faulting.mutate(Box::new(move |write| {
            if matches!(write, FlowWrite::Terminate(_))
                && let Some(elsewhere) = first.lock().take()
            {
                let turns = async {
                    let runtime = Runtime::start(elsewhere.clone(), registry()).await;
                    running(&Client::new(elsewhere)).await;
                    runtime.expect("started").shutdown(Duration::ZERO).await;
                };
                tokio::task::block_in_place(|| handle.block_on(turns));
            }
        }));
        // The message that closes the children is written with the end, so a later failure does not
        // lose it.
        faulting.fail_operation("enqueue", 1, Fault::Before);
        assert!(client.terminate("p", "enough").await.expect("ended"), "{}", store.name());
        // A new provider is used, because the other one receives no hints of this client's writes.
        let runtime = Runtime::start(provider(inner), registry()).await.expect("started");
        closed(&runtime.client(), store.name()).await;
        runtime.shutdown(Duration::ZERO).await;
    }
}

/// There is no instance when the caller reads, and it runs when the store would be called. The
/// caller does not know it and must not end it, or its children would be left without a parent.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_started_during_a_termination_of_its_id_continues() {
    for store in Store::both().await {
        let inner = store.open().await;
        let faulting = Arc::new(FaultingStore::new(inner.clone()));
        let (elsewhere, client) = (provider(inner), Client::new(provider(faulting.clone())));
        let handle = Handle::current();
        let begin = async move |elsewhere: Arc<StoreProvider>| {
            let client = Client::new(elsewhere.clone());
            client.start("p", "parent", "").await.expect("started");
            let runtime = Runtime::start(elsewhere, registry()).await;
            running(&client).await;
            runtime.expect("started").shutdown(Duration::ZERO).await;
        };
        let (first, begin_first) = (Mutex::new(Some(elsewhere.clone())), begin);
        faulting.mutate(Box::new(move |write| {
            if matches!(write, FlowWrite::Terminate(_))
                && let Some(elsewhere) = first.lock().take()
            {
                let begin = begin_first(elsewhere);
                tokio::task::block_in_place(|| handle.block_on(begin));
            }
        }));
        assert!(!client.terminate("p", "enough").await.expect("answered"), "{}", store.name());
        // The store was not called; the instance begins now.
        if faulting.calls().iter().all(|call| *call != "terminate") {
            begin(elsewhere).await;
        }
        running(&client).await;
    }
}

#[tokio::test]
async fn children_of_a_poisoned_parent_are_closed_by_their_policies() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
        let client = Client::new(node.provider());
        client.start("p", "parent", "").await.expect("started");
        running(&client).await;
        runtime.shutdown(WAIT_MAX).await;
        client.raise_event("p", "end", &()).await.expect("raised");
        for _ in 0..2 {
            let (provider, lease) = (node.provider(), Duration::from_secs(60));
            let turn = provider.fetch_orchestration_item(lease, Some(WAIT_MAX)).await;
            let turn = turn.expect("fetched").expect("an event waits");
            assert_eq!(turn.instance.as_str(), "p", "{}", store.name());
            let given = provider.abandon_orchestration_item(&turn.lock_token, None, false).await;
            given.expect("given back");
        }
        let options = RuntimeOptions { attempts_max: 1, ..RuntimeOptions::default() };
        let runtime = Runtime::start_with_options(node.provider(), registry(), options).await;
        let runtime = runtime.expect("started");
        let error = client.wait::<()>("p", WAIT_MAX).await.expect_err("given up");
        assert!(error.to_string().contains("was given up"), "{}: {error}", store.name());
        closed(&client, store.name()).await;
        runtime.shutdown(WAIT_MAX).await;
    }
}

/// Starts children whose ids are in use, and one that is dropped at once.
async fn thief(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    let child = |name: &'static str| ctx.child::<_, ()>("idler", ()).id(name);
    let _terminated = child("theirs").start();
    let _requested = child("others").close_policy(ClosePolicy::RequestCancel).start();
    drop(child("never").close_policy(ClosePolicy::RequestCancel).start());
    ctx.sleep(Duration::ZERO).await;
    Ok(())
}

/// Waits until this number of messages is left and no turn is leased.
async fn settled(client: &Client, messages: u64) {
    let settled = async || {
        let depths = client.depths().await.expect("read");
        depths.messages == messages && depths.leased_turns == 0
    };
    eventually("no other turn is left", settled).await;
}

/// An instance that uses the id of a child is not closed. These instances are suspended, so that
/// the starts of the children wait, and the closing turn comes before they are refused.
#[tokio::test]
async fn only_own_children_are_closed() {
    let strangers = ["theirs", "others"];
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let registry = Registry::builder()
            .orchestration("thief", thief)
            .orchestration("idler", idler)
            .build()
            .expect("no name twice");
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        for stranger in strangers {
            client.start(stranger, "idler", &()).await.expect("started");
        }
        settled(&client, 0).await;
        for stranger in strangers {
            assert!(client.suspend(stranger, "for a look").await.expect("answered"));
        }
        client.start("t", "thief", &()).await.expect("started");
        client.wait::<()>("t", WAIT_MAX).await.expect("completed");
        // The starts of two children are left, but no cancellation request and no message to close
        // children.
        settled(&client, 2).await;
        for stranger in strangers {
            assert!(client.resume(stranger).await.expect("answered"), "{}", store.name());
        }
        client.start("never", "idler", &()).await.expect("started");
        settled(&client, 0).await;
        let all = ["theirs", "others", "never"];
        let expected = all.map(|name| format!("{name} running"));
        assert_eq!(states(&client, &all).await, expected, "{}", store.name());
        runtime.shutdown(WAIT_MAX).await;
    }
}

/// The child is deleted and its id is used again after the caller has read the child's parent.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_takes_the_id_of_a_child_is_not_cancelled() {
    for store in Store::both().await {
        let inner = store.open().await;
        let faulting = Arc::new(FaultingStore::new(inner.clone()));
        let (elsewhere, client) =
            (provider(inner.clone()), Client::new(provider(faulting.clone())));
        let runtime = Runtime::start(elsewhere.clone(), registry()).await.expect("started");
        Client::new(elsewhere.clone()).start("p", "parent", "").await.expect("started");
        running(&client).await;
        runtime.shutdown(Duration::ZERO).await;
        let (taken, handle) = (Arc::new(AtomicBool::new(false)), Handle::current());
        let first = Mutex::new(Some((elsewhere, taken.clone())));
        faulting.mutate(Box::new(move |write| {
            if let FlowWrite::Enqueue(envelopes) = write
                && envelopes.iter().any(|envelope| envelope.instance.as_str() == "requested")
                && let Some((elsewhere, taken)) = first.lock().take()
            {
                let take = async {
                    let client = Client::new(elsewhere);
                    client.delete("requested", true).await.expect("deleted");
                    client.start("requested", "polite", &()).await.expect("started");
                    taken.store(true, Ordering::SeqCst);
                };
                tokio::task::block_in_place(|| handle.block_on(take));
            }
        }));
        assert!(client.terminate("p", "enough").await.expect("ended"), "{}", store.name());
        assert!(taken.load(Ordering::SeqCst), "{}: no request was made", store.name());
        // A new provider is used, because the other one receives no hints of this client's writes.
        let runtime = Runtime::start(provider(inner), registry()).await.expect("started");
        settled(&client, 0).await;
        assert_eq!(
            states(&client, &["requested"]).await,
            ["requested running"],
            "{}",
            store.name()
        );
        runtime.shutdown(WAIT_MAX).await;
    }
}

/// The lease is long, so the activity does not learn of the end by its renewal.
#[tokio::test]
async fn activity_of_a_terminated_instance_is_cancelled_before_its_lease_is_renewed() {
    for store in Store::both().await {
        let (begun, mut begins) = mpsc::unbounded_channel();
        let (ended, mut ends) = mpsc::unbounded_channel();
        let endless = move |ctx: ActivityContext, (): ()| {
            let (begun, ended) = (begun.clone(), ended.clone());
            async move {
                begun.send(()).expect("the test receives");
                ctx.cancelled().await;
                ended.send(()).expect("the test receives");
                Ok::<_, FlowError>(())
            }
        };
        let registry = Registry::builder()
            .orchestration("caller", async |ctx: OrchestrationContext, (): ()| {
                ctx.activity::<_, ()>("endless", ()).await
            })
            .activity("endless", endless)
            .build()
            .expect("no name twice");
        let worker_lock_timeout = Duration::from_secs(3600);
        let options = RuntimeOptions { worker_lock_timeout, ..RuntimeOptions::default() };
        let node = store.node(LongPollConfig::default()).await;
        let runtime = Runtime::start_with_options(node.provider(), registry, options).await;
        let runtime = runtime.expect("started");
        // Another node terminates the instance and sends the hint.
        let client = store.client().await;
        for instance in ["a", "b"] {
            client.start(instance, "caller", &()).await.expect("started");
            begins.recv().await.expect("the activity runs");
            assert!(client.terminate(instance, "enough").await.expect("ended"));
            let reported = tokio::time::timeout(WAIT_MAX, ends.recv()).await;
            reported.unwrap_or_else(|_| panic!("{}: it was not cancelled", store.name()));
        }
        runtime.shutdown(WAIT_MAX).await;
    }
}

#[tokio::test]
async fn every_parent_of_a_terminated_child_is_notified() {
    async fn waits(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
        match ctx.child::<_, ()>("unknown", ()).id("the-child").await {
            Err(error) if error.kind == FailureKind::Terminated => Ok(error.message),
            other => Ok(format!("{other:?}")),
        }
    }
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let registry = Registry::builder().orchestration("waits", waits);
        let registry = registry.orchestration_elsewhere("unknown").build();
        let registry = registry.expect("no name twice");
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        for parent in ["p", "q"] {
            client.start(parent, "waits", &()).await.expect("started");
        }
        let both = async || states(&client, &["p", "q"]).await == ["p running", "q running"];
        eventually("both have started it", both).await;
        assert!(client.terminate("the-child", "no runtime has the code").await.expect("ended"));
        for parent in ["p", "q"] {
            let reported: String = client.wait(parent, WAIT_MAX).await.expect("completed");
            assert!(reported.contains("no runtime has the code"), "{}: {reported}", store.name());
        }
        runtime.shutdown(WAIT_MAX).await;
    }
}
