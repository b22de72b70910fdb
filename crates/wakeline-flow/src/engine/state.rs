//! What the code of an execution and the engine share: open operations, mailboxes, decisions.
//!
//! # Where it sits
//! Contexts and durable futures ([`crate::context`]) write decisions and register wakers here; the
//! engine takes the decisions out, puts what happened in, and wakes.
//!
//! # Invariants
//! * A decision gets the next number of the history when it is made, live and replayed alike.
//! * A slot lives from the decision that opened it until its result was taken or it was given up;
//!   what comes for no slot is dropped.
//! * Nothing of the user's runs under the lock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use wakeline_core::{InstanceId, KvKey, OrchestrationName};

use super::foreign::Foreign;
use super::mailbox::Mailboxes;
use super::wake::Root;
use crate::error::FlowError;
use crate::event::{ClosePolicy, Event, EventKind, Parent, Raised};
use crate::json::Json;

/// Where in the code something was decided.
pub(crate) type At = &'static Location<'static>;

/// What an operation came to.
pub(crate) type Outcome = Result<Json, FlowError>;

/// What never changes during an execution.
pub(crate) struct About {
    pub(crate) instance: InstanceId,
    pub(crate) execution: u64,
    pub(crate) name: OrchestrationName,
    pub(crate) version: String,
    pub(crate) parent: Option<Parent>,
    pub(crate) seed: u64,
}

impl About {
    /// Tells this execution from those of other lives of the same instance, which can be deleted
    /// and started again. 32 hexadecimal digits, from which the seed cannot be computed.
    pub(crate) fn identity(&self) -> String {
        identity(self.seed)
    }
}

