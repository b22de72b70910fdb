//! A call that is carried to its end, also if its caller goes away.
//!
//! # Where it sits
//! Stores and faces wrap what must not stop half-way: a write whose hints would be lost with its
//! caller, a fused call that carries the commands of others.
//!
//! # Invariants
//! * While somebody waits, the call runs in the waiter's own task: no task is made and none has to
//!   be woken. Only a call that was begun and is given up gets a task, to finish in.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A call that is carried to its end, also if its caller goes away.
#[must_use = "nothing happens before it is awaited"]
pub struct Carried<T: Send + 'static> {
    call: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    begun: bool,
}

impl<T: Send + 'static> Carried<T> {
    /// Wraps a call. Nothing happens before it is polled.
    pub fn new(call: impl Future<Output = T> + Send + 'static) -> Self {
        Self { call: Some(Box::pin(call)), begun: false }
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        // Taken out meanwhile: a call that panics is over, and must not be carried on.
        let mut call = self.call.take().expect("not polled after its end");
        let polled = call.as_mut().poll(context);
        if polled.is_pending() {
            self.call = Some(call);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        let Some(call) = self.call.take().filter(|_| self.begun) else { return };
        // Without a runtime nothing can be carried on; then everything ends.
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

    /// Polls once.
    async fn begin<F: Future + Unpin>(call: &mut F) -> bool {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *call).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn a_call_that_was_given_up_comes_to_its_end() {
        let (leave, left) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut call = Carried::new(async move {
            left.await.expect("the test gives leave");
            done.send(()).expect("the test waits");
        });
        assert!(begin(&mut call).await);
        drop(call);
        leave.send(()).expect("it goes on");
        is_done.await.expect("it came to its end");
    }

    #[tokio::test]
    async fn a_call_runs_in_the_task_of_its_caller() {
        let here = tokio::task::try_id();
        let there = Carried::new(async { tokio::task::try_id() }).await;
        assert_eq!(here, there);
    }

    #[tokio::test]
    async fn a_call_that_was_never_begun_does_not_run() {
        let (done, is_done) = oneshot::channel();
        drop(Carried::new(async move { done.send(()).expect("the test waits") }));
        assert!(is_done.await.is_err());
    }

    #[tokio::test]
    async fn a_call_that_panics_is_over() {
        let call = Carried::new(async { panic!("as asked") });
        let joined = tokio::spawn(async move {
            let call = pin!(call);
            call.await
        });
        assert!(joined.await.expect_err("it panics").is_panic());
    }
}
