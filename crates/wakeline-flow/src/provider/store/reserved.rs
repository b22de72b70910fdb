//! Waiters of this process that a write serves in its own commit.

use wakeline_core::{ActivityRoute, FlowChange, FlowWhat};
use wakeline_store::flow::{TurnItem, TurnRequest, WorkItem as Stored, WorkRequest};
use wakeline_wake::Reservation;

use super::Inner;
use crate::provider::face::{Ask, FlowFace, Grant, Hint};
use crate::provider::trace::Trace;

/// Most waiters that one commit serves.
const RESERVED_MAX: usize = 64;

impl Inner {
    pub(super) fn reserve_turns(&self, max: usize) -> Reserved<TurnRequest> {
        Reserved::of(self.hub.reserve(&Hint::AnyTurn, max.min(RESERVED_MAX)), Ask::into_turn)
    }

    /// Workers for as many activities of these routes as there are.
    pub(super) fn reserve_work(
        &self,
        routes: impl Iterator<Item = ActivityRoute>,
    ) -> Reserved<WorkRequest> {
        let mut wanted: Vec<(ActivityRoute, usize)> = Vec::new();
        for route in routes {
            match wanted.iter_mut().find(|(known, _)| *known == route) {
                Some((_, count)) => *count += 1,
                None => wanted.push((route, 1)),
            }
        }
        let mut held = Vec::new();
        for (route, count) in wanted {
            let hint = Hint::Change(FlowChange::now(FlowWhat::Work(route)));
            held.extend(self.hub.reserve(&hint, count.min(RESERVED_MAX - held.len())));
        }
        Reserved::of(held, Ask::into_work)
    }
}

/// Waiters that a write may serve, and what each of them asks for.
pub(super) struct Reserved<R> {
    held: Vec<Option<(Reservation<FlowFace>, Trace)>>,
    pub(super) requests: Vec<R>,
}

impl<R> Reserved<R> {
    fn of(held: Vec<Reservation<FlowFace>>, request: impl Fn(Ask) -> Option<(R, Trace)>) -> Self {
        let mut reserved = Self { held: Vec::new(), requests: Vec::new() };
        for reservation in held {
            if let Some((request, trace)) = request(reservation.ask().clone()) {
                reserved.requests.push(request);
                reserved.held.push(Some((reservation, trace)));
            }
        }
        reserved
    }

    /// Serves those that the write leased something to; the others go back to their places.
    pub(super) fn serve<T>(mut self, leased: Vec<(usize, T)>, grant: impl Fn(T, Trace) -> Grant) {
        for (place, item) in leased {
            if let Some((reservation, trace)) = self.held.get_mut(place).and_then(Option::take) {
                reservation.serve(grant(item, trace));
            }
        }
    }
}

pub(super) fn turn_grant(turn: TurnItem, trace: Trace) -> Grant {
    Grant::Turn(Box::new(turn), trace)
}

pub(super) fn work_grant(work: Stored, trace: Trace) -> Grant {
    Grant::Work(Box::new(work), trace)
}
