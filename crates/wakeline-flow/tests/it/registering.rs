//! Tests of the registry, and of what activities can read about themselves.

use tokio_util::sync::CancellationToken;
use wakeline_core::{Capability, OrchestrationName};
use wakeline_flow::{
    ActivityContext, ActivityPolicy, ActivityTask, FailureKind, FlowError, IntoFlowError, Json,
    OrchestrationContext, Registry, RegistryError, capability,
};

use crate::script::{id, json, registry};

async fn nothing(_: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    Ok(())
}

async fn echo(ctx: ActivityContext, text: String) -> Result<String, String> {
    match text.as_str() {
        "fail" => Err("as requested".to_owned()),
        "panic" => panic!("as requested"),
        _ => Ok(format!("{text} {} {}", ctx.idempotency_key(), ctx.attempt())),
    }
}

#[test]
fn starts_take_the_newest_version_and_instances_keep_theirs() {
    let registry = registry(|r| {
        r.orchestration("flow", nothing)
            .orchestration_versioned("flow", "1.10.0", nothing)
            .orchestration_versioned("flow", "1.9.0", nothing)
            .orchestration_versioned("flow", "2.0.0-beta.1", nothing)
            .orchestration_versioned("mail@home", "0.1.0", nothing)
    });
    let version = |code: Option<std::sync::Arc<wakeline_flow::OrchestrationCode>>| {
        code.map(|code| code.version().to_string())
    };
    assert_eq!(version(registry.newest("flow")).as_deref(), Some("1.10.0"));
    assert_eq!(version(registry.exact("flow", "1.0.0")).as_deref(), Some("1.0.0"));
    assert_eq!(version(registry.newest_from("flow", "1.9.0")).as_deref(), Some("1.10.0"));
    let beta = version(registry.newest_from("flow", "1.11.0"));
    assert_eq!(beta.as_deref(), Some("2.0.0-beta.1"), "nothing else is new enough");
    assert!(registry.newest_from("flow", "2.0.0").is_none());
    assert!(registry.exact("flow", "3.0.0").is_none() && registry.newest("other").is_none());
    let able = |text: &str| {
        version(registry.able(&Capability::new(text).expect("valid"))).unwrap_or_default()
    };
    assert_eq!(able("flow"), "1.10.0");
    assert_eq!(able("flow@2.0.0-beta.1"), "2.0.0-beta.1");
    assert_eq!(able("mail@home"), "0.1.0");
    assert_eq!(able("mail@home@0.1.0"), "0.1.0");
    assert_eq!(able("mail@home@9.0.0"), "");
}

#[test]
fn capabilities_name_every_version_and_the_name_alone() {
    let registry =
        registry(|r| r.orchestration("a", nothing).orchestration_versioned("a", "2.0.0", nothing));
    let known: Vec<String> = registry.capabilities().into_iter().map(String::from).collect();
    assert_eq!(known, ["a", "a@1.0.0", "a@2.0.0"]);
    let name = OrchestrationName::new("a").expect("valid");
    let spelled = capability(&name, Some("2.0.0")).expect("valid");
    assert_eq!(spelled.as_str(), "a@2.0.0");
}

#[test]
fn duplicate_and_invalid_registrations_are_refused() {
    let twice = Registry::builder().orchestration("a", nothing).orchestration("a", nothing);
    let what = "a@1.0.0".to_owned();
    assert_eq!(twice.build().err(), Some(RegistryError::Duplicate { what }));
    let twice = Registry::builder().activity("echo", echo).activity("echo", echo);
    assert!(matches!(twice.build(), Err(RegistryError::Duplicate { .. })));
    let version = Registry::builder().orchestration_versioned("a", "one", nothing);
    assert!(matches!(version.build(), Err(RegistryError::Version { .. })));
    let name = Registry::builder().orchestration("", nothing);
    assert!(matches!(name.build(), Err(RegistryError::Name { .. })));
    let control = Registry::builder().activity("a\0b", echo);
    assert!(matches!(control.build(), Err(RegistryError::Name { .. })));
    let elsewhere = Registry::builder().activity_elsewhere("a\0b");
    assert!(matches!(elsewhere.build(), Err(RegistryError::Name { .. })));
    let elsewhere = Registry::builder().orchestration_elsewhere("");
    assert!(matches!(elsewhere.build(), Err(RegistryError::Name { .. })));
}

async fn parse<T: std::str::FromStr>(_: ActivityContext, text: String) -> Result<bool, FlowError> {
    Ok(text.parse::<T>().is_ok())
}

/// Returns the activities that the flow schedules, or the reason why its instance is suspended.
fn scheduled(registry: &Registry) -> Result<Vec<String>, String> {
    let turn = crate::script::Script::new(registry, ()).try_turn(vec![]);
    let effects = turn.map_err(|nondeterminism| nondeterminism.to_string())?.effects;
    Ok(effects.activities.into_iter().map(|activity| activity.name).collect())
}

