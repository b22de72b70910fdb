//! Activities: ordinary async code with side effects, run at least once by a worker.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use wakeline_core::InstanceId;

use crate::error::FlowError;
use crate::message::ActivityTask;

/// The name of an activity together with its input and output types, for example
/// `const CHARGE: Activity<Order, Receipt> = Activity::named("charge");`
#[derive(Debug)]
pub struct Activity<I, O> {
    name: Cow<'static, str>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Activity<I, O> {
    /// Refers to the activity that is registered under this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), types: PhantomData }
    }

    /// Returns the name that the activity is registered under.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn into_name(self) -> String {
        self.name.into_owned()
    }
}

impl<I, O> Clone for Activity<I, O> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), types: PhantomData }
    }
}

impl<I, O> From<&'static str> for Activity<I, O> {
    fn from(name: &'static str) -> Self {
        Self::named(name)
    }
}

impl<I, O> From<String> for Activity<I, O> {
    fn from(name: String) -> Self {
        Self { name: Cow::Owned(name), types: PhantomData }
    }
}

/// The names that functions are registered under. The key is the function's type, which is unique
/// to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FnNames(HashMap<TypeId, Vec<String>>);

impl FnNames {
    /// Records that a function is registered under a name.
    pub(crate) fn add<F: 'static>(&mut self, name: &str) {
        self.0.entry(TypeId::of::<F>()).or_default().push(name.to_owned());
    }

    /// Returns the name of a function, or an error if it has none or several.
    pub(crate) fn find<F: 'static>(&self) -> Result<&str, FnNameError> {
        match self.0.get(&TypeId::of::<F>()).map(Vec::as_slice) {
            Some([name]) => Ok(name),
            names => {
                let function = std::any::type_name::<F>().to_owned();
                Err(FnNameError { function, names: names.unwrap_or_default().to_vec() })
            }
        }
    }
}

/// The function passed to `ctx.call` does not identify one registered activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FnNameError {
    function: String,
    names: Vec<String>,
}

impl fmt::Display for FnNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, names } = self;
        if names.is_empty() {
            return write!(
                f,
                "`{function}`, which is not registered in this process: register it under a \
                 name with `activity`, or with `activity_elsewhere_fn` if other processes run it"
            );
        }
        let names = names.join("` and `");
        write!(
            f,
            "`{function}`, which is registered under several names (`{names}`): choose one with \
             `ctx.activity` and the name"
        )
    }
}

/// What a running activity can read about itself: its instance, its attempt, shared state and
/// cancellation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ActivityContext {
    instance: InstanceId,
    execution: u64,
    event: u64,
    identity: Option<String>,
    attempt: u32,
    name: String,
    cancellation: CancellationToken,
    states: Arc<States>,
}

/// The values that the program shares with its activities, at most one of each type.
#[derive(Clone, Default)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    /// Adds a value. Returns false if there was already one of its type.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, state: T) -> bool {
        self.0.insert(TypeId::of::<T>(), Arc::new(state)).is_none()
    }

    fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "States({})", self.0.len())
    }
}

impl ActivityContext {
    /// Creates the context of one attempt; the first attempt is 1. The token is cancelled once the
    /// result is no longer needed.
    pub fn new(task: &ActivityTask, attempt: u32, cancellation: CancellationToken) -> Self {
        Self {
            instance: task.instance.clone(),
            execution: task.execution,
            event: task.event,
            identity: task.identity.clone(),
            attempt,
            name: task.name.clone(),
            cancellation,
            states: Arc::default(),
        }
    }

    pub(crate) fn with_states(self, states: Arc<States>) -> Self {
        Self { states, ..self }
    }

    /// Adds a value that [`Self::state`] then returns. Meant for tests of an activity.
    pub fn with_state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        Arc::make_mut(&mut self.states).add(state);
        self
    }

    /// Returns the value of this type that the program shares with its activities through
    /// [`RegistryBuilder::state`](crate::RegistryBuilder::state), such as a connection pool or a
    /// client. Fails with an error that names the type and is not retried if there is none.
    ///
    /// ```
    /// use wakeline_flow::{ActivityContext, FlowError, Registry};
    ///
    /// struct Mailer {
    ///     sender: String,
    /// }
    ///
    /// async fn greet(ctx: ActivityContext, to: String) -> Result<String, FlowError> {
    ///     let mailer = ctx.state::<Mailer>()?;
    ///     Ok(format!("from {} to {to}", mailer.sender))
    /// }
    ///
    /// let mailer = Mailer { sender: "shop@example.com".to_owned() };
    /// let registry = Registry::builder().state(mailer).activity("greet", greet).build();
    /// # assert!(registry.is_ok());
    /// ```
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T, FlowError> {
        self.states.get().ok_or_else(|| {
            FlowError::permanent(format!(
                "the registry has no state of type {}: add it with `.state(..)`",
                std::any::type_name::<T>()
            ))
        })
    }

    /// The instance that scheduled this activity.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// The execution that scheduled this activity.
    pub fn execution(&self) -> u64 {
        self.execution
    }

    /// The id of the history event that scheduled this activity.
    pub fn event(&self) -> u64 {
        self.event
    }

    /// The name of this activity.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of this attempt; the first is 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A key that is the same for all attempts of this activity and differs from that of every
    /// other activity, even if the instance is deleted and started again under the same id. Pass it
    /// to the services that the activity calls, so that they can recognise a repeated attempt.
    pub fn idempotency_key(&self) -> String {
        let key = format!("{}:{}:{}", self.instance, self.execution, self.event);
        match &self.identity {
            Some(identity) => format!("{key}:{identity}"),
            None => key,
        }
    }

    /// The token that is cancelled once the result is no longer needed.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Whether the result is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until the result is no longer needed.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }
}
