//! Durable timers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use wakeline_core::Timestamp;

use super::OrchestrationContext;
use super::operation::OperationHandle;
use crate::engine::state::{At, ExecutionShared};
use crate::event::EventKind;

impl OrchestrationContext {
    /// Waits for a span of time, across crashes and deployments; the end is capped at the year
    /// 9999. A sleeping instance uses no memory and no task.
    #[track_caller]
    pub fn sleep(&self, span: Duration) -> Sleep {
        self.sleep_for(Until::Span(span), std::panic::Location::caller())
    }

    /// Waits until a time by the database's clock, capped at the year 9999. Returns at once if it
    /// has passed.
    #[track_caller]
    pub fn sleep_until(&self, moment: Timestamp) -> Sleep {
        self.sleep_for(Until::Moment(moment), std::panic::Location::caller())
    }

    /// Waits for a future for at most `span`. Returns `None` if the time expires first: the future
    /// is then dropped, which cancels what it had begun.
    #[track_caller]
    pub fn timeout<F: IntoFuture>(&self, span: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout { sleep: self.sleep(span), future: Some(Box::pin(future.into_future())) }
    }

    fn sleep_for(&self, until: Until, at: At) -> Sleep {
        Sleep { shared: Arc::clone(&self.shared), at, until, operation: None }
    }
}

enum Until {
    Span(Duration),
    Moment(Timestamp),
}

/// A durable timer; see [`OrchestrationContext::sleep`].
#[must_use = "a timer begins when it is awaited, or started"]
pub struct Sleep {
    shared: Arc<ExecutionShared>,
    at: At,
    until: Until,
    operation: Option<OperationHandle>,
}

impl Sleep {
    /// Sets the timer now, to be awaited later.
    pub fn start(mut self) -> Self {
        self.begin();
        self
    }

    pub(super) fn after(context: &OrchestrationContext, span: Duration, at: At) -> Self {
        context.sleep_for(Until::Span(span), at)
    }

    pub(super) fn begin(&mut self) {
        if self.operation.is_none() {
            let moment = match self.until {
                Until::Span(span) => Timestamp(self.shared.lock().now).plus(span),
                Until::Moment(moment) => moment,
            };
            let kind = EventKind::TimerCreated { fire_at: moment.0 };
            self.operation = OperationHandle::open(&self.shared, self.at, kind);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.begin();
        self.operation.as_ref().map_or(Poll::Pending, |operation| operation.poll(context).map(drop))
    }
}

/// Waits for a future with a time limit; see [`OrchestrationContext::timeout`].
#[must_use = "nothing begins before it is awaited"]
pub struct Timeout<F> {
    sleep: Sleep,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            self.future = None;
            self.sleep.operation = None;
            return Poll::Ready(Some(output));
        }
        if Pin::new(&mut self.sleep).poll(context).is_pending() {
            return Poll::Pending;
        }
        self.future = None;
        Poll::Ready(None)
    }
}