#[test]
fn a_call_schedules_exactly_the_registered_function() {
    let eu = {
        async fn charge(_: ActivityContext, _: u32) -> Result<String, FlowError> {
            Ok("eu".to_owned())
        }
        charge
    };
    let us = {
        async fn charge(_: ActivityContext, _: u32) -> Result<String, FlowError> {
            Ok("us".to_owned())
        }
        charge
    };
    assert_eq!(std::any::type_name_of_val(&eu), std::any::type_name_of_val(&us), "one path");
    let closure = |_: ActivityContext, n: u32| async move { Ok::<_, FlowError>(n) };
    let flow = move |ctx: OrchestrationContext, (): ()| async move {
        let all = (
            ctx.call(us, 1).start(),
            ctx.call(eu, 1).start(),
            ctx.call(parse::<u32>, String::new()).start(),
            ctx.call(closure, 1).start(),
        );
        all.0.await
    };
    let registry = registry(|r| {
        let r = r.activity("eu", eu).activity("us", us).activity("closure", closure);
        let r = r.activity("number", parse::<u32>).activity("text", parse::<String>);
        r.orchestration("flow", flow)
    });
    let names = scheduled(&registry).expect("all are registered");
    assert_eq!(names, ["us", "eu", "number", "closure"]);
}

#[test]
fn calling_a_function_with_no_name_or_two_names_suspends_the_instance() {
    let flow = async |ctx: OrchestrationContext, (): ()| {
        // The error is caught, as if the activity itself had failed.
        let parsed = ctx.call(parse::<u32>, String::new()).await;
        Ok::<_, FlowError>(parsed.unwrap_or(false))
    };
    let none = registry(|r| r.orchestration("flow", flow).activity("text", parse::<String>));
    let reason = scheduled(&none).expect_err("not registered");
    for part in ["registering.rs:", "parse<u32>`, which is not registered", "with `activity`"] {
        assert!(reason.contains(part), "{part:?} is not in {reason}");
    }
    let two = registry(|r| {
        let r = r.activity("one", parse::<u32>).activity("two", parse::<u32>);
        r.orchestration("flow", flow)
    });
    let reason = scheduled(&two).expect_err("ambiguous");
    for part in ["several names (`one` and `two`)", "`ctx.activity` and the name"] {
        assert!(reason.contains(part), "{part:?} is not in {reason}");
    }
}

async fn attempted(input: Json, attempt: u32) -> Result<Json, FlowError> {
    let registry = registry(|r| r.activity("echo", echo));
    let task = ActivityTask {
        instance: id("i"),
        execution: 2,
        event: 7,
        identity: None,
        orchestration: OrchestrationName::new("flow").expect("valid"),
        name: "echo".to_owned(),
        input: input.clone(),
        tag: None,
        session: None,
        policy: ActivityPolicy::default(),
    };
    let context = ActivityContext::new(&task, attempt, CancellationToken::new());
    registry.activity("echo").expect("registered").run(context, input).await
}

#[tokio::test]
async fn an_activity_gets_the_same_idempotency_key_in_every_attempt() {
    for attempt in [1, 2] {
        let output = attempted(json("hi"), attempt).await.expect("runs");
        assert_eq!(output, json(format!("hi i:2:7 {attempt}")));
    }
}

#[tokio::test]
async fn failures_and_panics_of_activities_are_distinguished() {
    let kind = async |input: Json| attempted(input, 1).await.expect_err("fails").kind;
    assert_eq!(kind(json("fail")).await, FailureKind::Application);
    assert_eq!(kind(json("panic")).await, FailureKind::Panic);
    assert_eq!(kind(json(5)).await, FailureKind::Codec);
}

#[tokio::test]
async fn an_activity_can_observe_its_cancellation() {
    let token = CancellationToken::new();
    let flow = |ctx: ActivityContext, (): ()| async move {
        ctx.cancelled().await;
        Ok::<_, FlowError>(ctx.is_cancelled())
    };
    let registry = registry(|r| r.activity("wait", flow));
    let task = ActivityTask {
        instance: id("i"),
        execution: 1,
        event: 3,
        identity: None,
        orchestration: OrchestrationName::new("flow").expect("valid"),
        name: "wait".to_owned(),
        input: Json::null(),
        tag: None,
        session: None,
        policy: ActivityPolicy::default(),
    };
    let context = ActivityContext::new(&task, 1, token.clone());
    let code = registry.activity("wait").expect("registered");
    let (output, ()) = tokio::join!(code.run(context, Json::null()), async { token.cancel() });
    assert_eq!(output.expect("runs"), json(true));
}

#[test]
fn flow_errors_keep_their_kind() {
    let permanent = FlowError::permanent("no");
    assert_eq!(permanent.clone().into_flow_error(), permanent);
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(permanent.clone());
    assert_eq!(boxed.into_flow_error(), permanent);
    let other: Box<dyn std::error::Error + Send + Sync> = "plain".into();
    assert_eq!(other.into_flow_error(), FlowError::application("plain"));
    assert_eq!("text".into_flow_error(), FlowError::application("text"));
}

#[derive(Debug, thiserror::Error)]
#[error("the order cannot be charged")]
struct Wrapping {
    #[source]
    cause: FlowError,
}

#[test]
fn wrapped_permanent_failures_are_recognized() {
    use anyhow::Context as _;
    let permanent = || FlowError::permanent("no such card");
    let own = || Wrapping { cause: permanent() };
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(own());
    let plain = anyhow::Error::from(permanent());
    let context = Err::<(), _>(permanent()).context("charging").expect_err("an error");
    let deep = Err::<(), _>(own()).context("charging").expect_err("an error");
    let message = "the order cannot be charged";
    for (error, message) in [
        (own().into_flow_error(), message),
        (boxed.into_flow_error(), message),
        (plain.into_flow_error(), "no such card"),
        (context.into_flow_error(), "charging: no such card"),
        (deep.into_flow_error(), "charging: the order cannot be charged: no such card"),
    ] {
        assert_eq!(error, FlowError::permanent(message));
    }
    let other = anyhow::anyhow!("plain").context("charging").into_flow_error();
    assert_eq!(other, FlowError::application("charging: plain"));
}
