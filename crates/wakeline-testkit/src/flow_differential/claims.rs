//! Claims, and leases that are made on insert, on both sides.
//!
//! The rules leave open which of several due lanes is served first. The oracle therefore leases
//! those that the store leased, if they can be leased; afterwards none may be left that a request
//! could have got.

use std::time::Duration;

use wakeline_core::{Capabilities, FlowLine, InstanceId};
use wakeline_store::flow::{
    FlowStore as _, TurnClaim, TurnItem, TurnRequest, WorkClaim, WorkItem, WorkKey, WorkRequest,
};

use super::compare::{Comparison, same, same_next_due};
use super::op::{DispatcherSpec, WorkerSpec};
use super::side::{HeldItem, filter, plain_work, session_claim, work_line};
use super::world::{FlowWorld, failed, worker};

/// What waited before a write.
pub(super) struct WaitingBefore {
    /// Whether each request gets nothing on insert because older turns wait.
    behind: Vec<bool>,
    /// The lanes that could be claimed.
    lanes: Vec<InstanceId>,
}

impl FlowWorld<'_> {
    pub(super) async fn claim_turns(
        &mut self,
        line: DispatcherSpec,
        requests: usize,
        lease: Duration,
    ) -> Comparison {
        let capabilities = self.names.capabilities(line);
        let requests: Vec<_> = (0..requests)
            .map(|_| TurnRequest {
                key: uuid::Uuid::new_v4(),
                lease,
                capabilities: capabilities.clone(),
            })
            .collect();
        // This depends on the number of requests, so that both kinds of claims are covered.
        let further = requests.len() % 2 == 0;
        let claim =
            TurnClaim { capabilities: capabilities.clone(), requests: requests.clone(), further };
        let mut claimed = self.store.claim_turns(vec![claim]).await.map_err(failed)?;
        same("number of lines", 1, claimed.len())?;
        let claimed = claimed.remove(0);
        same("number of turns", requests.len(), claimed.turns.len())?;
        let mut went_without = false;
        for (request, turn) in requests.iter().zip(&claimed.turns) {
            match turn {
                Some(turn) if went_without => return Err(format!("{turn:?} was given too late")),
                Some(turn) => self.follow_turn(request, turn)?,
                None => went_without = true,
            }
        }
        let due = self.turns_due(&capabilities).await?;
        if went_without && due == Some(Duration::ZERO) {
            return Err(format!("a turn of {capabilities:?} was left, but {claimed:?}"));
        }
        let due = due.filter(|_| went_without || further);
        same_next_due(&format!("{capabilities:?}"), due, claimed.next_due)
    }

    /// Lets the oracle lease the turn that the store leased.
    fn follow_turn(&mut self, request: &TurnRequest, turn: &TurnItem) -> Comparison {
        match self.oracle.claim_turn_of(&turn.instance, request) {
            Some(oracle) => self.same_turn(&oracle, turn, &request.capabilities),
            None => Err(format!("the store gives {turn:?}, which cannot be taken")),
        }
    }

    async fn turns_due(&self, line: &Capabilities) -> Result<Option<Duration>, String> {
        let lines = vec![FlowLine::Turns(line.clone())];
        Ok(self.oracle.sweep_flow(lines).await.map_err(failed)?.remove(0))
    }

    /// Returns what waits before a write.
    pub(super) fn waiting(&self, requests: &[TurnRequest]) -> WaitingBefore {
        let any = |request: &TurnRequest| !self.oracle.claimable(&request.capabilities).is_empty();
        WaitingBefore {
            behind: requests.iter().map(any).collect(),
            lanes: self.oracle.claimable(&Capabilities::Any),
        }
    }

    /// Lets the oracle, which has applied the same write, lease the turns that the store leased on
    /// insert.
    pub(super) fn follow_leased_turns(
        &mut self,
        requests: &[TurnRequest],
        waiting: &WaitingBefore,
        turns: &[(usize, TurnItem)],
    ) -> Comparison {
        if let Some((n, _)) = turns.iter().find(|(n, _)| *n >= requests.len()) {
            return Err(format!("request {n} was served, of {}", requests.len()));
        }
        for (n, request) in requests.iter().enumerate() {
            match turns.iter().find(|(served, _)| *served == n) {
                Some((_, turn)) if waiting.behind[n] => {
                    return Err(format!("{turn:?} went before older turns"));
                }
                Some((_, turn)) => self.follow_turn(request, turn)?,
                None => {
                    // The write may have given a waiting lane the capability of this dispatcher:
                    // the rules leave open whether that lane counts as older.
                    let claimable = self.oracle.claimable(&request.capabilities);
                    let is_old = |id: &InstanceId| waiting.lanes.contains(id);
                    if !claimable.is_empty() && !claimable.iter().any(is_old) {
                        return Err(format!("request {n} was not served: {request:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Claims a leased turn again with its key.
    pub(super) async fn claim_again(&mut self, hold: usize) -> Comparison {
        let Some(hold) = self.turn_hold(hold) else { return Ok(()) };
        let HeldItem::Turn(turn, line) = &hold.what else { return Ok(()) };
        let span = Duration::ZERO;
        let live = self.oracle.renew(vec![hold.oracle], span).await.map_err(failed)?.remove(0);
        let needed = turn.capability.as_ref();
        let fits = needed.is_some_and(|needed| line.allow(needed));
        if live == wakeline_store::flow::RenewOutcome::Stale || !fits {
            return Ok(());
        }
        let (key, capabilities) = (hold.oracle.key, line.clone());
        let request = TurnRequest { key, lease: Duration::from_secs(30), capabilities };
        let claim = || TurnClaim {
            capabilities: line.clone(),
            requests: vec![request.clone()],
            further: false,
        };
        let oracle = self.oracle.claim_turns(vec![claim()]).await.map_err(failed)?.remove(0);
        let store = self.store.claim_turns(vec![claim()]).await.map_err(failed)?.remove(0);
        let (Some(oracle), Some(store)) = (&oracle.turns[0], &store.turns[0]) else {
            return Err(format!("claimed again: {oracle:?}, the store says {store:?}"));
        };
        same("token", hold.store, store.token)?;
        let (mut oracle, mut store) =
            (super::side::FlowSkew(0).turn(oracle), self.skew.turn(store));
        // The returned duration may be the requested one or the remaining one.
        (oracle.lease_for, store.lease_for) = (Duration::ZERO, Duration::ZERO);
        same("turn claimed again", oracle, store)
    }

    pub(super) async fn claim_work(
        &mut self,
        spec: WorkerSpec,
        requests: usize,
        lease: Duration,
    ) -> Comparison {
        let claim = WorkClaim {
            filter: filter(spec),
            session: session_claim(spec),
            requests: (0..requests).map(|_| worker(spec, lease)).collect(),
            further: requests.is_multiple_of(2),
        };
        let oracle = self.oracle.claim_work(vec![claim.clone()]).await.map_err(failed)?.remove(0);
        let mut claimed = self.store.claim_work(vec![claim]).await.map_err(failed)?;
        same("number of lines", 1, claimed.len())?;
        let store = claimed.remove(0);
        let plain = |work: &[Option<WorkItem>]| -> Vec<_> {
            work.iter().map(|work| work.as_ref().map(plain_work)).collect()
        };
        same("work", plain(&oracle.work), plain(&store.work))?;
        for (oracle, store) in oracle.work.iter().flatten().zip(store.work.iter().flatten()) {
            self.remember_work(oracle, store);
        }
        same_next_due(&format!("{:?}", work_line(spec)), oracle.next_due, store.next_due)
    }

    /// Lets the oracle lease the new work that the store leased on insert.
    pub(super) async fn follow_leased_work(
        &mut self,
        requests: &[WorkRequest],
        fresh: &[(InstanceId, WorkKey)],
        leased: &[(usize, WorkItem)],
    ) -> Comparison {
        if let Some((n, _)) = leased.iter().find(|(n, _)| *n >= requests.len()) {
            return Err(format!("request {n} was served, of {}", requests.len()));
        }
        for (n, request) in requests.iter().enumerate() {
            let owner = request.session.as_ref().map(|session| &session.owner);
            let first = self.oracle.first_work(&request.filter, owner);
            let expected = first.filter(|first| fresh.contains(first));
            let served = leased.iter().find(|(served, _)| *served == n).map(|(_, item)| item);
            let got = served.map(|item| (item.instance.clone(), item.key));
            same(&format!("work leased on insert for request {n}"), expected, got)?;
            let Some(item) = served else { continue };
            let claim = WorkClaim {
                filter: request.filter.clone(),
                session: request.session.clone(),
                requests: vec![request.clone()],
                further: false,
            };
            let claimed = self.oracle.claim_work(vec![claim]).await.map_err(failed)?.remove(0);
            let oracle = claimed.work[0].as_ref().ok_or("the first work can be claimed")?;
            same("work leased on insert", plain_work(oracle), plain_work(item))?;
            self.remember_work(oracle, item);
        }
        Ok(())
    }
}
