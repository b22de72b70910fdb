//! Tests of what a program passes to the library: state for its activities, keys and filters.

use std::time::Duration;

use wakeline::{
    ActivityContext, EncryptionKeys, FlowError, InstanceFilter, InstanceState, ListInstances,
    LongPollConfig, OrchestrationContext, PruneOptions, Registry, RegistryError, Runtime,
};
use wakeline_core::{QueueName, QueueOptions};
use wakeline_store::{ConfigureQueue, QueueAdmin};

use crate::support::{Node, Store};

const WAIT_MAX: Duration = Duration::from_secs(30);

struct Greeting(String);

async fn greet(ctx: ActivityContext, name: String) -> Result<String, FlowError> {
    Ok(format!("{} {name}", ctx.state::<Greeting>()?.0))
}

async fn party(ctx: OrchestrationContext, name: String) -> Result<String, FlowError> {
    ctx.call(greet, name).attempts(3).await
}

#[tokio::test]
async fn activities_get_the_state_of_their_registry() {
    let store = Store::sqlite();
    let node = store.node(LongPollConfig::default()).await;
    let code = || Registry::builder().orchestration("party", party).activity("greet", greet);
    let registry = code().state(Greeting("hello".to_owned())).build().expect("a registry");
    let runtime = Runtime::start(node.provider(), registry).await.expect("started");
    let client = runtime.client();
    client.start("a", "party", "ann").await.expect("started");
    assert_eq!(client.wait::<String>("a", WAIT_MAX).await.expect("completed"), "hello ann");
    runtime.shutdown(WAIT_MAX).await;

    let runtime = Runtime::start(node.provider(), code().build().expect("a registry")).await;
    let runtime = runtime.expect("started");
    client.start("b", "party", "bob").await.expect("started");
    let error = client.wait::<String>("b", WAIT_MAX).await.expect_err("there is no greeting");
    let text = error.to_string();
    assert!(text.contains("greet (attempt 1)") && text.contains("program::Greeting"), "{text}");
    runtime.shutdown(WAIT_MAX).await;
}

#[test]
fn state_of_a_type_is_registered_once() {
    let twice = Registry::builder().state(1_u8).state(2_u8).build();
    assert_eq!(twice.err(), Some(RegistryError::Duplicate { what: "state of type u8".into() }));
}

#[tokio::test]
async fn filters_are_sensible_by_default() {
    for store in Store::both().await {
        let client = store.client().await;
        for id in ["a", "b"] {
            client.start(id, "unregistered", &()).await.expect("started");
        }
        let (all, next) = client.list(ListInstances::default()).await.expect("listed");
        assert_eq!((all.len(), next), (2, None), "{}", store.name());
        assert!(client.terminate("a", "enough").await.expect("ended"));
        let states = vec![InstanceState::Terminated];
        let ended = ListInstances { states, ..ListInstances::default() };
        assert_eq!(client.list(ended).await.expect("listed").0.len(), 1, "{}", store.name());
        let filter = InstanceFilter::default();
        let pruned = client.prune(filter.clone(), PruneOptions::default()).await;
        assert_eq!(pruned.expect("pruned").executions, 0, "{}", store.name());
        let deleted = client.delete_matching(filter).await.expect("deleted");
        assert_eq!(deleted.instances, 1, "{}", store.name());
    }
}

async fn sender(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.push("secrets", "a secret")
}

#[tokio::test]
async fn orchestrations_push_to_encrypted_queues_with_keys() {
    let key = EncryptionKeys::generate("k1").expect("random");
    let keys = || EncryptionKeys::parse(&key).expect("a key");
    for store in Store::both().await {
        let node = match store.node(LongPollConfig::default()).await {
            Node::Sqlite(provider) => Node::Sqlite(provider.with_encryption_keys(keys())),
            Node::Postgres(provider) => Node::Postgres(provider.with_encryption_keys(keys())),
        };
        let admin: &dyn QueueAdmin = match &node {
            Node::Sqlite(provider) => provider.store().as_ref(),
            Node::Postgres(provider) => provider.store().as_ref(),
        };
        let queue = ConfigureQueue {
            queue: QueueName::new("secrets").expect("a name"),
            namespace: None,
            task: None,
            options: QueueOptions { encrypted: true, ..QueueOptions::default() },
        };
        admin.configure(queue).await.expect("configured");
        let registry = Registry::builder().orchestration("sender", sender).build();
        let registry = registry.expect("a registry");
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        client.start("s", "sender", &()).await.expect("started");
        let sent = client.wait::<()>("s", WAIT_MAX).await;
        sent.unwrap_or_else(|error| panic!("{}: {error}", store.name()));
        runtime.shutdown(WAIT_MAX).await;
    }
}
