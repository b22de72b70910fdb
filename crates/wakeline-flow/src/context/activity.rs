//! Running activities.

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
use super::send::refused;
use super::ticket::{Gives, Ticket, decode};
use super::timer::Sleep;
use crate::activity::{Activity, ActivityContext};
use crate::engine::Foreign;
use crate::engine::state::{At, Shared, place};
use crate::error::{FailureKind, FlowError};
use crate::event::EventKind;
use crate::json::Json;
use crate::retry::{ActivityPolicy, Backoff};

impl OrchestrationContext {
    /// Runs an activity: by its name, with the type of its result chosen here, or by an
    /// [`Activity`] that says both types.
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

    /// Runs an activity by its function, which was registered under a name with
    /// [`RegistryBuilder::activity`](crate::RegistryBuilder::activity). The types are those of the
    /// function. One that is not registered, or under several names, suspends the instance.
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
            let foreign = Foreign::Function { function: error.to_string(), at: place(at) };
            let refusal = FlowError::permanent(foreign.to_string());
            self.shared.with(at, |state| state.foreign.get_or_insert(foreign).clone());
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
            Ok(Plan { name, input, tag: None, session: None, policy })
        });
        ActivityCall { context: self.clone(), at, plan, timeout: None, gives: PhantomData }
    }
}

struct Plan {
    name: String,
    input: Json,
    tag: Option<Tag>,
    session: Option<SessionId>,
    policy: ActivityPolicy,
}

/// An activity to run: await it, or [`ActivityCall::start`] it and await it later.
#[must_use = "an activity begins when it is awaited, or started"]
pub struct ActivityCall<O> {
    context: OrchestrationContext,
    at: At,
    plan: Result<Plan, FlowError>,
    timeout: Option<Duration>,
    gives: Gives<O>,
}

impl<O> ActivityCall<O> {
    /// Only workers that take this tag run it.
    pub fn tag(self, tag: &str) -> Self {
        let tag = Tag::new(tag).map_err(refused);
        self.planned(|plan| tag.map(|tag| plan.tag = Some(tag)))
    }

    /// The worker that owns this session runs it.
    pub fn session(self, session: &str) -> Self {
        let session = SessionId::new(session).map_err(refused);
        self.planned(|plan| session.map(|session| plan.session = Some(session)))
    }

    /// How it is retried.
    pub fn retry(self, policy: ActivityPolicy) -> Self {
        self.planned(|plan| {
            plan.policy = policy;
            Ok(())
        })
    }

    /// How often it is tried at most. A try whose process ends counts, and so does one that is cut
    /// off the store for longer than its lease, unless the same process takes the activity again.
    pub fn attempts(self, attempts: u32) -> Self {
        self.planned(|plan| {
            plan.policy.attempts_max = attempts.max(1);
            Ok(())
        })
    }

    /// How long to wait between two tries.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.planned(|plan| {
            plan.policy.backoff = backoff;
            Ok(())
        })
    }

    /// How long one try may take.
    pub fn attempt_timeout(self, span: Duration) -> Self {
        self.planned(|plan| {
            let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            plan.policy.attempt_timeout_ms = Some(ms);
            Ok(())
        })
    }

    /// How long all of it may take, waiting for a worker and all tries included. Then it fails
    /// with [`FailureKind::Timeout`], and the activity is cancelled.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timeout = Some(span);
        self
    }

    /// Schedules it now, so that several run at once.
    pub fn start(self) -> ActivityHandle<O> {
        let mut handle = self.into_handle();
        handle.begin();
        handle
    }

    fn planned(mut self, change: impl FnOnce(&mut Plan) -> Result<(), FlowError>) -> Self {
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
            stage: Stage::Planned(Box::new(self.plan)),
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

enum Stage {
    Planned(Box<Result<Plan, FlowError>>),
    /// It has begun; no ticket if the execution is over.
    Begun(Option<Ticket>),
    Refused(FlowError),
    Ended,
}

/// An activity that runs, or will when this is awaited. Dropped before its end it is cancelled.
#[must_use = "dropping it cancels the activity"]
pub struct ActivityHandle<O> {
    shared: Arc<Shared>,
    at: At,
    name: String,
    timer: Option<Sleep>,
    stage: Stage,
    gives: Gives<O>,
}

impl<O> ActivityHandle<O> {
    fn begin(&mut self) {
        if !matches!(self.stage, Stage::Planned(_)) {
            return;
        }
        let Stage::Planned(plan) = std::mem::replace(&mut self.stage, Stage::Ended) else { return };
        self.stage = match *plan {
            Err(error) => Stage::Refused(error),
            Ok(Plan { name, input, tag, session, policy }) => {
                let kind = EventKind::ActivityScheduled { name, input, tag, session, policy };
                Stage::Begun(Ticket::open(&self.shared, self.at, kind))
            }
        };
        if let (Stage::Begun(_), Some(timer)) = (&self.stage, &mut self.timer) {
            timer.begin();
        }
    }

    /// The activity first, then the time: both end only once.
    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<Result<Json, FlowError>> {
        let Stage::Begun(Some(ticket)) = &self.stage else { return Poll::Pending };
        if let Poll::Ready(outcome) = ticket.poll(context) {
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
        if let Stage::Refused(error) = &self.stage {
            return Poll::Ready(Err(error.clone()));
        }
        self.poll_begun(context).map(|outcome| {
            self.stage = Stage::Ended;
            self.timer = None;
            decode(format_args!("the result of activity {}", self.name), outcome)
        })
    }
}
