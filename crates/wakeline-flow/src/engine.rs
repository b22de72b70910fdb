//! The replay engine: runs the code of one execution, live or from its history.
//!
//! # Where it sits
//! It has no store, no clock and no runtime. A runtime looks up the code in a [`Registry`], creates
//! an [`Execution`] with [`Execution::start`] (first turn) or [`Execution::replay`] (from history),
//! passes it messages with [`Execution::deliver`], and commits the [`TurnResult`]. An execution may
//! stay in memory between turns. It is valid only if its number and [`Execution::last_event`] are
//! those that the next claim returns, and it may be dropped at any time.
//! # Invariants
//! * Messages are delivered one at a time: the event is appended and delivered, the code is polled
//!   until it waits, and its decisions are appended in the order in which they were made. A history
//!   is therefore the exact interleaving, and replaying it event by event repeats it.
//! * A replayed decision must equal the recorded one, except for its location; a missing or an
//!   additional decision is a [`Mismatch`].
//! * Only deliveries wake the code. Any other wake-up, and a panic, is reported as
//!   [`Nondeterminism`].
//! * A turn of an execution in memory costs the same, however long its history is.
//!
//! # Messages that do not match
//! The engine drops, without an event or an error: completions for another execution, for an
//! operation that has ended or was cancelled, or of another kind than the operation; a second
//! cancellation request; starts of an instance that has begun; everything for an execution that has
//! ended. One exception: events and cancellation requests that follow `continue_as_new` in the same
//! turn, and events that were not taken, go to the next execution ([`TurnEnd::ContinuedAsNew`]).
//!
//! [`Registry`]: crate::Registry

mod accept;
pub(crate) mod child_id;
mod effects;
mod event_buffer;
mod mismatch;
mod nondeterminism;
mod repeat;
mod replay;
pub(crate) mod state;
pub(crate) mod wake;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::coop::Unconstrained;
use wakeline_core::{InstanceId, KvKey, OrchestrationName};

pub use effects::{HookEmit, KvWrite, NewTimer, QueuePush, TurnEffects, TurnEnd};
pub use mismatch::{Mismatch, MismatchRow};
pub use nondeterminism::Nondeterminism;
use replay::NO_START;
pub use replay::{History, ReplayError, replay};

use self::state::{ExecutionFacts, ExecutionShared, Outcome};
use crate::context::OrchestrationContext;
use crate::error::{FailureKind, FlowError};
use crate::event::{Event, EventKind, Parent, Raised};
use crate::json::Json;
use crate::message::FlowMessage;
use crate::registry::OrchestrationCode;

/// The running code of an execution.
pub(crate) type CodeFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The number of polls without waiting after which the code is considered to be in an endless loop.
const POLLS_MAX: u32 = 1_000_000;

/// What is known about an execution before it begins.
#[derive(Debug, Clone)]
pub struct ExecutionSetup {
    /// The instance that the execution belongs to.
    pub instance: InstanceId,
    /// The number of the execution; the first is 1.
    pub execution: u64,
    /// The key-value state when the execution began.
    pub kv: BTreeMap<KvKey, Json>,
}

/// The arguments that an execution starts with.
#[derive(Debug, Clone)]
pub struct ExecutionStart {
    /// The input of the code.
    pub input: Json,
    /// The parent that waits for the instance, if there is one.
    pub parent: Option<Parent>,
    /// The seed of random numbers and ids; drawn for each execution.
    pub seed: u64,
    /// Events that the previous execution had not taken.
    pub carried: Vec<Raised>,
}

/// The outcome of a turn.
#[derive(Debug, Default)]
pub struct TurnResult {
    /// The new events, numbered from the last one on. Empty if every message was dropped.
    pub events: Vec<Event>,
    /// Everything else that the commit has to write.
    pub effects: TurnEffects,
    /// Whether and how the execution ended.
    pub end: TurnEnd,
}

/// One execution in memory: its code and the operations that it waits for.
pub struct Execution {
    shared: Arc<ExecutionShared>,
    /// The code; `None` once it has ended.
    code: Option<Unconstrained<CodeFuture>>,
    /// The first event, until the first turn has appended it.
    start_event: Option<EventKind>,
}

