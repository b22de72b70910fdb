//! The state that the code of an execution shares with the engine: open operations, event buffers
//! and decisions.
//!
//! # Where it sits
//! Contexts and durable futures ([`crate::context`]) add decisions and register wakers here; the
//! engine takes the decisions, applies events and wakes the code.
//!
//! # Invariants
//! * A decision gets the next event id when it is made, both live and during a replay.
//! * A slot exists from the decision that opened it until its result was taken or it was cancelled;
//!   results for an unknown slot are dropped.
//! * No code of the user runs while the lock is held.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use wakeline_core::{InstanceId, KvKey, OrchestrationName};

use super::event_buffer::EventBuffers;
use super::nondeterminism::Nondeterminism;
use super::wake::RootWaker;
use crate::error::FlowError;
use crate::event::{ClosePolicy, Event, EventKind, Parent, Raised};
use crate::json::Json;

/// The location in the code of a decision.
pub(crate) type At = &'static Location<'static>;

/// The result of an operation.
pub(crate) type Outcome = Result<Json, FlowError>;

/// The constants of an execution.
pub(crate) struct ExecutionFacts {
    pub(crate) instance: InstanceId,
    pub(crate) execution: u64,
    pub(crate) name: OrchestrationName,
    pub(crate) version: String,
    pub(crate) parent: Option<Parent>,
    pub(crate) seed: u64,
}

impl ExecutionFacts {
    /// Distinguishes this execution from those of other instances that had the same id, because an
    /// instance can be deleted and started again. 32 hexadecimal digits; the seed cannot be
    /// computed from them.
    pub(crate) fn identity(&self) -> String {
        identity(self.seed)
    }
}

/// Computes [`ExecutionFacts::identity`] from the seed of an execution.
pub(crate) fn identity(seed: u64) -> String {
    let mut hash = Sha256::new();
    hash.update(b"identity");
    hash.update(seed.to_le_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The state that the code of an execution shares with the engine.
pub(crate) struct ExecutionShared {
    pub(crate) facts: ExecutionFacts,
    pub(crate) root: Arc<RootWaker>,
    state: Mutex<ExecutionState>,
}

impl ExecutionShared {
    pub(crate) fn new(
        facts: ExecutionFacts,
        kv: BTreeMap<KvKey, Json>,
        carried: Vec<Raised>,
    ) -> Arc<Self> {
        let mut state = ExecutionState::new(kv);
        for raised in carried {
            state.event_buffers.raise(&raised.name, raised.data);
        }
        Arc::new(Self { facts, root: RootWaker::new(), state: Mutex::new(state) })
    }

    /// Locks the state, for the engine and for reading.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ExecutionState> {
        self.state.lock()
    }

    /// Runs `act` on behalf of the code. Returns `None` if the execution is over, or if the caller
    /// is not on the thread of the execution, which is recorded as nondeterministic.
    pub(crate) fn with<R>(&self, at: At, act: impl FnOnce(&mut ExecutionState) -> R) -> Option<R> {
        let mut state = self.lock();
        if state.over {
            return None;
        }
        if !self.root.is_inside() {
            state.nondeterminism.get_or_insert(Nondeterminism::Outside { at: place(at) });
            return None;
        }
        Some(act(&mut state))
    }

    /// Records a decision, and returns its event id.
    pub(crate) fn decide(&self, at: At, kind: EventKind) -> Option<u64> {
        self.with(at, |state| state.decide(kind, Some(at)))
    }

    /// Records the last decision of the execution.
    pub(crate) fn end(&self, at: Option<At>, kind: EventKind) {
        let mut state = self.lock();
        if !state.over {
            state.decide(kind, at);
            let wakers = state.close();
            drop(state);
            drop(wakers);
        }
    }

    /// Cancels an operation whose result is no longer needed.
    pub(crate) fn release(&self, id: u64, at: At) {
        // Woken and dropped after the lock is released: a waker may own futures that release
        // something too.
        let released = self.with(at, |state| state.release(id, at));
        if let Some(Released { next: Some(next), .. }) = released {
            next.wake();
        }
    }
}

/// Formats a location as `src/orders.rs:42`.
pub(crate) fn place(at: At) -> String {
    format!("{}:{}", at.file(), at.line())
}

/// The kind of an open operation.
#[derive(Debug)]
pub(crate) enum OperationSlotKind {
    Activity,
    Timer,
    Wait { name: String },
    Child { instance: InstanceId, close_policy: ClosePolicy },
}

impl OperationSlotKind {
    /// Whether it continues although its result is no longer needed.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Child { close_policy: ClosePolicy::Abandon, .. })
    }
}

