//! Tests of turns that cannot be committed and of code that panics: the instance is suspended with
//! the reason and continues after a fix. Also tests that extreme values can be stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wakeline::core::{QueueName, QueueOptions, Timestamp};
use wakeline::provider::{StoreProvider, StoreProviderOptions};
use wakeline::{
    ActivityContext, Client, EncryptionKeys, FlowError, LongPollConfig, OrchestrationContext,
    Registry, Runtime, select2,
};
use wakeline_store::{Backend, ConfigureQueue};

use crate::support::{Store, eventually};

const WAIT_MAX: Duration = Duration::from_secs(30);

async fn nothing(_: ActivityContext, (): ()) -> Result<(), FlowError> {
    Ok(())
}

/// Uses every extreme value that a call accepts.
async fn extremes(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    ctx.set_status("half\0way");
    ctx.sleep_until(Timestamp(i64::MIN)).await;
    ctx.call(nothing, ()).timeout(Duration::MAX).await?;
    let event = ctx.timeout(Duration::MAX, ctx.event::<u32>("go")).await;
    assert_eq!(event, Some(Ok(1)));
    let forever = ctx.sleep(Duration::MAX).start();
    let moment = ctx.sleep_until(Timestamp(i64::MAX));
    select2(select2(forever, moment), ctx.event::<u32>("go")).await;
    let child = ctx.child::<_, ()>("extremes", ()).version("a\0b").await;
    Ok(child.expect_err("no version can be that").message)
}

/// Pushes a message that only a node with encryption keys can store.
async fn pushes(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    ctx.event::<()>("go").await?;
    ctx.push("secrets", "a secret")?;
    Ok("pushed".to_owned())
}

/// Code with a defect that a deployment removes.
fn defective(defect: Arc<AtomicBool>) -> Registry {
    let broken = Arc::clone(&defect);
    let panics = move |ctx: OrchestrationContext, (): ()| {
        let broken = Arc::clone(&broken);
        async move {
            ctx.event::<()>("go").await?;
            assert!(!broken.load(Ordering::SeqCst), "lost\0my way");
            Ok::<_, FlowError>("fixed")
        }
    };
    let continues = move |ctx: OrchestrationContext, again: bool| {
        let broken = Arc::clone(&defect);
        async move {
            if again {
                return Ok::<_, FlowError>("fixed");
            }
            ctx.event::<()>("go").await?;
            let version = if broken.load(Ordering::SeqCst) { "1.0\0" } else { "1.0.0" };
            ctx.continue_as_new(true).version(version).await
        }
    };
    let registry = Registry::builder()
        .orchestration("extremes", extremes)
        .orchestration("panics", panics)
        .orchestration("continues", continues)
        .orchestration("pushes", pushes)
        .activity("nothing", nothing);
    registry.build().expect("no name twice")
}

/// Waits until the instance is suspended, and returns the reason.
async fn reason(client: &Client, instance: &str) -> String {
    eventually("it is held back", async || {
        let status = client.status(instance).await.expect("a status");
        status.instance().is_some_and(|instance| instance.suspended.is_some())
    })
    .await;
    let status = client.status(instance).await.expect("a status");
    status.instance().and_then(|instance| instance.suspended.clone()).expect("held back")
}

#[tokio::test]
async fn extreme_times_and_texts_are_stored_or_refused_at_the_call() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let registry = defective(Arc::default());
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        client.start("x", "extremes", &()).await.expect("started");
        client.raise_event("x", "go", &1).await.expect("accepted");
        client.raise_event("x", "go", &2).await.expect("accepted");
        let refusal: String = client.wait("x", WAIT_MAX).await.expect("completed");
        assert!(refusal.contains("NUL") || refusal.contains("control"), "{refusal}");
        let status = client.status("x").await.expect("a status");
        let text = status.instance().and_then(|instance| instance.status.clone());
        assert_eq!(text.as_deref(), Some("half\u{FFFD}way"), "{}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn panics_and_invalid_versions_suspend_the_instance_until_a_fix() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let defect = Arc::new(AtomicBool::new(true));
        let registry = defective(Arc::clone(&defect));
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        client.start("p", "panics", &()).await.expect("started");
        client.start("c", "continues", &false).await.expect("started");
        for instance in ["p", "c"] {
            eventually("its first turn", async || {
                client.status(instance).await.expect("a status").instance().is_some()
            })
            .await;
            client.raise_event(instance, "go", &()).await.expect("accepted");
        }
        let (panic, version) = (reason(&client, "p").await, reason(&client, "c").await);
        assert!(panic.contains("panicked: lost\u{FFFD}my way"), "{}: {panic}", store.name());
        assert!(version.contains(r#"version "1.0\0""#), "{}: {version}", store.name());
        assert!(version.contains("refusals.rs:"), "{}: {version}", store.name());
        for text in [&panic, &version] {
            assert!(text.contains("resume the instance"), "{}: {text}", store.name());
        }
        defect.store(false, Ordering::SeqCst);
        for instance in ["p", "c"] {
            assert!(client.resume(instance).await.expect("resumed"));
            let output: String = client.wait(instance, WAIT_MAX).await.expect("completed");
            assert_eq!(output, "fixed", "{} {instance}", store.name());
        }
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

/// Creates a queue whose messages are encrypted.
async fn make_secrets(store: &dyn Backend) {
    let options = QueueOptions { encrypted: true, ..QueueOptions::default() };
    let queue = QueueName::new("secrets").expect("a name");
    let command = ConfigureQueue { queue, namespace: None, task: None, options };
    store.configure(command).await.expect("configured");
}

#[tokio::test]
async fn a_turn_that_cannot_be_committed_suspends_the_instance_until_a_fix() {
    for store in Store::both().await {
        let keys = EncryptionKeys::generate("k").expect("random");
        let keys = || Arc::new(EncryptionKeys::parse(&keys).expect("a key"));
        let (with_keys, without) = (store.open().await, store.open().await);
        with_keys.use_keys(keys());
        make_secrets(&*with_keys).await;
        let provider = StoreProvider::new(without.clone(), StoreProviderOptions::default());
        let registry = defective(Arc::default());
        let runtime = Runtime::start(Arc::new(provider), registry).await.expect("started");
        let client = runtime.client();
        client.start("s", "pushes", &()).await.expect("started");
        client.raise_event("s", "go", &()).await.expect("accepted");
        let refusal = reason(&client, "s").await;
        for text in ["cannot be committed", "encryption keys", "resume the instance"] {
            assert!(refusal.contains(text), "{}: {refusal}", store.name());
        }
        without.use_keys(keys());
        assert!(client.resume("s").await.expect("answered"), "{}", store.name());
        let output: String = client.wait("s", WAIT_MAX).await.expect("completed");
        assert_eq!(output, "pushed", "{}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}
