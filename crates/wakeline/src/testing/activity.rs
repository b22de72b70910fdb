//! Runs one activity without a runtime.

use tokio_util::sync::CancellationToken;
use wakeline_core::{InstanceId, OrchestrationName};
use wakeline_flow::{ActivityContext, ActivityPolicy, ActivityTask, Json};

/// Runs single activities as a worker does.
///
/// ```
/// use wakeline::testing::ActivityEnv;
/// use wakeline::{ActivityContext, FlowError};
///
/// async fn upload(ctx: ActivityContext, parts: u32) -> Result<u32, FlowError> {
///     for part in 0..parts {
///         if ctx.is_cancelled() {
///             return Ok(part);
///         }
///     }
///     Ok(parts)
/// }
///
/// # #[tokio::main]
/// # async fn main() {
/// let env = ActivityEnv::new();
/// assert_eq!(env.run(upload, 3).await, Ok(3));
/// env.cancel();
/// assert_eq!(env.run(upload, 3).await, Ok(0));
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct ActivityEnv {
    attempt: u32,
    cancellation: CancellationToken,
}

impl ActivityEnv {
    /// Creates an environment for a first attempt.
    pub fn new() -> Self {
        Self { attempt: 1, cancellation: CancellationToken::new() }
    }

    /// Sets the number of the attempt; the first is 1.
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// Cancels the activity, as if its result were no longer needed.
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// The token that [`Self::cancel`] cancels.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Returns the context that an activity is called with: instance `test`, execution 1, event 1.
    pub fn context(&self, activity: &str) -> ActivityContext {
        let task = ActivityTask {
            instance: InstanceId::new("test").expect("a valid id"),
            execution: 1,
            event: 1,
            identity: None,
            orchestration: OrchestrationName::new("test").expect("a valid name"),
            name: activity.to_owned(),
            input: Json::null(),
            tag: None,
            session: None,
            policy: ActivityPolicy::default(),
        };
        ActivityContext::new(&task, self.attempt, self.cancellation.clone())
    }

    /// Runs one attempt of an activity.
    pub async fn run<I, O, E, F, R>(&self, activity: F, input: I) -> Result<O, E>
    where
        F: Fn(ActivityContext, I) -> R,
        R: Future<Output = Result<O, E>>,
    {
        let path = std::any::type_name::<F>();
        let name = path.rsplit("::").next().unwrap_or(path);
        activity(self.context(name), input).await
    }
}
