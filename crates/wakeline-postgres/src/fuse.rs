//! Group commit: concurrent commands of one kind go to the database in one call.
//!
//! # Where it sits
//! The queue's push, claim and settle submit here; the flush function makes the call.
//!
//! # Invariants
//! * No fixed delay: a call starts as soon as a slot is free, with everything that waits. A lone
//!   command on an idle store waits for nothing.
//! * Every command gets exactly one answer, also if the flush panics or answers too little.
//! * A caller that goes away does not cancel the call that carries its command.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;
use wakeline_store::StoreError;

/// Makes one call for many commands; answers one result per command, in order.
pub(crate) type Flush<C, R> =
    Arc<dyn Fn(Vec<C>) -> BoxFuture<'static, Vec<Result<R, StoreError>>> + Send + Sync>;

/// How much goes into one call, and how many calls run at once.
#[derive(Debug, Clone)]
pub(crate) struct FuserOptions {
    /// The operation, for metrics and errors.
    pub(crate) name: &'static str,
    /// Most commands in one call.
    pub(crate) commands_max: usize,
    /// Most bytes in one call; a single command may be larger.
    pub(crate) bytes_max: usize,
    /// Calls in flight at once.
    pub(crate) in_flight: usize,
}

impl FuserOptions {
    /// The limits of MODELS A8: 1,000 commands and 4 MB.
    pub(crate) fn new(name: &'static str, in_flight: usize) -> Self {
        Self { name, commands_max: 1000, bytes_max: 4 << 20, in_flight }
    }
}

struct Job<C, R> {
    command: C,
    bytes: usize,
    answer: oneshot::Sender<Result<R, StoreError>>,
}

/// Fuses commands into calls.
pub(crate) struct Fuser<C, R> {
    name: &'static str,
    jobs: Mutex<Option<mpsc::UnboundedSender<Job<C, R>>>>,
    calls: TaskTracker,
}

impl<C: Send + 'static, R: Send + 'static> Fuser<C, R> {
    /// Starts the task that fuses. It ends when the fuser is dropped or closed.
    pub(crate) fn start(options: FuserOptions, flush: Flush<C, R>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let calls = TaskTracker::new();
        let name = options.name;
        let pump = Pump { options, flush, jobs: receiver, left: None, calls: calls.clone() };
        calls.spawn(pump.run());
        Self { name, jobs: Mutex::new(Some(sender)), calls }
    }

    /// Has a command carried out; `bytes` is about what it adds to the call.
    pub(crate) async fn submit(&self, command: C, bytes: usize) -> Result<R, StoreError> {
        let (answer, answered) = oneshot::channel();
        let sent = match &*self.jobs.lock() {
            Some(jobs) => jobs.send(Job { command, bytes, answer }).is_ok(),
            None => false,
        };
        if !sent {
            let source = "the store is closed".into();
            return Err(StoreError::Unavailable { operation: self.name, source });
        }
        answered.await.unwrap_or_else(|_| Err(lost_answer(self.name)))
    }

    /// Takes no more commands and waits for those that were taken.
    pub(crate) async fn close(&self) {
        self.jobs.lock().take();
        self.calls.close();
        self.calls.wait().await;
    }
}

/// The task behind a [`Fuser`].
struct Pump<C, R> {
    options: FuserOptions,
    flush: Flush<C, R>,
    jobs: mpsc::UnboundedReceiver<Job<C, R>>,
    /// A job that did not fit into the last call.
    left: Option<Job<C, R>>,
    calls: TaskTracker,
}

impl<C: Send + 'static, R: Send + 'static> Pump<C, R> {
    async fn run(mut self) {
        let slots = Arc::new(Semaphore::new(self.options.in_flight.max(1)));
        loop {
            // The slot comes first: what arrives while none is free goes into the next call.
            let slot = slots.clone().acquire_owned().await.expect("the slots are never closed");
            let first = match self.left.take() {
                Some(job) => job,
                None => match self.jobs.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            let jobs = self.gather(first);
            metrics::histogram!("wakeline_store_fused_commands", "op" => self.options.name)
                .record(jobs.len() as f64);
            self.calls.spawn(call(self.options.name, self.flush.clone(), jobs, slot));
        }
    }

    fn gather(&mut self, first: Job<C, R>) -> Vec<Job<C, R>> {
        let mut bytes = first.bytes;
        let mut jobs = vec![first];
        while jobs.len() < self.options.commands_max {
            let Ok(job) = self.jobs.try_recv() else { break };
            if bytes.saturating_add(job.bytes) > self.options.bytes_max {
                self.left = Some(job);
                break;
            }
            bytes += job.bytes;
            jobs.push(job);
        }
        jobs
    }
}

async fn call<C, R>(
    name: &'static str,
    flush: Flush<C, R>,
    jobs: Vec<Job<C, R>>,
    slot: OwnedSemaphorePermit,
) {
    let (commands, waiters): (Vec<_>, VecDeque<_>) =
        jobs.into_iter().map(|job| (job.command, job.answer)).unzip();
    // The closure itself may panic as well as the future that it makes.
    let flushed = AssertUnwindSafe(async move { flush(commands).await }).catch_unwind().await;
    drop(slot);
    let mut results = flushed.unwrap_or_default().into_iter();
    for waiter in waiters {
        let result = results.next().unwrap_or_else(|| Err(lost_answer(name)));
        // A caller that went away is not told; what it asked for has happened.
        let _ = waiter.send(result);
    }
}

fn lost_answer(operation: &'static str) -> StoreError {
    StoreError::Fatal { operation, source: "the call ended without an answer".into() }
}
