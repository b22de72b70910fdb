//! What activities are written with: ordinary async code, run at least once by workers.

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

/// An activity with its types: `const CHARGE: Activity<Order, Receipt> =
/// Activity::named("charge");`
#[derive(Debug)]
pub struct Activity<I, O> {
    name: Cow<'static, str>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Activity<I, O> {
    /// The activity of a name.
    pub const fn named(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), types: PhantomData }
    }

    /// Its name.
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

/// Under which names functions are registered, by their types: each function has a type of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct FnNames(HashMap<TypeId, Vec<String>>);

impl FnNames {
    /// Notes that a function is registered under a name.
    pub(crate) fn add<F: 'static>(&mut self, name: &str) {
        self.0.entry(TypeId::of::<F>()).or_default().push(name.to_owned());
    }

    /// The name of a function. An error if it has none, or several.
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

/// Why it is not known which activity a function is.
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
            "`{function}`, which is registered as `{names}`: say which one is meant with \
             `ctx.activity` and the name"
        )
    }
}

/// What a running activity knows of itself. Cheap to clone.
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

/// Values that programs hand to their activities, one of each type.
#[derive(Clone, Default)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    /// Adds a value. False if there was one of its type.
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
    /// The context of one try; the first has attempt 1. The token is cancelled when nobody wants
    /// the result any more.
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

    /// The same context with one value more for [`Self::state`]: for tests of an activity.
    pub fn with_state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        Arc::make_mut(&mut self.states).add(state);
        self
    }

    /// What the program handed to its activities with
    /// [`RegistryBuilder::state`](crate::RegistryBuilder::state): a pool of connections, a client.
    /// If there is none of this type, that is an error that names it and is not retried.
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

    /// The instance that scheduled it.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// The execution that scheduled it.
    pub fn execution(&self) -> u64 {
        self.execution
    }

    /// The event that scheduled it.
    pub fn event(&self) -> u64 {
        self.event
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which try this is; the first is 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The same for all tries of this activity and for no other, also if the instance is deleted
    /// and started again under its id: hand it to whatever the activity calls, so that a second
    /// try is recognised.
    pub fn idempotency_key(&self) -> String {
        let key = format!("{}:{}:{}", self.instance, self.execution, self.event);
        match &self.identity {
            Some(identity) => format!("{key}:{identity}"),
            None => key,
        }
    }

    /// Cancelled when nobody wants the result any more.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Whether nobody wants the result any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until nobody wants the result any more.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }
}
