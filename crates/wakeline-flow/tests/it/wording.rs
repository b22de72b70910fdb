//! Tests that every error of the library states the problem, with a name or value, and the remedy.

use std::time::Duration;

use wakeline_core::{InstanceId, OrchestrationName, error_chain};
use wakeline_flow::provider::ProviderError;
use wakeline_flow::{
    ClientError, FlowError, Nondeterminism, Registry, RegistryError, ReplayError, RuntimeOptions,
};

/// An error, and the parts that its text must contain.
type Case = (Box<dyn std::error::Error>, &'static [&'static str]);

fn instance() -> InstanceId {
    InstanceId::new("order-7").expect("an id")
}

fn of_client() -> Vec<Case> {
    let source = serde_json::from_str::<u32>("true").expect_err("not a number");
    let error = FlowError::application("no card");
    vec![
        (Box::new(ClientError::NotFound(instance())), &["order-7", "check its id"]),
        (Box::new(ClientError::Ended(instance())), &["order-7", "start another"]),
        (
            Box::new(ClientError::TimedOut {
                instance: instance(),
                state: "running",
                waited: Duration::from_secs(3),
            }),
            &["order-7", "running", "3s", "wait longer"],
        ),
        (
            Box::new(ClientError::Failed { instance: instance(), error }),
            &["order-7 failed", "no card"],
        ),
        (
            Box::new(ClientError::Codec { what: "the input", source }),
            &["the input", "expected u32"],
        ),
        (Box::new(ClientError::Unsupported("list instances")), &["cannot list instances"]),
    ]
}

fn of_provider() -> Vec<Case> {
    let source = || "the driver's words".into();
    let operation = "read the instance";
    vec![
        (
            Box::new(ProviderError::Retryable { operation, source: source() }),
            &["cannot read the instance", "try again", "the driver's words"],
        ),
        (
            Box::new(ProviderError::Permanent { operation, source: source() }),
            &["cannot read the instance", "will not help", "the driver's words"],
        ),
        (Box::new(ProviderError::LockLost), &["lease", "another worker"]),
        (Box::new(ProviderError::Closed), &["shutting down"]),
    ]
}

fn of_registry() -> Vec<Case> {
    let source = OrchestrationName::new("").expect_err("empty");
    let (name, version) = ("orders".to_owned(), "one".to_owned());
    vec![
        (
            Box::new(RegistryError::Duplicate { what: "activity charge".to_owned() }),
            &["activity charge", "register it once"],
        ),
        (Box::new(RegistryError::Name { name: String::new(), source }), &["must not be empty"]),
        (Box::new(RegistryError::Version { name, version }), &["\"one\"", "orders", "1.2.0"]),
    ]
}

fn of_replay() -> Vec<Case> {
    let capability = "orders@2.0.0".to_owned();
    let at = "src/orders.rs:7".to_owned();
    vec![
        (
            Box::new(ReplayError::Corrupt {
                event: 7,
                what: "no operation before it waits for it",
            }),
            &["event 7", "no operation before it", "restore it from a backup"],
        ),
        (Box::new(ReplayError::Unregistered { capability }), &["orders@2.0.0", "register it"]),
        (Box::new(Nondeterminism::Wake), &["not durable", "in an activity"]),
        (Box::new(Nondeterminism::Wait), &["not durable", "in an activity"]),
        (Box::new(Nondeterminism::Outside { at }), &["src/orders.rs:7", "in an activity"]),
        (Box::new(Nondeterminism::Busy), &["never waits", "in an activity"]),
        (
            Box::new(Nondeterminism::Panic { message: "no stock".to_owned() }),
            &["panicked: no stock", "fix the code", "resume"],
        ),
    ]
}

#[test]
fn every_error_states_the_problem_and_the_remedy() {
    for (error, words) in
        [of_client(), of_provider(), of_registry(), of_replay()].into_iter().flatten()
    {
        let text = error_chain(&*error);
        assert!(words.iter().all(|word| text.contains(word)), "{text:?} lacks one of {words:?}");
        assert!(!text.contains("\"\" of") && !text.ends_with(": "), "{text:?} has an empty name");
    }
}

#[test]
fn an_invalid_option_is_reported_with_its_value_and_limit() {
    let preset = RuntimeOptions::default;
    for (options, text) in [
        (
            RuntimeOptions { worker_lock_timeout: Duration::from_micros(5), ..preset() },
            "worker_lock_timeout must be at least 1 ms, not 5µs",
        ),
        (RuntimeOptions { attempts_max: 0, ..preset() }, "attempts_max must be at least 1, not 0"),
        (
            RuntimeOptions { worker_concurrency: 200_000, ..preset() },
            "worker_concurrency must be at most 100000, not 200000",
        ),
    ] {
        assert_eq!(options.validate().expect_err(text).to_string(), text);
    }
}

#[test]
fn a_registry_reports_duplicate_names() {
    async fn idle(_: wakeline_flow::ActivityContext, (): ()) -> Result<(), FlowError> {
        Ok(())
    }
    let twice = Registry::builder().activity("charge", idle).activity("charge", idle).build();
    let text = twice.expect_err("twice").to_string();
    assert!(text.contains("activity charge") && text.contains("another name"), "{text}");
}