impl Execution {
    /// Creates an execution. Its first [`Self::deliver`] appends the start event and runs the code.
    pub fn start(
        code: &Arc<OrchestrationCode>,
        setup: ExecutionSetup,
        start: ExecutionStart,
    ) -> Self {
        let started = EventKind::Started {
            name: code.name().clone(),
            version: code.version().to_string(),
            input: start.input.clone(),
            parent: start.parent.clone(),
            seed: start.seed,
            carried: start.carried.clone(),
        };
        let mut execution = Self::new(code, setup, start);
        execution.start_event = Some(started);
        execution
    }

    /// Restores an execution from its history. Takes the events of all turns from the first one on;
    /// `code` must have the name and version in the first event.
    pub fn replay(
        code: &Arc<OrchestrationCode>,
        setup: ExecutionSetup,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Self, ReplayError> {
        let events: Vec<Event> = events.into_iter().collect();
        let recorded_children = child_id::recorded(&setup.instance, &events);
        let mut events = events.into_iter();
        let Some(Event {
            id: 1,
            kind: EventKind::Started { input, parent, seed, carried, .. },
            ..
        }) = events.next()
        else {
            return Err(ReplayError::Corrupt { event: 1, what: NO_START });
        };
        let start = ExecutionStart { input, parent, seed, carried };
        let mut execution = Self::new(code, setup, start);
        let mut state = execution.shared.lock();
        state.next_id = 2;
        state.recorded_children = recorded_children;
        drop(state);
        // The log lines of the code were written when it ran for the first time.
        let silence = tracing::Dispatch::none();
        tracing::dispatcher::with_default(&silence, || execution.repeat(&mut events))?;
        Ok(execution)
    }

    /// Delivers messages to the code, in order. `now` is the database's clock in microseconds since
    /// 1970. After an error the execution is in an undefined state and must be dropped.
    pub fn deliver(
        &mut self,
        messages: Vec<FlowMessage>,
        now: i64,
    ) -> Result<TurnResult, Nondeterminism> {
        let shared = Arc::clone(&self.shared);
        let _inside = shared.root.enter();
        let facts = &shared.facts;
        let span = tracing::info_span!(
            "orchestration",
            name = %facts.name,
            instance = %facts.instance,
            execution = facts.execution
        );
        let _entered = span.enter();
        let mut events = Vec::new();
        if let Some(started) = self.start_event.take() {
            self.append(&mut events, started);
            self.append(&mut events, EventKind::Turn { now });
            self.run_until_waiting(true)?;
            events.append(&mut shared.lock().decisions);
        }
        for message in messages {
            let Some(kind) = shared.lock().accept(&shared.facts, message) else { continue };
            if events.is_empty() {
                let now = now.max(shared.lock().now);
                self.append(&mut events, EventKind::Turn { now });
            }
            let woken = self.append(&mut events, kind);
            self.run_until_waiting(woken)?;
            events.append(&mut shared.lock().decisions);
        }
        let mut state = shared.lock();
        let end = events.last().map_or(TurnEnd::Open, |last| state.end_of(&last.kind));
        let given_up = std::mem::take(&mut state.given_up);
        let children = !state.children.is_empty();
        drop(state);
        let mut effects = TurnEffects::of(facts, &events, given_up);
        if end.is_final() {
            // All open children are closed according to their policies, including these.
            effects.cancels.clear();
            effects.close_children = children;
        }
        Ok(TurnResult { events, effects, end })
    }

    /// The id of the last event, appended or replayed; 0 before the first.
    pub fn last_event(&self) -> u64 {
        self.shared.lock().next_id - 1
    }

    /// The number of the execution.
    pub fn execution(&self) -> u64 {
        self.shared.facts.execution
    }

    /// The instance that the execution belongs to.
    pub fn instance(&self) -> &InstanceId {
        &self.shared.facts.instance
    }

    /// The orchestration whose code runs.
    pub fn name(&self) -> &OrchestrationName {
        &self.shared.facts.name
    }

    /// The version of the code that runs.
    pub fn version(&self) -> &str {
        &self.shared.facts.version
    }

    /// A text that distinguishes this execution from those of other instances with the same id.
    pub(crate) fn identity(&self) -> String {
        self.shared.facts.identity()
    }

    /// The parent that waits for the instance, if there is one.
    pub fn parent(&self) -> Option<&Parent> {
        self.shared.facts.parent.as_ref()
    }

    /// Whether the execution has ended, so that it takes no more messages.
    pub fn has_ended(&self) -> bool {
        self.code.is_none()
    }

    /// The reason why the code cannot be replayed, if it was found to wait for something that is
    /// not durable. May become set between turns, when something else than the engine wakes the
    /// code.
    pub fn nondeterminism(&self) -> Option<Nondeterminism> {
        self.code.as_ref()?;
        let woken = self.shared.root.was_woken_outside().then_some(Nondeterminism::Wake);
        woken.or_else(|| self.shared.lock().nondeterminism.clone())
    }

    fn new(code: &Arc<OrchestrationCode>, setup: ExecutionSetup, start: ExecutionStart) -> Self {
        let facts = ExecutionFacts {
            instance: setup.instance,
            execution: setup.execution,
            name: code.name().clone(),
            version: code.version().to_string(),
            parent: start.parent,
            seed: start.seed,
        };
        let shared = ExecutionShared::new(facts, setup.kv, start.carried);
        let future = code.run(OrchestrationContext::new(Arc::clone(&shared)), start.input);
        let code = Some(tokio::task::coop::unconstrained(future));
        Self { shared, code, start_event: None }
    }

    /// Appends an event and applies it. Returns true if that woke the code.
    fn append(&self, events: &mut Vec<Event>, kind: EventKind) -> bool {
        let mut state = self.shared.lock();
        let id = state.number();
        let wakers = state.apply(&kind);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        events.push(Event { id, kind, at: None });
        self.shared.root.take_woken()
    }

    /// Polls the code until it has ended or waits for something that has not arrived yet.
    fn run_until_waiting(&mut self, woken: bool) -> Result<(), Nondeterminism> {
        self.nondeterminism().map_or(Ok(()), Err)?;
        let mut woken = woken;
        let mut polls = 0;
        while woken && !self.shared.lock().over {
            match self.poll() {
                Poll::Ready(Ok(output)) => self.shared.end(None, EventKind::Completed { output }),
                Poll::Ready(Err(error)) => self.shared.end(None, EventKind::Failed { error }),
                Poll::Pending => {}
            }
            self.nondeterminism().map_or(Ok(()), Err)?;
            woken = self.shared.root.take_woken();
            polls += 1;
            if polls == POLLS_MAX {
                return Err(Nondeterminism::Busy);
            }
        }
        let state = self.shared.lock();
        if state.over {
            drop(state);
            self.drop_code();
            return Ok(());
        }
        if state.is_waiting() { Ok(()) } else { Err(Nondeterminism::Wait) }
    }

    fn poll(&mut self) -> Poll<Outcome> {
        let Some(code) = &mut self.code else { return Poll::Pending };
        let waker = Waker::from(Arc::clone(&self.shared.root));
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(code).poll(&mut context)));
        polled.unwrap_or_else(|panic| {
            let message = panicked(panic.as_ref()).message;
            self.shared.lock().nondeterminism.get_or_insert(Nondeterminism::Panic { message });
            Poll::Pending
        })
    }

    /// Drops the code without recording any decision.
    fn drop_code(&mut self) {
        self.shared.root.close();
        self.shared.lock().over = true;
        if let Some(code) = self.code.take() {
            // A panic while dropping no longer matters; the panic hook has reported it.
            let _panic = catch_unwind(AssertUnwindSafe(|| drop(code)));
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.drop_code();
    }
}

/// Converts a panic into an error.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> FlowError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    FlowError::new(FailureKind::Panic, text.unwrap_or_else(|| "the code panicked".to_owned()))
}
