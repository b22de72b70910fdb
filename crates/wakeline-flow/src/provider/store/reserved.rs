//! Waiters of this process that a write serves in its own commit.

use wakeline_core::{ActivityRoute, FlowChange, FlowChangeKind};
use wakeline_store::flow::{TurnItem, TurnRequest, WorkItem, WorkRequest};
use wakeline_wake::Reservation;

use super::StoreProviderInner;
use crate::provider::api::{FlowApi, FlowClaimResult, FlowHint, FlowRequest};
use crate::provider::trace::FetchTrace;

/// The maximum number of waiters that one commit serves.
const RESERVED_MAX: usize = 64;

impl StoreProviderInner {
    /// Reserves at most `max` waiting dispatchers of turns.
    pub(super) fn reserve_turns(&self, max: usize) -> ReservedWaiters<TurnRequest> {
        ReservedWaiters::of(
            self.hub.reserve(&FlowHint::AnyTurn, max.min(RESERVED_MAX)),
            FlowRequest::into_turn,
        )
    }

    /// Reserves one waiting worker for each activity of these routes, as far as there are any.
    pub(super) fn reserve_work(
        &self,
        routes: impl Iterator<Item = ActivityRoute>,
    ) -> ReservedWaiters<WorkRequest> {
        let mut wanted: Vec<(ActivityRoute, usize)> = Vec::new();
        for route in routes {
            match wanted.iter_mut().find(|(known, _)| *known == route) {
                Some((_, count)) => *count += 1,
                None => wanted.push((route, 1)),
            }
        }
        let mut held = Vec::new();
        for (route, count) in wanted {
            let hint = FlowHint::Change(FlowChange::now(FlowChangeKind::Work(route)));
            held.extend(self.hub.reserve(&hint, count.min(RESERVED_MAX - held.len())));
        }
        ReservedWaiters::of(held, FlowRequest::into_work)
    }
}

/// Waiters that a write may serve, and the request of each.
pub(super) struct ReservedWaiters<R> {
    held: Vec<Option<(Reservation<FlowApi>, FetchTrace)>>,
    pub(super) requests: Vec<R>,
}

impl<R> ReservedWaiters<R> {
    fn of(
        held: Vec<Reservation<FlowApi>>,
        request: impl Fn(FlowRequest) -> Option<(R, FetchTrace)>,
    ) -> Self {
        let mut reserved = Self { held: Vec::new(), requests: Vec::new() };
        for reservation in held {
            if let Some((request, trace)) = request(reservation.request().clone()) {
                reserved.requests.push(request);
                reserved.held.push(Some((reservation, trace)));
            }
        }
        reserved
    }

    /// Serves the waiters to which the write leased something; the others return to their places.
    pub(super) fn serve<T>(
        mut self,
        leased: Vec<(usize, T)>,
        result: impl Fn(T, FetchTrace) -> FlowClaimResult,
    ) {
        for (place, item) in leased {
            if let Some((reservation, trace)) = self.held.get_mut(place).and_then(Option::take) {
                reservation.serve(result(item, trace));
            }
        }
    }
}

pub(super) fn turn_result(turn: TurnItem, trace: FetchTrace) -> FlowClaimResult {
    FlowClaimResult::Turn(Box::new(turn), trace)
}

pub(super) fn work_result(work: WorkItem, trace: FetchTrace) -> FlowClaimResult {
    FlowClaimResult::Work(Box::new(work), trace)
}
