//! Distinguishes wake-ups by the engine from all others.
//!
//! # Invariants
//! * Only the thread that is inside an execution may wake it or use its context. Everything else is
//!   nondeterministic: a runtime's timer, a spawned task, a channel, another thread.
//! * A wake-up from elsewhere is recorded and never acted on.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Wake;

thread_local! {
    /// The id of the execution that this thread is inside of; 0 for none.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The waker that the code of an execution is polled with.
pub(crate) struct RootWaker {
    id: u64,
    woken: AtomicBool,
    woken_outside: AtomicBool,
    over: AtomicBool,
}

impl RootWaker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            woken: AtomicBool::new(false),
            woken_outside: AtomicBool::new(false),
            over: AtomicBool::new(false),
        })
    }

    /// Marks this thread as inside the execution until the guard is dropped.
    pub(crate) fn enter(&self) -> InsideGuard {
        InsideGuard { before: CURRENT.replace(self.id) }
    }

    /// Whether this thread is inside the execution.
    pub(crate) fn is_inside(&self) -> bool {
        CURRENT.get() == self.id
    }

    /// Whether the code was woken since the last call.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    /// Whether anything other than the engine has ever woken the code.
    pub(crate) fn was_woken_outside(&self) -> bool {
        self.woken_outside.load(Ordering::Relaxed)
    }

    /// Ignores all wake-ups from now on.
    pub(crate) fn close(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_inside() {
            self.woken.store(true, Ordering::Relaxed);
        } else if !self.over.load(Ordering::Relaxed) {
            self.woken_outside.store(true, Ordering::Relaxed);
        }
    }
}

/// Marks the thread as inside an execution; executions may nest.
pub(crate) struct InsideGuard {
    before: u64,
}

impl Drop for InsideGuard {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
