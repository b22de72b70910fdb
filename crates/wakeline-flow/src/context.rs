//! The context that the code of an orchestration is given.
//!
//! # Where it sits
//! The code of an orchestration gets an [`OrchestrationContext`] and performs every durable
//! operation through it. Each operation records a decision with the engine ([`crate::engine`]); the
//! futures here are woken only by deliveries of the engine.
//!
//! # Invariants
//! * Nothing is decided before a future is polled for the first time, unless its `start` is called.
//! * Dropping an operation that has begun and not ended records its cancellation.
//! * Everything that a getter returns follows from the history, so it is the same on replay.

mod activity;
mod cancel;
mod child;
mod event;
mod fork;
mod log;
mod operation;
mod random;
mod send;
mod timer;
mod values;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wakeline_core::{InstanceId, OrchestrationName, Timestamp};

pub use activity::{ActivityCall, ActivityHandle};
pub use cancel::Cancelled;
pub use child::{ChildCall, ChildHandle, Orchestration};
pub use event::{EventWait, Mailbox};
pub use fork::ContinueAsNew;
pub use send::{HookSend, QueueSend};
pub use timer::{Sleep, Timeout};

use crate::activity::FnNames;
use crate::engine::state::ExecutionShared;
use crate::event::Parent;

/// The number of events from which on a history counts as long.
const HISTORY_LONG: u64 = 10_000;

/// The handle through which an orchestration runs activities and children, waits, sends messages
/// and reads the time. Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use wakeline_flow::{ActivityContext, FlowError, OrchestrationContext, Registry};
///
/// async fn reserve(_: ActivityContext, item: String) -> Result<u32, FlowError> {
///     Ok(item.len() as u32)
/// }
///
/// async fn ship(_: ActivityContext, reservation: u32) -> Result<(), FlowError> {
///     if reservation == 0 { Err(FlowError::permanent("nothing reserved")) } else { Ok(()) }
/// }
///
/// async fn order(ctx: OrchestrationContext, item: String) -> Result<&'static str, FlowError> {
///     let reservation = ctx.call(reserve, item).attempts(5).await?;
///     let approval = ctx.event::<bool>("approved");
///     match ctx.timeout(Duration::from_secs(3 * 24 * 3600), approval).await {
///         Some(Ok(true)) => {
///             ctx.call(ship, reservation).await?;
///             Ok("shipped")
///         }
///         _ => Ok("given up"),
///     }
/// }
///
/// let registry = Registry::builder()
///     .orchestration("order", order)
///     .activity("reserve", reserve)
///     .activity("ship", ship)
///     .build()?;
/// # Ok::<(), wakeline_flow::RegistryError>(())
/// ```
///
/// # Rules for deterministic code
/// * Time, ids and random numbers come from the context, and everything with side effects is an
///   activity.
/// * Wait with the futures of the context, [`crate::join_all`] and [`crate::select2`]. The
///   combinators of `futures-util` work too, and so does `tokio::select!` if it is `biased`:
///   otherwise it polls in a random order.
/// * The context belongs to its orchestration. Using it in a spawned task or on another thread
///   suspends the instance.
#[derive(Clone)]
pub struct OrchestrationContext {
    shared: Arc<ExecutionShared>,
    fn_names: Arc<FnNames>,
}

impl OrchestrationContext {
    pub(crate) fn new(shared: Arc<ExecutionShared>) -> Self {
        Self { shared, fn_names: Arc::default() }
    }

    /// Returns the same context with the names of the functions in its registry.
    pub(crate) fn with_fn_names(self, fn_names: Arc<FnNames>) -> Self {
        Self { fn_names, ..self }
    }

    /// The id of this instance.
    pub fn instance(&self) -> &InstanceId {
        &self.shared.facts.instance
    }

    /// The number of the current execution: 1 at first, and one more after each
    /// [`Self::continue_as_new`].
    pub fn execution(&self) -> u64 {
        self.shared.facts.execution
    }

    /// The name that the code is registered under.
    pub fn name(&self) -> &OrchestrationName {
        &self.shared.facts.name
    }

    /// The version of the code that runs.
    pub fn version(&self) -> &str {
        &self.shared.facts.version
    }

    /// The parent that waits for this instance, if there is one.
    pub fn parent(&self) -> Option<&Parent> {
        self.shared.facts.parent.as_ref()
    }

    /// The time at which the current turn began, by the database's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.shared.lock().now)
    }

    /// The same time as [`Self::now`], as a [`SystemTime`] for calendar arithmetic.
    pub fn system_time(&self) -> SystemTime {
        let micros = self.now().0;
        let span = Duration::from_micros(micros.unsigned_abs());
        if micros < 0 { SystemTime::UNIX_EPOCH - span } else { SystemTime::UNIX_EPOCH + span }
    }

    /// Whether the code is repeating what its history already records. For diagnosis only: code
    /// that decides by it is not deterministic.
    pub fn is_replaying(&self) -> bool {
        self.shared.lock().replaying
    }

    /// Whether the history has grown long enough that [`Self::continue_as_new`] would make replays
    /// noticeably shorter. Code that ignores it still works.
    pub fn suggests_continue_as_new(&self) -> bool {
        self.shared.lock().next_id > HISTORY_LONG
    }
}

impl fmt::Debug for OrchestrationContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.shared.facts;
        write!(f, "OrchestrationContext({} {})", facts.instance, facts.execution)
    }
}
