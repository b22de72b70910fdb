//! A call that runs to completion, even if its caller is dropped.
//!
//! # Where it sits
//! Stores and domain crates wrap calls that must not stop half-way: a write whose hints would be
//! lost with its caller, or a fused call that executes the commands of other callers.
//!
//! # Invariants
//! * While the caller waits, the call runs in the caller's own task, so no task is created or
//!   woken. Only a call that was started and then dropped gets a task to finish in.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs a future to completion, even if its caller is dropped after the first poll.
#[must_use = "nothing happens before it is awaited"]
pub struct RunToCompletion<T: Send + 'static> {
    call: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    begun: bool,
}

impl<T: Send + 'static> RunToCompletion<T> {
    /// Wraps a call. Nothing happens before it is polled.
    pub fn new(call: impl Future<Output = T> + Send + 'static) -> Self {
        Self { call: Some(Box::pin(call)), begun: false }
    }
}

impl<T: Send + 'static> Future for RunToCompletion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        // Taken out while it is polled, so that a call that panics is not spawned again on drop.
        let mut call = self.call.take().expect("the future is not polled after it completed");
        let polled = call.as_mut().poll(context);
        if polled.is_pending() {
            self.call = Some(call);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for RunToCompletion<T> {
    fn drop(&mut self) {
        let Some(call) = self.call.take().filter(|_| self.begun) else { return };
        // Without a runtime the call cannot continue; the process is ending anyway.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use tokio::sync::oneshot;

    /// Polls once and returns whether the call is pending.
    async fn begin<F: Future + Unpin>(call: &mut F) -> bool {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *call).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn a_dropped_call_runs_to_completion() {
        let (leave, left) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut call = RunToCompletion::new(async move {
            left.await.expect("the test sends");
            done.send(()).expect("the test is waiting");
        });
        assert!(begin(&mut call).await);
        drop(call);
        leave.send(()).expect("the call is still running");
        is_done.await.expect("the call completed");
    }

    #[tokio::test]
    async fn a_call_runs_in_the_task_of_its_caller() {
        let here = tokio::task::try_id();
        let there = RunToCompletion::new(async { tokio::task::try_id() }).await;
        assert_eq!(here, there);
    }

    #[tokio::test]
    async fn a_call_that_was_never_polled_does_not_run() {
        let (done, is_done) = oneshot::channel();
        drop(RunToCompletion::new(async move { done.send(()).expect("the test is waiting") }));
        assert!(is_done.await.is_err());
    }

    #[tokio::test]
    async fn a_call_that_panics_is_not_continued() {
        let call = RunToCompletion::new(async { panic!("on purpose") });
        let joined = tokio::spawn(async move {
            let call = pin!(call);
            call.await
        });
        assert!(joined.await.expect_err("it panics").is_panic());
    }
}
