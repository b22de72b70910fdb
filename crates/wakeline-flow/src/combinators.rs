//! Waiting for several things, in the order of the history.
//!
//! # Invariants
//! * Futures are polled, finished and dropped in an order that follows from the deliveries and from
//!   the order of the arguments alone: the same on replay, whatever their number.
//! * A future is polled again only when it was woken: a fan-in of ten thousand costs ten thousand
//!   polls.
//! * Losers are dropped before the winner is returned, which gives up what they had begun. If
//!   several have ended before anybody looked, the one that stands first wins.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// Which of two futures was first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first argument.
    First(A),
    /// The second argument.
    Second(B),
}

/// Which of three futures was first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either3<A, B, C> {
    /// The first argument.
    First(A),
    /// The second argument.
    Second(B),
    /// The third argument.
    Third(C),
}

/// Waits for both.
pub async fn join<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> (A::Output, B::Output) {
    futures_util::future::join(a.into_future(), b.into_future()).await
}

/// Waits for all three.
pub async fn join3<A, B, C>(a: A, b: B, c: C) -> (A::Output, B::Output, C::Output)
where
    A: IntoFuture,
    B: IntoFuture,
    C: IntoFuture,
{
    futures_util::future::join3(a.into_future(), b.into_future(), c.into_future()).await
}

/// Waits for all; the outputs stand in the order of the futures.
pub async fn join_all<F: IntoFuture>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut crowd = Crowd::new(futures);
    let mut outputs: Vec<Option<F::Output>> = crowd.members.iter().map(|_| None).collect();
    while let Some((index, output)) = crowd.next().await {
        outputs[index] = Some(output);
    }
    outputs.into_iter().flatten().collect()
}

/// Waits for all, or for the first error: then the rest is dropped.
pub async fn try_join_all<F, T, E>(futures: impl IntoIterator<Item = F>) -> Result<Vec<T>, E>
where
    F: IntoFuture<Output = Result<T, E>>,
{
    let mut crowd = Crowd::new(futures);
    let mut outputs: Vec<Option<T>> = crowd.members.iter().map(|_| None).collect();
    while let Some((index, output)) = crowd.next().await {
        match output {
            Ok(output) => outputs[index] = Some(output),
            Err(error) => return Err(error),
        }
    }
    Ok(outputs.into_iter().flatten().collect())
}

/// Waits for the first, and drops the rest. Returns its place and its output; waits for ever if
/// there are no futures.
pub async fn race<F: IntoFuture>(futures: impl IntoIterator<Item = F>) -> (usize, F::Output) {
    let mut crowd = Crowd::new(futures);
    match crowd.next().await {
        Some(first) => first,
        None => std::future::pending().await,
    }
}

/// Waits for the first of two, and drops the other.
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

/// Waits for the first of three, and drops the others.
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

/// Futures of which each is polled only when it was woken, in the order of waking.
struct Crowd<F> {
    members: Vec<Option<Pin<Box<F>>>>,
    bells: Vec<Arc<Bell>>,
    line: Arc<Line>,
    left: usize,
}

/// Members that are to be polled, and who polls them.
struct Line {
    ready: Mutex<VecDeque<usize>>,
    parent: Mutex<Option<Waker>>,
}

/// Wakes one member.
struct Bell {
    index: usize,
    rung: AtomicBool,
    line: Arc<Line>,
}

impl<F: Future> Crowd<F> {
    fn new<I: IntoFuture<IntoFuture = F>>(futures: impl IntoIterator<Item = I>) -> Self {
        let start = |future: I| Some(Box::pin(future.into_future()));
        let members: Vec<_> = futures.into_iter().map(start).collect();
        let ready = Mutex::new((0..members.len()).collect());
        let line = Arc::new(Line { ready, parent: Mutex::new(None) });
        let bell =
            |index| Arc::new(Bell { index, rung: AtomicBool::new(true), line: Arc::clone(&line) });
        let bells = (0..members.len()).map(bell).collect();
        Self { left: members.len(), members, bells, line }
    }

    /// The next one that ends, with its place; `None` once all have ended.
    async fn next(&mut self) -> Option<(usize, F::Output)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, F::Output)>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let _before = self.line.parent.lock().replace(context.waker().clone());
        // Those that stand in line now: one that wakes itself over and over must not keep the
        // engine from noticing.
        let standing = self.line.ready.lock().len();
        for _ in 0..standing {
            let Some(index) = self.line.ready.lock().pop_front() else { break };
            let bell = &self.bells[index];
            bell.rung.store(false, Ordering::Relaxed);
            let Some(member) = &mut self.members[index] else { continue };
            let waker = Waker::from(Arc::clone(bell));
            if let Poll::Ready(output) = member.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.members[index] = None;
                self.left -= 1;
                return Poll::Ready(Some((index, output)));
            }
        }
        if !self.line.ready.lock().is_empty() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::Relaxed) {
            self.line.ready.lock().push_back(self.index);
            let parent = self.line.parent.lock().clone();
            if let Some(parent) = parent {
                parent.wake();
            }
        }
    }
}
