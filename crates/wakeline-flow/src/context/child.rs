//! Starting child orchestrations.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;
use serde::de::DeserializeOwned;
use wakeline_core::{InstanceId, OrchestrationName};

use super::OrchestrationContext;
use super::operation::{OperationHandle, ResultType, decode};
use super::send::refused;
use crate::capability::capability;
use crate::engine::child_id::child_id;
use crate::engine::state::{At, ExecutionShared};
use crate::error::FlowError;
use crate::event::{ClosePolicy, EventKind};
use crate::json::Json;

/// The name of an orchestration together with its input and output types, for example
/// `const SHIP: Orchestration<Order, Parcel> = Orchestration::named("ship");`
#[derive(Debug)]
pub struct Orchestration<I, O> {
    name: Cow<'static, str>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Orchestration<I, O> {
    /// Refers to the orchestration that is registered under this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), types: PhantomData }
    }

    /// Returns the name that the orchestration is registered under.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<I, O> Clone for Orchestration<I, O> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), types: PhantomData }
    }
}

impl<I, O> From<&'static str> for Orchestration<I, O> {
    fn from(name: &'static str) -> Self {
        Self::named(name)
    }
}

impl<I, O> From<String> for Orchestration<I, O> {
    fn from(name: String) -> Self {
        Self { name: Cow::Owned(name), types: PhantomData }
    }
}

impl OrchestrationContext {
    /// Starts another orchestration and waits for its result, or starts it without waiting
    /// ([`ChildCall::detached`]).
    #[track_caller]
    pub fn child<I: Serialize, O: DeserializeOwned>(
        &self,
        orchestration: impl Into<Orchestration<I, O>>,
        input: I,
    ) -> ChildCall<O> {
        let name = orchestration.into().name;
        let plan = Json::of(&input)
            .map_err(|error| FlowError::encoding(format!("the input of child {name}"), &error))
            .and_then(|input| Ok((OrchestrationName::new(&name).map_err(refused)?, input)))
            .map(|(name, input)| ChildPlan {
                name,
                input,
                id: None,
                version: None,
                close_policy: ClosePolicy::default(),
            });
        ChildCall {
            shared: Arc::clone(&self.shared),
            at: Location::caller(),
            plan,
            gives: PhantomData,
        }
    }
}

struct ChildPlan {
    name: OrchestrationName,
    input: Json,
    id: Option<InstanceId>,
    version: Option<String>,
    close_policy: ClosePolicy,
}

/// A child orchestration to start: await it, call [`ChildCall::start`] and await it later, or start
/// it [`ChildCall::detached`].
#[must_use = "a child begins when it is awaited, or started"]
pub struct ChildCall<O> {
    shared: Arc<ExecutionShared>,
    at: At,
    plan: Result<ChildPlan, FlowError>,
    gives: ResultType<O>,
}

impl<O> ChildCall<O> {
    /// Sets the instance id of the child. By default the id is derived from this instance, its
    /// execution and the number of the event, so it is unique even after this instance is deleted
    /// and started again. An id given here must not be in use: otherwise an awaited child fails,
    /// and a detached one is not started.
    pub fn id(mut self, instance: &str) -> Self {
        match (InstanceId::new(instance).map_err(refused), &mut self.plan) {
            (Ok(instance), Ok(plan)) => plan.id = Some(instance),
            (Err(error), Ok(_)) => self.plan = Err(error),
            (_, Err(_)) => {}
        }
        self
    }

