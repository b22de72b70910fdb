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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

    /// A flush that reports what it was given and waits for leave to answer.
    struct Bench {
        fuser: Arc<Fuser<u32, u32>>,
        calls: UnboundedReceiver<Vec<u32>>,
        leave: UnboundedSender<()>,
    }

    fn bench(options: FuserOptions) -> Bench {
        let (called, calls) = mpsc::unbounded_channel();
        let (leave, left) = mpsc::unbounded_channel::<()>();
        let left = Arc::new(tokio::sync::Mutex::new(left));
        let flush: Flush<u32, u32> = Arc::new(move |commands: Vec<u32>| {
            let (called, left) = (called.clone(), left.clone());
            async move {
                called.send(commands.clone()).expect("the test looks on");
                left.lock().await.recv().await.expect("the test gives leave");
                commands.into_iter().map(|command| Ok(command * 10)).collect()
            }
            .boxed()
        });
        Bench { fuser: Arc::new(Fuser::start(options, flush)), calls, leave }
    }

    /// Submits without waiting for the answer, in order.
    async fn submit(bench: &Bench, command: u32, bytes: usize) -> tokio::task::JoinHandle<u32> {
        let fuser = bench.fuser.clone();
        let (started, starting) = oneshot::channel();
        let task = tokio::spawn(async move {
            let answer = fuser.submit(command, bytes);
            let mut answer = std::pin::pin!(answer);
            // Polled once, the command is in the queue.
            let first = futures_util::poll!(&mut answer);
            started.send(()).expect("the test waits");
            match first {
                std::task::Poll::Ready(result) => result.expect("answered"),
                std::task::Poll::Pending => answer.await.expect("answered"),
            }
        });
        starting.await.expect("submitted");
        task
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_command_waits_for_nothing() {
        let mut bench = bench(FuserOptions::new("test", 1));
        let started = tokio::time::Instant::now();
        let answer = submit(&bench, 7, 1).await;
        assert_eq!(bench.calls.recv().await, Some(vec![7]));
        bench.leave.send(()).expect("flush waits");
        assert_eq!(answer.await.expect("no panic"), 70);
        assert_eq!(started.elapsed(), std::time::Duration::ZERO);
    }

    #[tokio::test]
    async fn what_arrives_during_a_call_goes_with_the_next() {
        let mut bench = bench(FuserOptions::new("test", 1));
        let mut answers = vec![submit(&bench, 1, 1).await];
        assert_eq!(bench.calls.recv().await, Some(vec![1]));
        for command in 2..=4 {
            answers.push(submit(&bench, command, 1).await);
        }
        assert!(bench.calls.try_recv().is_err(), "one call at a time");
        bench.leave.send(()).expect("flush waits");
        assert_eq!(bench.calls.recv().await, Some(vec![2, 3, 4]));
        bench.leave.send(()).expect("flush waits");
        for (answer, expected) in answers.into_iter().zip([10, 20, 30, 40]) {
            assert_eq!(answer.await.expect("no panic"), expected);
        }
    }

    #[tokio::test]
    async fn calls_in_flight_are_as_many_as_allowed() {
        let mut bench = bench(FuserOptions::new("test", 2));
        let mut answers = Vec::new();
        for command in 1..=2 {
            answers.push(submit(&bench, command, 1).await);
            assert_eq!(bench.calls.recv().await, Some(vec![command]));
        }
        answers.push(submit(&bench, 3, 1).await);
        tokio::task::yield_now().await;
        assert!(bench.calls.try_recv().is_err(), "two are in flight");
        for _ in 0..3 {
            bench.leave.send(()).expect("flush waits");
        }
        assert_eq!(bench.calls.recv().await, Some(vec![3]));
        for answer in answers {
            answer.await.expect("no panic");
        }
    }

    #[tokio::test]
    async fn a_call_holds_no_more_than_its_caps() {
        let options = FuserOptions { name: "test", commands_max: 3, bytes_max: 100, in_flight: 1 };
        let mut bench = bench(options);
        let mut answers = vec![submit(&bench, 0, 1).await];
        assert_eq!(bench.calls.recv().await, Some(vec![0]));
        for (command, bytes) in [(1, 40), (2, 60), (3, 1), (4, 500), (5, 1), (6, 1), (7, 1), (8, 1)]
        {
            answers.push(submit(&bench, command, bytes).await);
        }
        let mut calls = Vec::new();
        for _ in 0..5 {
            bench.leave.send(()).expect("flush waits");
        }
        for _ in 0..4 {
            calls.push(bench.calls.recv().await.expect("a call"));
        }
        assert_eq!(calls, [vec![1, 2], vec![3], vec![4], vec![5, 6, 7]]);
        assert_eq!(bench.calls.recv().await, Some(vec![8]));
        bench.leave.send(()).expect("flush waits");
        for answer in answers {
            answer.await.expect("no panic");
        }
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_does_not_cancel_the_call() {
        let done = Arc::new(AtomicUsize::new(0));
        let (gate, gated) = (Arc::new(Semaphore::new(0)), done.clone());
        let held = gate.clone();
        let flush: Flush<u32, u32> = Arc::new(move |commands: Vec<u32>| {
            let (gate, done) = (held.clone(), gated.clone());
            async move {
                let _leave = gate.acquire().await.expect("open");
                done.fetch_add(commands.len(), Ordering::SeqCst);
                commands.into_iter().map(Ok).collect()
            }
            .boxed()
        });
        let fuser = Fuser::start(FuserOptions::new("test", 1), flush);
        for command in 0..3 {
            let gone = std::pin::pin!(fuser.submit(command, 1));
            assert!(futures_util::poll!(gone).is_pending());
        }
        gate.add_permits(1);
        fuser.close().await;
        assert_eq!(done.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_panic_and_a_short_answer_reach_every_waiter() {
        for answers in [None, Some(1)] {
            let flush: Flush<u32, u32> = Arc::new(move |commands: Vec<u32>| {
                async move {
                    // Others join while the first call runs, so that one call has several waiters.
                    tokio::task::yield_now().await;
                    let answers = answers.expect("a flush that panics");
                    commands.into_iter().take(answers).map(Ok).collect()
                }
                .boxed()
            });
            let fuser = Fuser::start(FuserOptions::new("test", 1), flush);
            let results = futures_util::future::join_all((0..5).map(|n| fuser.submit(n, 1))).await;
            let failed = results.iter().filter(|result| result.is_err()).count();
            assert_eq!(failed, if answers.is_none() { 5 } else { 4 }, "{results:?}");
            assert!(results.iter().flat_map(Result::as_ref).all(|answer| *answer < 5));
        }
    }

    #[tokio::test]
    async fn a_closed_fuser_says_that_nothing_was_written() {
        let flush: Flush<u32, u32> = Arc::new(|_| async { Vec::new() }.boxed());
        let fuser = Fuser::start(FuserOptions::new("test", 1), flush);
        fuser.close().await;
        let refused = fuser.submit(1, 1).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { operation: "test", .. })));
    }
}
