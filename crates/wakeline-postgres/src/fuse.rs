//! Group commit: concurrent commands of one kind go to the database in one call.
//!
//! # Where it sits
//! Calls that many callers make concurrently (push, claim, settle and others) are submitted here;
//! the flush function makes the call to the database.
//!
//! # Invariants
//! * There is no fixed delay: a call starts as soon as a slot is free, with all commands that wait.
//!   A single command on an idle store waits for nothing, not even for another task.
//! * Every command gets exactly one answer, even if the flush function panics or returns too few
//!   results.
//! * If the future of a caller is dropped, the call with its command still runs to its end.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use wakeline_store::{RunToCompletion, StoreError};

use crate::error::unanswered;

/// Makes one call for many commands; returns one result per command, in order.
pub(crate) type FlushFn<C, R> =
    Arc<dyn Fn(Vec<C>) -> BoxFuture<'static, Vec<Result<R, StoreError>>> + Send + Sync>;

/// The limits of one call, and the number of concurrent calls.
#[derive(Debug, Clone)]
pub(crate) struct FuserOptions {
    /// The name of the operation in metrics and errors.
    pub(crate) name: &'static str,
    /// The maximum number of commands in one call.
    pub(crate) commands_max: usize,
    /// The maximum number of bytes in one call; a single command may be larger.
    pub(crate) bytes_max: usize,
    /// The maximum number of concurrent calls.
    pub(crate) in_flight: usize,
}

impl FuserOptions {
    /// The default limits: 1,000 commands and 4 MB.
    pub(crate) fn new(name: &'static str, in_flight: usize) -> Self {
        Self { name, commands_max: 1000, bytes_max: 4 << 20, in_flight }
    }
}

struct FuserJob<C, R> {
    command: C,
    bytes: usize,
    answer: oneshot::Sender<Result<R, StoreError>>,
}

/// Fuses commands into calls.
pub(crate) struct Fuser<C, R> {
    line: Arc<FuserQueue<C, R>>,
}

impl<C: Send + 'static, R: Send + 'static> Fuser<C, R> {
    /// Creates a fuser. It has no task of its own: calls are made by those who submit.
    pub(crate) fn start(options: FuserOptions, flush: FlushFn<C, R>) -> Self {
        let state = Mutex::new(FuserState { jobs: VecDeque::new(), running: 0, closed: false });
        Self { line: Arc::new(FuserQueue { options, flush, state, calls: TaskTracker::new() }) }
    }

    /// Executes a command; `bytes` is about what it adds to the call.
    pub(crate) async fn submit(&self, command: C, bytes: usize) -> Result<R, StoreError> {
        match self.line.enter(command, bytes)? {
            Turn::Now(command) => RunToCompletion::new(self.line.clone().alone(command)).await,
            Turn::Later(answered) => {
                answered.await.unwrap_or_else(|_| Err(unanswered(self.line.options.name)))
            }
        }
    }

    /// Refuses further commands and waits for the accepted ones.
    pub(crate) async fn close(&self) {
        self.line.state.lock().closed = true;
        self.line.calls.close();
        self.line.calls.wait().await;
    }
}

/// The commands that wait for a slot, and the calls in flight.
struct FuserQueue<C, R> {
    options: FuserOptions,
    flush: FlushFn<C, R>,
    state: Mutex<FuserState<C, R>>,
    calls: TaskTracker,
}

/// How a command is executed.
enum Turn<C, R> {
    /// A slot was free and is taken: the submitter makes the call in its own task.
    Now(C),
    /// All slots were taken: the command goes with a later call.
    Later(oneshot::Receiver<Result<R, StoreError>>),
}

struct FuserState<C, R> {
    /// Empty unless all slots are taken: a slot is released only when no command waits for one.
    jobs: VecDeque<FuserJob<C, R>>,
    /// The number of slots that are taken.
    running: usize,
    closed: bool,
}

impl<C: Send + 'static, R: Send + 'static> FuserQueue<C, R> {
    /// Takes a free slot, or queues the command.
    fn enter(&self, command: C, bytes: usize) -> Result<Turn<C, R>, StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            let source = "the store is closed".into();
            return Err(StoreError::Unavailable { operation: self.options.name, source });
        }
        if state.running < self.options.in_flight.max(1) {
            state.running += 1;
            return Ok(Turn::Now(command));
        }
        let (answer, answered) = oneshot::channel();
        state.jobs.push_back(FuserJob { command, bytes, answer });
        Ok(Turn::Later(answered))
    }

    /// Makes a call for a command that found a slot free.
    async fn alone(self: Arc<Self>, command: C) -> Result<R, StoreError> {
        let _call = self.calls.token();
        let results = self.flush(vec![command]).await;
        self.proceed();
        results.into_iter().next().unwrap_or_else(|| Err(unanswered(self.options.name)))
    }

    /// Makes a call for commands that waited for their slot.
    async fn together(self: Arc<Self>, jobs: Vec<FuserJob<C, R>>) {
        let (commands, waiters): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (job.command, job.answer)).unzip();
        let mut results = self.flush(commands).await.into_iter();
        self.proceed();
        for waiter in waiters {
            let result = results.next().unwrap_or_else(|| Err(unanswered(self.options.name)));
            // The receiver may be gone, but its command was executed.
            let _ = waiter.send(result);
        }
    }

    /// Ends a call: its slot goes to waiting commands, or is released.
    fn proceed(self: &Arc<Self>) {
        let jobs = {
            let mut state = self.state.lock();
            let jobs = state.gather(&self.options);
            if jobs.is_empty() {
                state.running -= 1;
                return;
            }
            jobs
        };
        self.calls.spawn(self.clone().together(jobs));
    }

    async fn flush(&self, commands: Vec<C>) -> Vec<Result<R, StoreError>> {
        metrics::histogram!("wakeline_store_fused_commands", "op" => self.options.name)
            .record(commands.len() as f64);
        // The closure itself may panic, as well as the future that it returns.
        let flushed = AssertUnwindSafe(async { (self.flush)(commands).await }).catch_unwind();
        flushed.await.unwrap_or_default()
    }
}