    /// Sets the version of the child's code; by default the newest runs. With text that cannot be a
    /// version, the child fails.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        let version = version.into();
        if let Ok(plan) = &mut self.plan {
            match capability(&plan.name, Some(&version)) {
                Ok(_) => plan.version = Some(version),
                Err(error) => self.plan = Err(refused(error)),
            }
        }
        self
    }

    /// Sets what happens to the child if it is still running when this orchestration ends for any
    /// reason: by default it is terminated. With [`ClosePolicy::Abandon`] it continues, even if its
    /// handle is dropped. Has no effect on a detached child, which always continues.
    pub fn close_policy(mut self, policy: ClosePolicy) -> Self {
        if let Ok(plan) = &mut self.plan {
            plan.close_policy = policy;
        }
        self
    }

    /// Starts the child now, so that several can run at the same time.
    pub fn start(self) -> ChildHandle<O> {
        let mut handle = self.into_handle();
        handle.begin();
        handle
    }

    /// Starts the child now without waiting for it: it may outlive this orchestration.
    pub fn detached(self) -> Result<InstanceId, FlowError> {
        let plan = self.plan?;
        let over =
            || FlowError::application("the orchestration has ended and cannot start another child");
        open(&self.shared, self.at, plan, false).map(|(_, instance)| instance).ok_or_else(over)
    }

    fn into_handle(self) -> ChildHandle<O> {
        let stage = ChildStage::Planned(Box::new(self.plan));
        ChildHandle { shared: self.shared, at: self.at, stage, gives: PhantomData }
    }
}

impl<O: DeserializeOwned> IntoFuture for ChildCall<O> {
    type Output = Result<O, FlowError>;
    type IntoFuture = ChildHandle<O>;

    fn into_future(self) -> ChildHandle<O> {
        self.into_handle()
    }
}

enum ChildStage {
    Planned(Box<Result<ChildPlan, FlowError>>),
    /// The child was started; there is no operation if the execution is over.
    Begun(Option<(OperationHandle, InstanceId)>),
    Refused(FlowError),
}

/// A child that is running, or is started when this is awaited. Dropping it before the child has
/// ended requests its cancellation, unless its policy is [`ClosePolicy::Abandon`].
#[must_use = "dropping it cancels the child"]
pub struct ChildHandle<O> {
    shared: Arc<ExecutionShared>,
    at: At,
    stage: ChildStage,
    gives: ResultType<O>,
}

impl<O> ChildHandle<O> {
    /// The instance id of the child, once it has been started.
    pub fn instance(&self) -> Option<&InstanceId> {
        match &self.stage {
            ChildStage::Begun(Some((_, instance))) => Some(instance),
            _ => None,
        }
    }

    fn begin(&mut self) {
        if !matches!(self.stage, ChildStage::Planned(_)) {
            return;
        }
        let ChildStage::Planned(plan) = std::mem::replace(&mut self.stage, ChildStage::Begun(None))
        else {
            return;
        };
        self.stage = match *plan {
            Err(error) => ChildStage::Refused(error),
            Ok(plan) => {
                let opened = open(&self.shared, self.at, plan, true);
                ChildStage::Begun(opened.map(|(event, instance)| {
                    (OperationHandle::of(&self.shared, self.at, event), instance)
                }))
            }
        };
    }
}

impl<O: DeserializeOwned> Future for ChildHandle<O> {
    type Output = Result<O, FlowError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin();
        match &self.stage {
            ChildStage::Refused(error) => Poll::Ready(Err(error.clone())),
            ChildStage::Begun(Some((operation, instance))) => operation
                .poll(context)
                .map(|outcome| decode(format_args!("the result of child {instance}"), outcome)),
            _ => Poll::Pending,
        }
    }
}

fn open(
    shared: &Arc<ExecutionShared>,
    at: At,
    plan: ChildPlan,
    attached: bool,
) -> Option<(u64, InstanceId)> {
    let ChildPlan { name, input, id, version, close_policy } = plan;
    shared.with(at, |state| {
        let instance = id
            .or_else(|| state.recorded_children.get(&state.next_id).cloned())
            .unwrap_or_else(|| child_id(&shared.facts, state.next_id));
        let started = instance.clone();
        let close_policy = if attached { close_policy } else { ClosePolicy::default() };
        let kind =
            EventKind::ChildStarted { instance, name, version, input, attached, close_policy };
        (state.decide(kind, Some(at)), started)
    })
}
