//! The replay engine: runs the code of one execution, live or from its history.
//!
//! # Where it sits
//! Pure: no store, no clock, no runtime. A runtime looks the code up in a [`Registry`], makes an
//! [`Execution`] by [`Execution::start`] (first turn) or [`Execution::replay`] (from history),
//! gives it messages with [`Execution::deliver`], and commits the [`TurnResult`]. An execution may
//! stay in memory between turns; it is valid only if number and [`Execution::last_event`] are
//! those that the next claim names, and may be dropped at any time.
//!
//! # Invariants
//! * One message at a time: what happened is appended and delivered, the code is polled until it
//!   rests, and its decisions are appended in the order made. So a history is the exact
//!   interleaving, and replaying it one by one repeats it.
//! * A replayed decision must equal the recorded one, its location apart; one too many or too few
//!   is a [`Mismatch`].
//! * The code is woken by deliveries only; anything else, and a panic, is [`Foreign`].
//! * A turn on an execution in memory costs the same whatever the length of its history.
//!
//! # What becomes of messages that do not fit
//! Dropped, without an event and without an error: completions for another execution, for an
//! operation that has ended or was given up, or of another kind than the operation; a second
//! request to cancel; starts of an instance that has begun; everything for an execution that has
//! ended. One exception: events and requests to cancel that come after `continue_as_new` in the
//! same turn, and events that nobody has taken, go to the next execution
//! ([`End::ContinuedAsNew`]).
//!
//! [`Registry`]: crate::Registry

mod accept;
pub(crate) mod child_id;
mod effects;
mod foreign;
mod mailbox;
mod mismatch;
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

pub use effects::{Effects, End, HookEmit, KvWrite, NewTimer, QueuePush};
pub use foreign::Foreign;
pub use mismatch::{Mismatch, MismatchRow};
use replay::NO_START;
pub use replay::{History, ReplayError, replay};

use self::state::{About, Outcome, Shared};
use crate::context::OrchestrationContext;
use crate::error::{FailureKind, FlowError};
use crate::event::{Event, EventKind, Parent, Raised};
use crate::json::Json;
use crate::message::WorkItem;
use crate::registry::OrchestrationCode;

/// The code, running.
pub(crate) type CodeFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// So many polls without rest are a loop.
const POLLS_MAX: u32 = 1_000_000;

/// What an execution finds when it begins.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Whose execution it is.
    pub instance: InstanceId,
    /// Its number; the first is 1.
    pub execution: u64,
    /// The key-value state when the execution began.
    pub kv: BTreeMap<KvKey, Json>,
}

/// How an execution begins.
#[derive(Debug, Clone)]
pub struct Start {
    /// Its input.
    pub input: Json,
    /// Who waits for it.
    pub parent: Option<Parent>,
    /// Where random numbers and ids come from: drawn anew for every execution.
    pub seed: u64,
    /// Events that the execution before had not taken.
    pub carried: Vec<Raised>,
}

/// What a turn did.
#[derive(Debug, Default)]
pub struct TurnResult {
    /// New events; their numbers follow the last one. Empty if every message was dropped.
    pub events: Vec<Event>,
    /// What the commit has to do besides.
    pub effects: Effects,
    /// How the execution stands afterwards.
    pub end: End,
}

/// One execution in memory: its code, and all that it waits for.
pub struct Execution {
    shared: Arc<Shared>,
    /// The code; none once it has ended.
    code: Option<Unconstrained<CodeFuture>>,
    /// How it begins, before the first turn.
    unborn: Option<EventKind>,
}

impl Execution {
    /// A new execution. Its first [`Self::deliver`] appends how it began and runs the code.
    pub fn start(code: &Arc<OrchestrationCode>, setting: Setting, start: Start) -> Self {
        let started = EventKind::Started {
            name: code.name().clone(),
            version: code.version().to_string(),
            input: start.input.clone(),
            parent: start.parent.clone(),
            seed: start.seed,
            carried: start.carried.clone(),
        };
        let mut execution = Self::new(code, setting, start);
        execution.unborn = Some(started);
        execution
    }

