//! Starting other orchestrations.

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
use super::send::refused;
use super::ticket::{Gives, Ticket, decode};
use crate::capability::capability;
use crate::engine::child_id::child_id;
use crate::engine::state::{At, Shared};
use crate::error::FlowError;
use crate::event::{ClosePolicy, EventKind};
use crate::json::Json;

/// An orchestration with its types: `const SHIP: Orchestration<Order, Parcel> =
/// Orchestration::named("ship");`
#[derive(Debug)]
pub struct Orchestration<I, O> {
    name: Cow<'static, str>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Orchestration<I, O> {
    /// The orchestration of a name.
    pub const fn named(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), types: PhantomData }
    }

    /// Its name.
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
    /// Starts another orchestration and waits for its result, or starts it
    /// [`ChildCall::detached`].
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
            .map(|(name, input)| Plan {
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

struct Plan {
    name: OrchestrationName,
    input: Json,
    id: Option<InstanceId>,
    version: Option<String>,
    close_policy: ClosePolicy,
}

/// An orchestration to start: await it, [`ChildCall::start`] it and await it later, or start it
/// [`ChildCall::detached`].
#[must_use = "a child begins when it is awaited, or started"]
pub struct ChildCall<O> {
    shared: Arc<Shared>,
    at: At,
    plan: Result<Plan, FlowError>,
    gives: Gives<O>,
}

impl<O> ChildCall<O> {
    /// Its instance. By default a name of its own is made from this instance, its execution and
    /// the number of the event; another life of this instance makes other names. An id that is
    /// given here must not be in use: if it is, an awaited child fails, and a detached one is not
    /// started.
    pub fn id(mut self, instance: &str) -> Self {
        match (InstanceId::new(instance).map_err(refused), &mut self.plan) {
            (Ok(instance), Ok(plan)) => plan.id = Some(instance),
            (Err(error), Ok(_)) => self.plan = Err(error),
            (_, Err(_)) => {}
        }
        self
    }

    /// The version of its code; the newest if none is named. A text that no version can be is an
    /// error of the child.
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

    /// What becomes of it if it has not ended when this orchestration ends, in whatever way: by
    /// default it is terminated. With [`ClosePolicy::Abandon`] it goes on, also if its handle is
    /// dropped. Has no effect on a detached child, which always goes on.
    pub fn close_policy(mut self, policy: ClosePolicy) -> Self {
        if let Ok(plan) = &mut self.plan {
            plan.close_policy = policy;
        }
        self
    }

    /// Starts it now, so that several run at once.
    pub fn start(self) -> ChildHandle<O> {
        let mut handle = self.into_handle();
        handle.begin();
        handle
    }

    /// Starts it now, and waits for nothing: it outlives this orchestration.
    pub fn detached(self) -> Result<InstanceId, FlowError> {
        let plan = self.plan?;
        let over = || {
            FlowError::application("the orchestration has ended: it can start no child any more")
        };
        open(&self.shared, self.at, plan, false).map(|(_, instance)| instance).ok_or_else(over)
    }

    fn into_handle(self) -> ChildHandle<O> {
        let stage = Stage::Planned(Box::new(self.plan));
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

enum Stage {
    Planned(Box<Result<Plan, FlowError>>),
    /// It has begun; no ticket if the execution is over.
    Begun(Option<(Ticket, InstanceId)>),
    Refused(FlowError),
}

/// A child that runs, or will when this is awaited. Dropped before its end it is asked to cancel,
/// unless its policy is [`ClosePolicy::Abandon`].
#[must_use = "dropping it cancels the child"]
pub struct ChildHandle<O> {
    shared: Arc<Shared>,
    at: At,
    stage: Stage,
    gives: Gives<O>,
}

impl<O> ChildHandle<O> {
    /// The child's instance, once it was started.
    pub fn instance(&self) -> Option<&InstanceId> {
        match &self.stage {
            Stage::Begun(Some((_, instance))) => Some(instance),
            _ => None,
        }
    }

    fn begin(&mut self) {
        if !matches!(self.stage, Stage::Planned(_)) {
            return;
        }
        let Stage::Planned(plan) = std::mem::replace(&mut self.stage, Stage::Begun(None)) else {
            return;
        };
        self.stage =
            match *plan {
                Err(error) => Stage::Refused(error),
                Ok(plan) => {
                    let opened = open(&self.shared, self.at, plan, true);
                    Stage::Begun(opened.map(|(event, instance)| {
                        (Ticket::of(&self.shared, self.at, event), instance)
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
            Stage::Refused(error) => Poll::Ready(Err(error.clone())),
            Stage::Begun(Some((ticket, instance))) => ticket
                .poll(context)
                .map(|outcome| decode(format_args!("the result of child {instance}"), outcome)),
            _ => Poll::Pending,
        }
    }
}

fn open(shared: &Arc<Shared>, at: At, plan: Plan, attached: bool) -> Option<(u64, InstanceId)> {
    let Plan { name, input, id, version, close_policy } = plan;
    shared.with(at, |state| {
        let instance = id
            .or_else(|| state.recorded_children.get(&state.next_id).cloned())
            .unwrap_or_else(|| child_id(&shared.about, state.next_id));
        let started = instance.clone();
        let close_policy = if attached { close_policy } else { ClosePolicy::default() };
        let kind =
            EventKind::ChildStarted { instance, name, version, input, attached, close_policy };
        (state.decide(kind, Some(at)), started)
    })
}
