//! Tests that failures reported to an orchestration name the activity, the child or the value, on
//! both stores.

use std::time::Duration;

use wakeline::{
    ActivityContext, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime,
};

use crate::support::Store;

const WAIT_MAX: Duration = Duration::from_secs(30);

async fn add(_: ActivityContext, (left, right): (u32, u32)) -> Result<u32, FlowError> {
    Ok(left + right)
}

async fn hang(ctx: ActivityContext, (): ()) -> Result<(), FlowError> {
    ctx.cancelled().await;
    Ok(())
}

async fn idle(_: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    Ok("idle".to_owned())
}

/// Causes every failure that the runtime itself describes.
async fn failures(ctx: OrchestrationContext, (): ()) -> Result<Vec<String>, FlowError> {
    let text = |error: FlowError| error.to_string();
    let input = ctx.activity::<_, u32>("add", "one").await.expect_err("not numbers");
    let result = ctx.activity::<_, String>("add", (1, 2)).await.expect_err("a number");
    let attempt = ctx.activity::<_, ()>("hang", ()).attempt_timeout(Duration::from_millis(5));
    let attempt = attempt.await.expect_err("too slow");
    let whole = ctx.activity::<_, ()>("hang", ()).timeout(Duration::from_millis(5));
    let whole = whole.await.expect_err("too slow");
    let child = ctx.child::<_, u32>("idle", ()).id("idle-1").await.expect_err("a text");
    ctx.kv_set("total", "many")?;
    let value = ctx.kv_get::<u32>("total").expect_err("a text");
    let queue = ctx.push("", 1).expect_err("no name");
    Ok([input, result, attempt, whole, child, value, queue].map(text).to_vec())
}

#[tokio::test]
async fn a_failure_names_the_activity_the_child_or_the_value() {
    let expected: [&[&str]; 7] = [
        &["activity add (attempt 1): the input cannot be decoded", "invalid type"],
        &["the result of activity add cannot be decoded", "expected a string"],
        &["activity hang (attempt 1): the attempt took longer than its limit of 5 ms"],
        &["activity hang did not finish within its timeout"],
        &["the result of child idle-1 cannot be decoded", "expected u32"],
        &["the value of key \"total\" cannot be decoded", "expected u32"],
        &["queue", "must not be empty"],
    ];
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let registry = Registry::builder()
            .orchestration("failures", failures)
            .orchestration("idle", idle)
            .activity("add", add)
            .activity("hang", hang);
        let registry = registry.build().expect("no name twice");
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        client.start("f", "failures", &()).await.expect("started");
        let texts: Vec<String> = client.wait("f", WAIT_MAX).await.expect("completed");
        assert_eq!(texts.len(), expected.len());
        for (text, words) in texts.iter().zip(expected) {
            let complete = words.iter().all(|word| text.contains(word));
            assert!(complete, "{}: {text:?} lacks one of {words:?}", store.name());
        }
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}