    /// An execution brought back by its history. Takes the events of all turns, the first one
    /// first; `code` must be that of the name and version in the first event.
    pub fn replay(
        code: &Arc<OrchestrationCode>,
        setting: Setting,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Self, ReplayError> {
        let events: Vec<Event> = events.into_iter().collect();
        let recorded_children = child_id::recorded(&setting.instance, &events);
        let mut events = events.into_iter();
        let Some(Event {
            id: 1,
            kind: EventKind::Started { input, parent, seed, carried, .. },
            ..
        }) = events.next()
        else {
            return Err(ReplayError::Broken { event: 1, what: NO_START });
        };
        let start = Start { input, parent, seed, carried };
        let mut execution = Self::new(code, setting, start);
        let mut state = execution.shared.lock();
        state.next_id = 2;
        state.recorded_children = recorded_children;
        drop(state);
        // What the code logs was logged when it ran for the first time.
        let silence = tracing::Dispatch::none();
        tracing::dispatcher::with_default(&silence, || execution.repeat(&mut events))?;
        Ok(execution)
    }

    /// Gives the code its messages, in order. `now` is the database's clock in microseconds since
    /// 1970. After an error the execution is worthless: drop it.
    pub fn deliver(&mut self, messages: Vec<WorkItem>, now: i64) -> Result<TurnResult, Foreign> {
        let shared = Arc::clone(&self.shared);
        let _inside = shared.root.enter();
        let about = &shared.about;
        let span = tracing::info_span!(
            "orchestration",
            name = %about.name,
            instance = %about.instance,
            execution = about.execution
        );
        let _entered = span.enter();
        let mut events = Vec::new();
        if let Some(started) = self.unborn.take() {
            self.append(&mut events, started);
            self.append(&mut events, EventKind::Turn { now });
            self.rest(true)?;
            events.append(&mut shared.lock().decisions);
        }
        for message in messages {
            let Some(kind) = shared.lock().accept(&shared.about, message) else { continue };
            if events.is_empty() {
                let now = now.max(shared.lock().now);
                self.append(&mut events, EventKind::Turn { now });
            }
            let woken = self.append(&mut events, kind);
            self.rest(woken)?;
            events.append(&mut shared.lock().decisions);
        }
        let mut state = shared.lock();
        let end = events.last().map_or(End::Open, |last| state.end_of(&last.kind));
        let given_up = std::mem::take(&mut state.given_up);
        let children = !state.children.is_empty();
        drop(state);
        let mut effects = Effects::of(about, &events, given_up);
        if end.is_final() {
            // All that are left are closed by their policies, these as well.
            effects.cancels.clear();
            effects.close_children = children;
        }
        Ok(TurnResult { events, effects, end })
    }

    /// The number of the last event, appended or replayed; 0 before the first.
    pub fn last_event(&self) -> u64 {
        self.shared.lock().next_id - 1
    }

    /// The number of the execution.
    pub fn execution(&self) -> u64 {
        self.shared.about.execution
    }

    /// Whose execution it is.
    pub fn instance(&self) -> &InstanceId {
        &self.shared.about.instance
    }

    /// The orchestration whose code it runs.
    pub fn name(&self) -> &OrchestrationName {
        &self.shared.about.name
    }

    /// The version of the code.
    pub fn version(&self) -> &str {
        &self.shared.about.version
    }

    /// Tells it from executions of other lives of the same instance.
    pub(crate) fn identity(&self) -> String {
        self.shared.about.identity()
    }

    /// Who waits for it.
    pub fn parent(&self) -> Option<&Parent> {
        self.shared.about.parent.as_ref()
    }

    /// Whether it has ended: it takes no more messages.
    pub fn has_ended(&self) -> bool {
        self.code.is_none()
    }

    /// Whether the code was found to wait for something that is not durable. May become true
    /// between turns, when a foreign source wakes the code.
    pub fn foreign(&self) -> Option<Foreign> {
        self.code.as_ref()?;
        let woken = self.shared.root.was_foreign().then_some(Foreign::Wake);
        woken.or_else(|| self.shared.lock().foreign.clone())
    }

    fn new(code: &Arc<OrchestrationCode>, setting: Setting, start: Start) -> Self {
        let about = About {
            instance: setting.instance,
            execution: setting.execution,
            name: code.name().clone(),
            version: code.version().to_string(),
            parent: start.parent,
            seed: start.seed,
        };
        let shared = Shared::new(about, setting.kv, start.carried);
        let future = code.run(OrchestrationContext::new(Arc::clone(&shared)), start.input);
        let code = Some(tokio::task::coop::unconstrained(future));
        Self { shared, code, unborn: None }
    }

    /// Appends what happened, and lets it happen. True if that woke the code.
    fn append(&self, events: &mut Vec<Event>, kind: EventKind) -> bool {
        let mut state = self.shared.lock();
        let id = state.number();
        let wakers = state.happen(&kind);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        events.push(Event { id, kind, at: None });
        self.shared.root.take_woken()
    }

    /// Polls the code until it rests: has ended, or waits for something that is not there yet.
    fn rest(&mut self, woken: bool) -> Result<(), Foreign> {
        self.foreign().map_or(Ok(()), Err)?;
        let mut woken = woken;
        let mut polls = 0;
        while woken && !self.shared.lock().over {
            match self.poll() {
                Poll::Ready(Ok(output)) => self.shared.end(None, EventKind::Completed { output }),
                Poll::Ready(Err(error)) => self.shared.end(None, EventKind::Failed { error }),
                Poll::Pending => {}
            }
            self.foreign().map_or(Ok(()), Err)?;
            woken = self.shared.root.take_woken();
            polls += 1;
            if polls == POLLS_MAX {
                return Err(Foreign::Busy);
            }
        }
        let state = self.shared.lock();
        if state.over {
            drop(state);
            self.let_go();
            return Ok(());
        }
        if state.is_waiting() { Ok(()) } else { Err(Foreign::Wait) }
    }

    fn poll(&mut self) -> Poll<Outcome> {
        let Some(code) = &mut self.code else { return Poll::Pending };
        let waker = Waker::from(Arc::clone(&self.shared.root));
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(code).poll(&mut context)));
        polled.unwrap_or_else(|panic| {
            let message = panicked(panic.as_ref()).message;
            self.shared.lock().foreign.get_or_insert(Foreign::Panic { message });
            Poll::Pending
        })
    }

    /// Drops the code without noting anything.
    fn let_go(&mut self) {
        self.shared.root.close();
        self.shared.lock().over = true;
        if let Some(code) = self.code.take() {
            // A panic while dropping changes nothing any more; the panic hook has shown it.
            let _panic = catch_unwind(AssertUnwindSafe(|| drop(code)));
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A panic as a failure.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> FlowError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    FlowError::new(FailureKind::Panic, text.unwrap_or_else(|| "the code panicked".to_owned()))
}
