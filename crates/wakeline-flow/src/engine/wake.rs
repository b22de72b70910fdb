//! Tells wakes of the engine from wakes of anybody else.
//!
//! # Invariants
//! * Only the thread that is inside an execution may wake it or use its context. Whatever else does
//!   so is foreign: a runtime's timer, a spawned task, a channel, another thread.
//! * A foreign wake is noted, never acted on.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Wake;

thread_local! {
    /// The execution that this thread is inside of; 0 for none.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The waker that the code of an execution is polled with.
pub(crate) struct Root {
    entrance: u64,
    woken: AtomicBool,
    foreign: AtomicBool,
    over: AtomicBool,
}

impl Root {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            entrance: NEXT.fetch_add(1, Ordering::Relaxed),
            woken: AtomicBool::new(false),
            foreign: AtomicBool::new(false),
            over: AtomicBool::new(false),
        })
    }

    /// Marks this thread as inside, until the guard is dropped.
    pub(crate) fn enter(&self) -> Inside {
        Inside { before: CURRENT.replace(self.entrance) }
    }

    /// Whether this thread is inside.
    pub(crate) fn is_inside(&self) -> bool {
        CURRENT.get() == self.entrance
    }

    /// Whether the code was woken since the last call.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    /// Whether somebody else woke the code, ever.
    pub(crate) fn was_foreign(&self) -> bool {
        self.foreign.load(Ordering::Relaxed)
    }

    /// From now on wakes mean nothing.
    pub(crate) fn close(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_inside() {
            self.woken.store(true, Ordering::Relaxed);
        } else if !self.over.load(Ordering::Relaxed) {
            self.foreign.store(true, Ordering::Relaxed);
        }
    }
}

/// Marks the thread; executions may nest.
pub(crate) struct Inside {
    before: u64,
}

impl Drop for Inside {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
