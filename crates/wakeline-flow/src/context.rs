//! What an orchestration is written with.
//!
//! # Where it sits
//! The code of an orchestration gets an [`OrchestrationContext`] and does everything that must
//! survive through it. Each operation notes a decision with the engine ([`crate::engine`]); the
//! futures here are woken by deliveries only.
//!
//! # Invariants
//! * Nothing is decided before a future is polled for the first time, unless it says `start`.
//! * Dropping an operation that has begun and not ended decides its cancellation.
//! * Everything that a getter returns follows from the history: it is the same on replay.

mod activity;
mod cancel;
mod child;
mod event;
mod fork;
mod log;
mod random;
mod send;
mod ticket;
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
use crate::engine::state::Shared;
use crate::event::Parent;

/// So many events make a history long.
const HISTORY_LONG: u64 = 10_000;

/// What an orchestration is written with. Cheap to clone.
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
/// # What keeps it the same on replay
/// * The time, ids and random numbers come from here, and everything that touches the world is an
///   activity.
/// * Wait with what is here, [`crate::join_all`] and [`crate::select2`]. Combinators of
///   `futures-util` do as well, and `tokio::select!` if it says `biased`: without it, its order is
///   a matter of chance.
/// * The context belongs to its orchestration: used from a spawned task or another thread it does
///   nothing but suspend the instance.
#[derive(Clone)]
pub struct OrchestrationContext {
    shared: Arc<Shared>,
    fn_names: Arc<FnNames>,
}

impl OrchestrationContext {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, fn_names: Arc::default() }
    }

    /// The same, with the names of functions of its registry.
    pub(crate) fn with_fn_names(self, fn_names: Arc<FnNames>) -> Self {
        Self { fn_names, ..self }
    }

    /// The instance that runs.
    pub fn instance(&self) -> &InstanceId {
        &self.shared.about.instance
    }

    /// The number of its execution: 1, and one more after each [`Self::continue_as_new`].
    pub fn execution(&self) -> u64 {
        self.shared.about.execution
    }

    /// The name that the code is registered under.
    pub fn name(&self) -> &OrchestrationName {
        &self.shared.about.name
    }

    /// The version of the code.
    pub fn version(&self) -> &str {
        &self.shared.about.version
    }

    /// The instance that waits for this one.
    pub fn parent(&self) -> Option<&Parent> {
        self.shared.about.parent.as_ref()
    }

    /// The time at which the current turn began, by the database's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.shared.lock().now)
    }

    /// The same as [`Self::now`], for calendars.
    pub fn system_time(&self) -> SystemTime {
        let micros = self.now().0;
        let span = Duration::from_micros(micros.unsigned_abs());
        if micros < 0 { SystemTime::UNIX_EPOCH - span } else { SystemTime::UNIX_EPOCH + span }
    }

    /// Whether the code only repeats what its history says. For diagnosis; deciding anything by it
    /// breaks the replay.
    pub fn is_replaying(&self) -> bool {
        self.shared.lock().replaying
    }

    /// Whether the history has become long, so that going on with [`Self::continue_as_new`] makes
    /// replays shorter. Nothing breaks if the code does not.
    pub fn suggests_continue_as_new(&self) -> bool {
        self.shared.lock().next_id > HISTORY_LONG
    }
}

impl fmt::Debug for OrchestrationContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = &self.shared.about;
        write!(f, "OrchestrationContext({} {})", about.instance, about.execution)
    }
}