/// An operation that the code has begun.
pub(crate) struct OperationSlot {
    pub(crate) kind: OperationSlotKind,
    /// The result, until the code takes it.
    done: Option<Outcome>,
    /// The position in the order of arrival of the event that a wait received.
    arrival: u64,
    waker: Option<Waker>,
}

/// The state of a cancellation of the execution.
#[derive(Default)]
pub(crate) struct Cancel {
    /// The reason, once cancellation was requested.
    pub(crate) requested: Option<String>,
    /// Whether the code has seen the request.
    pub(crate) seen: bool,
    /// Whether the code declared that it handles cancellation itself.
    pub(crate) lasting: bool,
    /// Futures that wait for a request.
    pub(crate) waiters: BTreeMap<u64, Option<Waker>>,
    pub(crate) waiter_next: u64,
}

/// The part of the state that is behind the lock.
pub(crate) struct ExecutionState {
    pub(crate) next_id: u64,
    pub(crate) now: i64,
    pub(crate) replaying: bool,
    /// Set once the code has ended or is being dropped: later decisions are ignored.
    pub(crate) over: bool,
    pub(crate) nondeterminism: Option<Nondeterminism>,
    /// Decisions of the code that the engine has not taken yet.
    pub(crate) decisions: Vec<Event>,
    pub(crate) kv: BTreeMap<KvKey, Json>,
    pub(crate) cancel: Cancel,
    pub(crate) event_buffers: EventBuffers,
    /// The number of random numbers drawn so far.
    pub(crate) drawn: u64,
    /// During a replay: the recorded ids of children that would get another id today, by event.
    pub(crate) recorded_children: HashMap<u64, InstanceId>,
    /// Open operations that were cancelled and that the engine has not taken yet.
    pub(crate) given_up: Vec<(u64, OperationSlotKind)>,
    /// The children to close at the end, by the events that started them: those whose end was not
    /// reported. The end of a cancelled child is never reported.
    pub(super) children: HashSet<u64>,
    /// The first event id after the beginning of the current turn. A child with this or a later id
    /// that is cancelled within the turn is never started.
    pub(super) turn_first: u64,
    slots: HashMap<u64, OperationSlot>,
    /// The number of registered wakers.
    waiting: usize,
}

impl ExecutionState {
    fn new(kv: BTreeMap<KvKey, Json>) -> Self {
        Self {
            next_id: 1,
            now: 0,
            replaying: false,
            over: false,
            nondeterminism: None,
            decisions: Vec::new(),
            kv,
            cancel: Cancel::default(),
            event_buffers: EventBuffers::default(),
            drawn: 0,
            recorded_children: HashMap::new(),
            given_up: Vec::new(),
            children: HashSet::new(),
            turn_first: 1,
            slots: HashMap::new(),
            waiting: 0,
        }
    }

    /// Takes the next event id.
    pub(crate) fn number(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Whether the code waits for anything that the engine could deliver.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0 || self.cancel.waiters.values().any(Option::is_some)
    }

    /// Records a decision, opens its slot if it has one, and returns its event id.
    pub(crate) fn decide(&mut self, kind: EventKind, at: Option<At>) -> u64 {
        let id = self.number();
        self.open(id, &kind);
        self.decisions.push(Event { id, kind, at: at.map(place) });
        id
    }

    fn open(&mut self, id: u64, kind: &EventKind) {
        let kind = match kind {
            EventKind::ActivityScheduled { .. } => OperationSlotKind::Activity,
            EventKind::TimerCreated { .. } => OperationSlotKind::Timer,
            EventKind::EventAwaited { name } => OperationSlotKind::Wait { name: name.clone() },
            EventKind::ChildStarted { instance, attached: true, close_policy, .. } => {
                if *close_policy != ClosePolicy::Abandon {
                    self.children.insert(id);
                }
                OperationSlotKind::Child { instance: instance.clone(), close_policy: *close_policy }
            }
            _ => return,
        };
        let received = match &kind {
            OperationSlotKind::Wait { name } => self.event_buffers.wait(name, id),
            _ => None,
        };
        let (arrival, done) = match received {
            Some((arrival, data)) => (arrival, Some(Ok(data))),
            None => (0, None),
        };
        self.slots.insert(id, OperationSlot { kind, done, arrival, waker: None });
    }

