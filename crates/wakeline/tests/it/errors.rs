//! Tests that errors name their origin and the expected type.

use std::time::Duration;

use wakeline::{
    ActivityContext, ErrorOrigin, FailureKind, FlowError, LongPollConfig, OrchestrationContext,
    Registry, Runtime,
};

use crate::support::Store;

const WAIT_MAX: Duration = Duration::from_secs(30);

async fn charge(_: ActivityContext, (): ()) -> Result<(), FlowError> {
    Err(FlowError::application("card declined"))
}

async fn sum(_: ActivityContext, numbers: Vec<u32>) -> Result<u32, FlowError> {
    Ok(numbers.iter().sum())
}

async fn ship(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.activity::<_, ()>("charge", ()).attempts(2).await
}

async fn order(ctx: OrchestrationContext, (): ()) -> Result<FlowError, FlowError> {
    let failed = ctx.child::<_, ()>("ship", ()).id("ship-7").await;
    Ok(failed.expect_err("the card is declined"))
}

async fn misled(ctx: OrchestrationContext, (): ()) -> Result<FlowError, FlowError> {
    let failed = ctx.activity::<_, u32>("sum", "three").await;
    Ok(failed.expect_err("a text is no list"))
}

fn registry() -> Registry {
    let registry = Registry::builder()
        .orchestration("order", order)
        .orchestration("ship", ship)
        .orchestration("misled", misled)
        .activity("charge", charge)
        .activity("sum", sum);
    registry.build().expect("no name twice")
}

#[tokio::test]
async fn errors_name_the_child_the_activity_and_the_attempt() {
    let store = Store::sqlite();
    let node = store.node(LongPollConfig::default()).await;
    let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
    let client = runtime.client();
    client.start("o", "order", &()).await.expect("started");
    let error: FlowError = client.wait("o", WAIT_MAX).await.expect("completed");
    assert_eq!(
        error.to_string(),
        "child ship (instance ship-7): activity charge (attempt 2): card declined"
    );
    assert_eq!((error.message.as_str(), error.attempts), ("card declined", Some(2)));
    let [ErrorOrigin::Child { .. }, ErrorOrigin::Activity { instance, .. }] = &error.origin[..]
    else {
        panic!("{:?}", error.origin)
    };
    assert_eq!(instance.as_str(), "ship-7");
    let failed = client.wait::<()>("ship-7", WAIT_MAX).await.expect_err("it failed");
    let words = "instance ship-7 failed: activity charge (attempt 2): card declined";
    assert_eq!(failed.to_string(), words);
    runtime.shutdown(WAIT_MAX).await;
}

#[tokio::test]
async fn wrong_input_names_the_activity_and_the_expected_type() {
    let store = Store::sqlite();
    let node = store.node(LongPollConfig::default()).await;
    let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
    let client = runtime.client();
    client.start("m", "misled", &()).await.expect("started");
    let error: FlowError = client.wait("m", WAIT_MAX).await.expect("completed");
    assert_eq!(error.kind, FailureKind::Codec);
    let text = error.to_string();
    assert!(text.starts_with("activity sum (attempt 1): the input cannot be decoded as"), "{text}");
    assert!(text.contains("Vec<u32>") && text.contains("invalid type: string"), "{text}");
    runtime.shutdown(WAIT_MAX).await;
}