/// What [`About::identity`] is by the seed of the execution.
pub(crate) fn identity(seed: u64) -> String {
    let mut hash = Sha256::new();
    hash.update(b"identity");
    hash.update(seed.to_le_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// What the code of an execution and the engine share.
pub(crate) struct Shared {
    pub(crate) about: About,
    pub(crate) root: Arc<Root>,
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn new(about: About, kv: BTreeMap<KvKey, Json>, carried: Vec<Raised>) -> Arc<Self> {
        let mut state = State::new(kv);
        for raised in carried {
            state.mailboxes.raise(&raised.name, raised.data);
        }
        Arc::new(Self { about, root: Root::new(), state: Mutex::new(state) })
    }

    /// The state, for the engine and for reading.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Runs `act` for the code; `None` if the execution is over, or if this is not its thread,
    /// which is noted as foreign.
    pub(crate) fn with<R>(&self, at: At, act: impl FnOnce(&mut State) -> R) -> Option<R> {
        let mut state = self.lock();
        if state.over {
            return None;
        }
        if !self.root.is_inside() {
            state.foreign.get_or_insert(Foreign::Outside { at: place(at) });
            return None;
        }
        Some(act(&mut state))
    }

    /// Notes a decision, and returns its number.
    pub(crate) fn decide(&self, at: At, kind: EventKind) -> Option<u64> {
        self.with(at, |state| state.decide(kind, Some(at)))
    }

    /// Notes the last decision of the execution.
    pub(crate) fn end(&self, at: Option<At>, kind: EventKind) {
        let mut state = self.lock();
        if !state.over {
            state.decide(kind, at);
            let wakers = state.close();
            drop(state);
            drop(wakers);
        }
    }

    /// Gives an operation up whose result nobody wants any more.
    pub(crate) fn release(&self, id: u64, at: At) {
        // Woken and dropped without the lock: a waker may own futures that release something too.
        let released = self.with(at, |state| state.release(id, at));
        if let Some(Released { next: Some(next), .. }) = released {
            next.wake();
        }
    }
}

/// `src/orders.rs:42`
pub(crate) fn place(at: At) -> String {
    format!("{}:{}", at.file(), at.line())
}

/// What a slot stands for.
#[derive(Debug)]
pub(crate) enum SlotKind {
    Activity,
    Timer,
    Wait { name: String },
    Child { instance: InstanceId, close_policy: ClosePolicy },
}

impl SlotKind {
    /// Whether it goes on although nobody waits for it any more.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Child { close_policy: ClosePolicy::Abandon, .. })
    }
}

/// An operation that the code has begun.
pub(crate) struct Slot {
    pub(crate) kind: SlotKind,
    /// What it came to; not yet taken by the code.
    done: Option<Outcome>,
    /// The place in the order of arrival of the event that a wait was given.
    arrival: u64,
    waker: Option<Waker>,
}

/// Cancellation of the execution.
#[derive(Default)]
pub(crate) struct Cancel {
    /// Why, once it was asked for.
    pub(crate) requested: Option<String>,
    /// Whether the code knows.
    pub(crate) seen: bool,
    /// Whether the code said that it looks after cancellation itself.
    pub(crate) lasting: bool,
    /// Futures that wait for it.
    pub(crate) waiters: BTreeMap<u64, Option<Waker>>,
    pub(crate) waiter_next: u64,
}

/// The part behind the lock.
pub(crate) struct State {
    pub(crate) next_id: u64,
    pub(crate) now: i64,
    pub(crate) replaying: bool,
    /// Nothing counts any more: the code has ended, or leaves memory.
    pub(crate) over: bool,
    pub(crate) foreign: Option<Foreign>,
    /// Made by the code and not yet taken out by the engine.
    pub(crate) decisions: Vec<Event>,
    pub(crate) kv: BTreeMap<KvKey, Json>,
    pub(crate) cancel: Cancel,
    pub(crate) mailboxes: Mailboxes,
    /// How many random numbers were drawn.
    pub(crate) drawn: u64,
    /// While replaying: ids of children as they were recorded, where they would be made otherwise
    /// today. By event.
    pub(crate) recorded_children: HashMap<u64, InstanceId>,
    /// Open operations that were given up, not yet taken out by the engine.
    pub(crate) given_up: Vec<(u64, SlotKind)>,
    /// Children that are to be closed at the end, by the events that started them: those whose end
    /// was not reported. The end of a child that was given up is not.
    pub(super) children: HashSet<u64>,
    /// The first number after the beginning of the current turn. A child from there on that is
    /// given up within the turn is never started.
    pub(super) turn_first: u64,
    slots: HashMap<u64, Slot>,
    /// How many wakers are registered.
    waiting: usize,
}

impl State {
    fn new(kv: BTreeMap<KvKey, Json>) -> Self {
        Self {
            next_id: 1,
            now: 0,
            replaying: false,
            over: false,
            foreign: None,
            decisions: Vec::new(),
            kv,
            cancel: Cancel::default(),
            mailboxes: Mailboxes::default(),
            drawn: 0,
            recorded_children: HashMap::new(),
            given_up: Vec::new(),
            children: HashSet::new(),
            turn_first: 1,
            slots: HashMap::new(),
            waiting: 0,
        }
    }

    /// Takes the next number.
    pub(crate) fn number(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Whether the code waits for anything that the engine could deliver.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0 || self.cancel.waiters.values().any(Option::is_some)
    }

    /// Notes a decision, opens its slot if it has one, and returns its number.
    pub(crate) fn decide(&mut self, kind: EventKind, at: Option<At>) -> u64 {
        let id = self.number();
        self.open(id, &kind);
        self.decisions.push(Event { id, kind, at: at.map(place) });
        id
    }

    fn open(&mut self, id: u64, kind: &EventKind) {
        let kind = match kind {
            EventKind::ActivityScheduled { .. } => SlotKind::Activity,
            EventKind::TimerCreated { .. } => SlotKind::Timer,
            EventKind::EventAwaited { name } => SlotKind::Wait { name: name.clone() },
            EventKind::ChildStarted { instance, attached: true, close_policy, .. } => {
                if *close_policy != ClosePolicy::Abandon {
                    self.children.insert(id);
                }
                SlotKind::Child { instance: instance.clone(), close_policy: *close_policy }
            }
            _ => return,
        };
        let given = match &kind {
            SlotKind::Wait { name } => self.mailboxes.wait(name, id),
            _ => None,
        };
        let (arrival, done) = match given {
            Some((arrival, data)) => (arrival, Some(Ok(data))),
            None => (0, None),
        };
        self.slots.insert(id, Slot { kind, done, arrival, waker: None });
    }

    /// Takes what an operation came to, or registers the waker.
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

    /// Whether an operation is open, so that something may still come for it.
    pub(crate) fn open_slot(&self, id: u64) -> Option<&SlotKind> {
        self.slots.get(&id).filter(|slot| slot.done.is_none()).map(|slot| &slot.kind)
    }

    /// Ends an operation; the waker is to be woken without the lock.
    pub(crate) fn settle(&mut self, id: u64, outcome: Outcome) -> Option<Waker> {
        let slot = self.slots.get_mut(&id)?;
        slot.done = Some(outcome);
        let waker = slot.waker.take();
        self.waiting -= usize::from(waker.is_some());
        waker
    }

    /// An event came from outside: the oldest open wait takes it, or it is kept.
    pub(crate) fn raise(&mut self, name: &str, data: Json) -> Option<Waker> {
        let (arrival, wait, data) = self.mailboxes.raise(name, data)?;
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
            (SlotKind::Wait { name }, done) => {
                self.mailboxes.forgo(name, id);
                if let Some(Ok(data)) = done {
                    released.next = self.put_back(name, slot.arrival, data);
                }
                EventKind::EventForgone { of: id }
            }
            (_, Some(_)) => return released,
            (SlotKind::Activity, None) => EventKind::ActivityCancelled { of: id },
            (SlotKind::Timer, None) => EventKind::TimerCancelled { of: id },
            (SlotKind::Child { .. }, None) => EventKind::ChildCancelled { of: id },
        };
        self.give_up(id, slot.kind);
        self.decide(decision, Some(at));
        released
    }

    fn give_up(&mut self, id: u64, kind: SlotKind) {
        if id >= self.turn_first {
            self.children.remove(&id);
        }
        self.given_up.push((id, kind));
    }

    /// What a wait had been given and nobody looked at goes to the next one.
    fn put_back(&mut self, name: &str, arrival: u64, data: Json) -> Option<Waker> {
        let (wait, data) = self.mailboxes.put_back(name, arrival, data)?;
        self.give(wait, arrival, data)
    }

    /// The end: gives up all that is open, and puts back what waits had been given. The wakers
    /// are to be dropped without the lock.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.over = true;
        self.waiting = 0;
        self.mailboxes.forgo_all();
        let mut slots: Vec<_> = std::mem::take(&mut self.slots).into_iter().collect();
        slots.sort_unstable_by_key(|(id, _)| *id);
        let mut wakers = Vec::new();
        for (id, slot) in slots {
            wakers.extend(slot.waker);
            match (slot.kind, slot.done) {
                (SlotKind::Wait { name }, Some(Ok(data))) => {
                    self.mailboxes.put_back(&name, slot.arrival, data);
                }
                (kind, None) => self.give_up(id, kind),
                _ => {}
            }
        }
        wakers
    }
}

/// Wakers that a released operation leaves behind.
#[derive(Default)]
struct Released {
    /// Of the operation itself: to be dropped.
    own: Option<Waker>,
    /// Of the wait that was given what the operation had: to be woken.
    next: Option<Waker>,
}