impl<C, R> FuserState<C, R> {
    /// Takes as many waiting commands as fit into one call.
    fn gather(&mut self, options: &FuserOptions) -> Vec<FuserJob<C, R>> {
        let mut bytes = 0usize;
        let mut jobs = Vec::new();
        while let Some(job) = self.jobs.front()
            && jobs.len() < options.commands_max
            && (jobs.is_empty() || bytes.saturating_add(job.bytes) <= options.bytes_max)
        {
            bytes = bytes.saturating_add(job.bytes);
            jobs.extend(self.jobs.pop_front());
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;
    use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

    /// A flush function that reports the commands of each call and waits for permission to answer.
    struct Bench {
        fuser: Arc<Fuser<u32, u32>>,
        calls: UnboundedReceiver<Vec<u32>>,
        leave: UnboundedSender<()>,
    }

    fn bench(options: FuserOptions) -> Bench {
        let (called, calls) = mpsc::unbounded_channel();
        let (leave, left) = mpsc::unbounded_channel::<()>();
        let left = Arc::new(tokio::sync::Mutex::new(left));
        let flush: FlushFn<u32, u32> = Arc::new(move |commands: Vec<u32>| {
            let (called, left) = (called.clone(), left.clone());
            async move {
                called.send(commands.clone()).expect("the test receives calls");
                left.lock().await.recv().await.expect("the test permits the answer");
                commands.into_iter().map(|command| Ok(command * 10)).collect()
            }
            .boxed()
        });
        Bench { fuser: Arc::new(Fuser::start(options, flush)), calls, leave }
    }

    /// Submits a command without waiting for the answer, so that commands are queued in order.
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
    async fn a_single_command_does_not_wait() {
        let mut bench = bench(FuserOptions::new("test", 1));
        let started = tokio::time::Instant::now();
        let answer = submit(&bench, 7, 1).await;
        assert_eq!(bench.calls.recv().await, Some(vec![7]));
        bench.leave.send(()).expect("flush waits");
        assert_eq!(answer.await.expect("no panic"), 70);
        assert_eq!(started.elapsed(), std::time::Duration::ZERO);
    }

    #[tokio::test]
    async fn commands_that_arrive_during_a_call_go_with_the_next() {
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
    async fn concurrent_calls_are_limited() {
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
    async fn a_call_respects_its_limits() {
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
    async fn a_dropped_caller_does_not_cancel_the_call() {
        let done = Arc::new(AtomicUsize::new(0));
        let (gate, gated) = (Arc::new(Semaphore::new(0)), done.clone());
        let held = gate.clone();
        let flush: FlushFn<u32, u32> = Arc::new(move |commands: Vec<u32>| {
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
    async fn a_panic_or_a_missing_result_is_an_unknown_outcome() {
        for answers in [None, Some(1)] {
            let flush: FlushFn<u32, u32> = Arc::new(move |commands: Vec<u32>| {
                async move {
                    // Others come while the first call runs, so that the second has several.
                    tokio::task::yield_now().await;
                    let answers = answers.expect("a flush that panics");
                    commands.into_iter().take(answers).map(Ok).collect()
                }
                .boxed()
            });
            let fuser = Fuser::start(FuserOptions::new("test", 1), flush);
            let results = futures_util::future::join_all((0..5).map(|n| fuser.submit(n, 1))).await;
            let failed = results.iter().filter(|result| result.is_err()).count();
            assert_eq!(failed, if answers.is_none() { 5 } else { 3 }, "{results:?}");
            for error in results.iter().filter_map(|result| result.as_ref().err()) {
                assert!(
                    matches!(error, StoreError::Transient { .. }),
                    "it may have been executed: {error:?}"
                );
            }
            assert!(results.iter().flat_map(Result::as_ref).all(|answer| *answer < 5));
        }
    }

    #[tokio::test]
    async fn a_closed_fuser_reports_that_nothing_was_written() {
        let flush: FlushFn<u32, u32> = Arc::new(|_| async { Vec::new() }.boxed());
        let fuser = Fuser::start(FuserOptions::new("test", 1), flush);
        fuser.close().await;
        let refused = fuser.submit(1, 1).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { operation: "test", .. })));
    }
}