    /// Takes the result of an operation, or registers the waker.
    pub(crate) fn poll(&mut self, id: u64, waker: &Waker) -> Poll<Outcome> {
        let Some(slot) = self.slots.get_mut(&id) else { return Poll::Pending };
        if let Some(outcome) = slot.done.take() {
            self.slots.remove(&id);
            return Poll::Ready(outcome);
        }
        match &mut slot.waker {
            Some(known) => known.clone_from(waker),
            none => {
                *none = Some(waker.clone());
                self.waiting += 1;
            }
        }
        Poll::Pending
    }

    /// Returns the kind of an operation that is still open, so that a result may arrive for it.
    pub(crate) fn open_slot(&self, id: u64) -> Option<&OperationSlotKind> {
        self.slots.get(&id).filter(|slot| slot.done.is_none()).map(|slot| &slot.kind)
    }

    /// Ends an operation; the returned waker must be woken after the lock is released.
    pub(crate) fn settle(&mut self, id: u64, outcome: Outcome) -> Option<Waker> {
        let slot = self.slots.get_mut(&id)?;
        slot.done = Some(outcome);
        let waker = slot.waker.take();
        self.waiting -= usize::from(waker.is_some());
        waker
    }

    /// An event arrived from outside: the oldest open wait takes it, or it is buffered.
    pub(crate) fn raise(&mut self, name: &str, data: Json) -> Option<Waker> {
        let (arrival, wait, data) = self.event_buffers.raise(name, data)?;
        self.give(wait, arrival, data)
    }

    fn give(&mut self, wait: u64, arrival: u64, data: Json) -> Option<Waker> {
        if let Some(slot) = self.slots.get_mut(&wait) {
            slot.arrival = arrival;
        }
        self.settle(wait, Ok(data))
    }

    fn release(&mut self, id: u64, at: At) -> Released {
        let mut released = Released::default();
        let Some(slot) = self.slots.remove(&id) else { return released };
        self.waiting -= usize::from(slot.waker.is_some());
        released.own = slot.waker;
        let decision = match (&slot.kind, slot.done) {
            (OperationSlotKind::Wait { name }, done) => {
                self.event_buffers.forgo(name, id);
                if let Some(Ok(data)) = done {
                    released.next = self.put_back(name, slot.arrival, data);
                }
                EventKind::EventForgone { of: id }
            }
            (_, Some(_)) => return released,
            (OperationSlotKind::Activity, None) => EventKind::ActivityCancelled { of: id },
            (OperationSlotKind::Timer, None) => EventKind::TimerCancelled { of: id },
            (OperationSlotKind::Child { .. }, None) => EventKind::ChildCancelled { of: id },
        };
        self.give_up(id, slot.kind);
        self.decide(decision, Some(at));
        released
    }

    fn give_up(&mut self, id: u64, kind: OperationSlotKind) {
        if id >= self.turn_first {
            self.children.remove(&id);
        }
        self.given_up.push((id, kind));
    }

    /// An event that a wait received and the code did not read goes to the next wait.
    fn put_back(&mut self, name: &str, arrival: u64, data: Json) -> Option<Waker> {
        let (wait, data) = self.event_buffers.put_back(name, arrival, data)?;
        self.give(wait, arrival, data)
    }

    /// Ends the execution: cancels all open operations, and puts back the events that waits had
    /// received. The wakers must be dropped after the lock is released.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.over = true;
        self.waiting = 0;
        self.event_buffers.forgo_all();
        let mut slots: Vec<_> = std::mem::take(&mut self.slots).into_iter().collect();
        slots.sort_unstable_by_key(|(id, _)| *id);
        let mut wakers = Vec::new();
        for (id, slot) in slots {
            wakers.extend(slot.waker);
            match (slot.kind, slot.done) {
                (OperationSlotKind::Wait { name }, Some(Ok(data))) => {
                    self.event_buffers.put_back(&name, slot.arrival, data);
                }
                (kind, None) => self.give_up(id, kind),
                _ => {}
            }
        }
        wakers
    }
}

/// The wakers that are left over when an operation is released.
#[derive(Default)]
struct Released {
    /// The waker of the operation itself, to be dropped.
    own: Option<Waker>,
    /// The waker of the wait that gets the event of the operation, to be woken.
    next: Option<Waker>,
}
