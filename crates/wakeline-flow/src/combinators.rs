//! Waiting for several futures in an order that replay repeats.
//!
//! # Invariants
//! * The order in which futures are polled, finish and are dropped depends only on the deliveries
//!   and on the order of the arguments. It is therefore the same on replay, for any number of
//!   futures.
//! * A future is polled again only after it was woken: a fan-in of ten thousand costs ten thousand
//!   polls.
//! * The losers of a race are dropped before the winner is returned, which cancels what they had
//!   begun. If several futures are ready at the same poll, the first argument wins.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// The output of the first of two futures that finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first argument finished first.
    First(A),
    /// The second argument finished first.
    Second(B),
}

/// The output of the first of three futures that finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either3<A, B, C> {
    /// The first argument finished first.
    First(A),
    /// The second argument finished first.
    Second(B),
    /// The third argument finished first.
    Third(C),
}

/// Waits for both futures.
pub async fn join<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> (A::Output, B::Output) {
    futures_util::future::join(a.into_future(), b.into_future()).await
}

/// Waits for all three futures.
pub async fn join3<A, B, C>(a: A, b: B, c: C) -> (A::Output, B::Output, C::Output)
where
    A: IntoFuture,
    B: IntoFuture,
    C: IntoFuture,
{
    futures_util::future::join3(a.into_future(), b.into_future(), c.into_future()).await
}

/// Waits for all futures, and returns their outputs in the order of the arguments.
pub async fn join_all<F: IntoFuture>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut crowd = FutureSet::new(futures);
    let mut outputs: Vec<Option<F::Output>> = crowd.members.iter().map(|_| None).collect();
    while let Some((index, output)) = crowd.next().await {
        outputs[index] = Some(output);
    }
    outputs.into_iter().flatten().collect()
}

/// Waits for all futures, or until the first one fails: then the others are dropped.
pub async fn try_join_all<F, T, E>(futures: impl IntoIterator<Item = F>) -> Result<Vec<T>, E>
where
    F: IntoFuture<Output = Result<T, E>>,
{
    let mut crowd = FutureSet::new(futures);
    let mut outputs: Vec<Option<T>> = crowd.members.iter().map(|_| None).collect();
    while let Some((index, output)) = crowd.next().await {
        match output {
            Ok(output) => outputs[index] = Some(output),
            Err(error) => return Err(error),
        }
    }
    Ok(outputs.into_iter().flatten().collect())
}

/// Waits for the first future that finishes, and drops the others. Returns its index and its
/// output. Never returns if there are no futures.
pub async fn race<F: IntoFuture>(futures: impl IntoIterator<Item = F>) -> (usize, F::Output) {
    let mut crowd = FutureSet::new(futures);
    match crowd.next().await {
        Some(first) => first,
        None => std::future::pending().await,
    }
}

/// Waits for the first of two futures, and drops the other.
pub async fn select2<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> Either<A::Output, B::Output> {
    let mut a = pin!(a.into_future());
    let mut b = pin!(b.into_future());
    let first = poll_fn(|context| {
        if let Poll::Ready(output) = a.as_mut().poll(context) {
            return Poll::Ready(Either::First(output));
        }
        b.as_mut().poll(context).map(Either::Second)
    });
    first.await
}

/// Waits for the first of three futures, and drops the others.
pub async fn select3<A, B, C>(a: A, b: B, c: C) -> Either3<A::Output, B::Output, C::Output>
where
    A: IntoFuture,
    B: IntoFuture,
    C: IntoFuture,
{
    match select2(select2(a, b), c).await {
        Either::First(Either::First(output)) => Either3::First(output),
        Either::First(Either::Second(output)) => Either3::Second(output),
        Either::Second(output) => Either3::Third(output),
    }
}

/// A set of futures that polls each one only after it was woken, in the order of the wake-ups.
struct FutureSet<F> {
    members: Vec<Option<Pin<Box<F>>>>,
    wakers: Vec<Arc<MemberWaker>>,
    queue: Arc<ReadyQueue>,
    left: usize,
}

/// The members to poll, and the waker of the task that polls the set.
struct ReadyQueue {
    ready: Mutex<VecDeque<usize>>,
    parent: Mutex<Option<Waker>>,
}

/// Wakes one member.
struct MemberWaker {
    index: usize,
    woken: AtomicBool,
    queue: Arc<ReadyQueue>,
}

impl<F: Future> FutureSet<F> {
    fn new<I: IntoFuture<IntoFuture = F>>(futures: impl IntoIterator<Item = I>) -> Self {
        let start = |future: I| Some(Box::pin(future.into_future()));
        let members: Vec<_> = futures.into_iter().map(start).collect();
        let ready = Mutex::new((0..members.len()).collect());
        let queue = Arc::new(ReadyQueue { ready, parent: Mutex::new(None) });
        let waker = |index| {
            Arc::new(MemberWaker { index, woken: AtomicBool::new(true), queue: Arc::clone(&queue) })
        };
        let wakers = (0..members.len()).map(waker).collect();
        Self { left: members.len(), members, wakers, queue }
    }

    /// Waits for the next member that finishes, and returns its index and output; `None` once all
    /// have finished.
    async fn next(&mut self) -> Option<(usize, F::Output)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, F::Output)>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let _before = self.queue.parent.lock().replace(context.waker().clone());
        // Only those that are ready now: a member that wakes itself over and over must not keep
        // this poll from returning to the engine.
        let ready_now = self.queue.ready.lock().len();
        for _ in 0..ready_now {
            let Some(index) = self.queue.ready.lock().pop_front() else { break };
            let waker = &self.wakers[index];
            waker.woken.store(false, Ordering::Relaxed);
            let Some(member) = &mut self.members[index] else { continue };
            let waker = Waker::from(Arc::clone(waker));
            if let Poll::Ready(output) = member.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.members[index] = None;
                self.left -= 1;
                return Poll::Ready(Some((index, output)));
            }
        }
        if !self.queue.ready.lock().is_empty() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Relaxed) {
            self.queue.ready.lock().push_back(self.index);
            let parent = self.queue.parent.lock().clone();
            if let Some(parent) = parent {
                parent.wake();
            }
        }
    }
}
