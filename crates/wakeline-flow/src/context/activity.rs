//! Running activities from the code of an orchestration.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wakeline_core::{ActivityName, SessionId, Tag};

use super::OrchestrationContext;
use super::operation::{OperationHandle, ResultType, decode};
use super::send::refused;
use super::timer::Sleep;
use crate::activity::{Activity, ActivityContext};
use crate::engine::Nondeterminism;
use crate::engine::state::{At, ExecutionShared, place};
use crate::error::{FailureKind, FlowError};
use crate::event::EventKind;
use crate::json::Json;
use crate::retry::{ActivityPolicy, Backoff};

impl OrchestrationContext {
    /// Runs an activity: by its name, with the type of its result chosen by the caller, or by an
    /// [`Activity`] that fixes both types.
    #[track_caller]
    pub fn activity<I: Serialize, O: DeserializeOwned>(
        &self,
        activity: impl Into<Activity<I, O>>,
        input: I,
    ) -> ActivityCall<O> {
        let name = activity.into().into_name();
        let name = ActivityName::new(&name).map(|_| name).map_err(refused);
        self.activity_named(name, &input, Location::caller())
    }

    /// Runs an activity by its function, which must be registered under exactly one name with
    /// [`RegistryBuilder::activity`](crate::RegistryBuilder::activity). The types are those of the
    /// function. A function that is not registered, or under several names, suspends the instance.
    #[track_caller]
    pub fn call<I, O, E, F, R>(&self, _activity: F, input: I) -> ActivityCall<O>
    where
        F: Fn(ActivityContext, I) -> R + 'static,
        R: Future<Output = Result<O, E>>,
        I: Serialize,
        O: DeserializeOwned,
    {
        let at = Location::caller();
        let name = self.fn_names.find::<F>().map(str::to_owned).map_err(|error| {
            let nondeterminism =
                Nondeterminism::Function { function: error.to_string(), at: place(at) };
            let refusal = FlowError::permanent(nondeterminism.to_string());
            self.shared
                .with(at, |state| state.nondeterminism.get_or_insert(nondeterminism).clone());
            refusal
        });
        self.activity_named(name, &input, at)
    }

    fn activity_named<I: Serialize, O>(
        &self,
        name: Result<String, FlowError>,
        input: &I,
        at: At,
    ) -> ActivityCall<O> {
        let plan = name.and_then(|name| {
            let wrong =
                |error| FlowError::encoding(format!("the input of activity {name}"), &error);
            let input = Json::of(input).map_err(wrong)?;
            let policy = ActivityPolicy::default();
            Ok(ActivityPlan { name, input, tag: None, session: None, policy })
        });
        ActivityCall { context: self.clone(), at, plan, timeout: None, gives: PhantomData }
    }
}

struct ActivityPlan {
    name: String,
    input: Json,
    tag: Option<Tag>,
    session: Option<SessionId>,
    policy: ActivityPolicy,
}

/// An activity to run: await it, or call [`ActivityCall::start`] and await it later.
#[must_use = "an activity begins when it is awaited, or started"]
pub struct ActivityCall<O> {
    context: OrchestrationContext,
    at: At,
    plan: Result<ActivityPlan, FlowError>,
    timeout: Option<Duration>,
    gives: ResultType<O>,
}

impl<O> ActivityCall<O> {
    /// Restricts the activity to workers that accept this tag.
    pub fn tag(self, tag: &str) -> Self {
        let tag = Tag::new(tag).map_err(refused);
        self.planned(|plan| tag.map(|tag| plan.tag = Some(tag)))
    }

    /// Runs the activity on the worker that owns this session.
    pub fn session(self, session: &str) -> Self {
        let session = SessionId::new(session).map_err(refused);
        self.planned(|plan| session.map(|session| plan.session = Some(session)))
    }

    /// Sets the retry policy.
    pub fn retry(self, policy: ActivityPolicy) -> Self {
        self.planned(|plan| {
            plan.policy = policy;
            Ok(())
        })
    }

    /// Sets the maximum number of attempts. An attempt whose process dies counts, and so does one
    /// that loses the store for longer than its lease, unless the same process takes the activity
    /// again.
    pub fn attempts(self, attempts: u32) -> Self {
        self.planned(|plan| {
            plan.policy.attempts_max = attempts.max(1);
            Ok(())
        })
    }

    /// Sets the delay between two attempts.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.planned(|plan| {
            plan.policy.backoff = backoff;
            Ok(())
        })
    }

    /// Sets the time limit of one attempt.
    pub fn attempt_timeout(self, span: Duration) -> Self {
        self.planned(|plan| {
            let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            plan.policy.attempt_timeout_ms = Some(ms);
            Ok(())
        })
    }

    /// Sets the time limit of the whole activity, including all attempts and the wait for a worker.
    /// When it expires, the activity fails with [`FailureKind::Timeout`] and is cancelled.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timeout = Some(span);
        self
    }

    /// Schedules the activity now, so that several can run at the same time.
    pub fn start(self) -> ActivityHandle<O> {
        let mut handle = self.into_handle();
        handle.begin();
        handle
    }

    fn planned(mut self, change: impl FnOnce(&mut ActivityPlan) -> Result<(), FlowError>) -> Self {
        let error = self.plan.as_mut().ok().and_then(|plan| change(plan).err());
        if let Some(error) = error {
            self.plan = Err(error);
        }
        self
    }

    fn into_handle(self) -> ActivityHandle<O> {
        let name = self.plan.as_ref().map_or_else(|_| String::new(), |plan| plan.name.clone());
        ActivityHandle {
            shared: Arc::clone(&self.context.shared),
            at: self.at,
            name,
            timer: self.timeout.map(|span| Sleep::after(&self.context, span, self.at)),
            stage: ActivityStage::Planned(Box::new(self.plan)),
            gives: PhantomData,
        }
    }
}

impl<O: DeserializeOwned> IntoFuture for ActivityCall<O> {
    type Output = Result<O, FlowError>;
    type IntoFuture = ActivityHandle<O>;

    fn into_future(self) -> ActivityHandle<O> {
        self.into_handle()
    }
}

enum ActivityStage {
    Planned(Box<Result<ActivityPlan, FlowError>>),
    /// The activity was scheduled; there is no operation if the execution is over.
    Begun(Option<OperationHandle>),
    Refused(FlowError),
    Ended,
}

/// An activity that is running, or is scheduled when this is awaited. Dropping it before the
/// activity has ended cancels the activity.
#[must_use = "dropping it cancels the activity"]
pub struct ActivityHandle<O> {
    shared: Arc<ExecutionShared>,
    at: At,
    name: String,
    timer: Option<Sleep>,
    stage: ActivityStage,
    gives: ResultType<O>,
}

impl<O> ActivityHandle<O> {
    fn begin(&mut self) {
        if !matches!(self.stage, ActivityStage::Planned(_)) {
            return;
        }
        let ActivityStage::Planned(plan) = std::mem::replace(&mut self.stage, ActivityStage::Ended)
        else {
            return;
        };
        self.stage = match *plan {
            Err(error) => ActivityStage::Refused(error),
            Ok(ActivityPlan { name, input, tag, session, policy }) => {
                let kind = EventKind::ActivityScheduled { name, input, tag, session, policy };
                ActivityStage::Begun(OperationHandle::open(&self.shared, self.at, kind))
            }
        };
        if let (ActivityStage::Begun(_), Some(timer)) = (&self.stage, &mut self.timer) {
            timer.begin();
        }
    }

    /// Polls the activity before the timer, so that an activity that has ended wins.
    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<Result<Json, FlowError>> {
        let ActivityStage::Begun(Some(operation)) = &self.stage else { return Poll::Pending };
        if let Poll::Ready(outcome) = operation.poll(context) {
            return Poll::Ready(outcome);
        }
        let up = self.timer.as_mut().map_or(Poll::Pending, |timer| Pin::new(timer).poll(context));
        up.map(|()| {
            let text = format!(
                "activity {} did not finish within its timeout, and was cancelled",
                self.name
            );
            Err(FlowError::new(FailureKind::Timeout, text))
        })
    }
}

impl<O: DeserializeOwned> Future for ActivityHandle<O> {
    type Output = Result<O, FlowError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin();
        if let ActivityStage::Refused(error) = &self.stage {
            return Poll::Ready(Err(error.clone()));
        }
        self.poll_begun(context).map(|outcome| {
            self.stage = ActivityStage::Ended;
            self.timer = None;
            decode(format_args!("the result of activity {}", self.name), outcome)
        })
    }
}
