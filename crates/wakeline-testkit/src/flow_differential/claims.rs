//! Claims, and leases that are born with a write, on both sides.
//!
//! Which of several lanes that are due goes first is left open here: the oracle takes those that
//! the store took, if they can be taken, and then nothing may be left that a request could have.

use std::time::Duration;

use wakeline_core::{Capabilities, FlowLine, InstanceId};
use wakeline_store::flow::{
    FlowStore as _, TurnClaim, TurnItem, TurnRequest, WorkClaim, WorkItem, WorkKey, WorkRequest,
};

use super::compare::{Same, same, same_next_due};
use super::op::{Asks, Line};
use super::side::{Leased, filter, plain_work, session_claim, work_line};
use super::world::{World, failed, worker};

/// What waited before a write.
pub(super) struct Waiting {
    /// Which of the requests are left alone because older turns wait.
    behind: Vec<bool>,
    /// The lanes that could be claimed.
    lanes: Vec<InstanceId>,
}

impl World<'_> {
    pub(super) async fn claim_turns(
        &mut self,
        line: Line,
        requests: usize,
        lease: Duration,
    ) -> Same {
        let capabilities = self.names.capabilities(line);
        let requests: Vec<_> = (0..requests)
            .map(|_| TurnRequest {
                key: uuid::Uuid::new_v4(),
                lease,
                capabilities: capabilities.clone(),
            })
            .collect();
        // Every other size of line, so that both kinds of claims come up.
        let further = requests.len() % 2 == 0;
        let (line, asks) = (capabilities.clone(), requests.clone());
        let claim = TurnClaim { capabilities: line, requests: asks, further };
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

    /// Lets the oracle take the turn that the store gave.
    fn follow_turn(&mut self, request: &TurnRequest, turn: &TurnItem) -> Same {
        match self.oracle.claim_turn_of(&turn.instance, request) {
            Some(oracle) => self.same_turn(&oracle, turn, &request.capabilities),
            None => Err(format!("the store gives {turn:?}, which cannot be taken")),
        }
    }

    async fn turns_due(&self, line: &Capabilities) -> Result<Option<Duration>, String> {
        let lines = vec![FlowLine::Turns(line.clone())];
        Ok(self.oracle.sweep_flow(lines).await.map_err(failed)?.remove(0))
    }

    /// What waits before a write.
    pub(super) fn waiting(&self, requests: &[TurnRequest]) -> Waiting {
        let any = |request: &TurnRequest| !self.oracle.claimable(&request.capabilities).is_empty();
        Waiting {
            behind: requests.iter().map(any).collect(),
            lanes: self.oracle.claimable(&Capabilities::Any),
        }
    }

    /// Lets the oracle, which has written the same, lease what the store leased to requests.
    pub(super) fn follow_born_turns(
        &mut self,
        requests: &[TurnRequest],
        waiting: &Waiting,
        turns: &[(usize, TurnItem)],
    ) -> Same {
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
                    // A lane that waited for others may have come to need what this one has: it
                    // is left open whether that is older.
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

    /// A turn that is held is claimed again with its key.
    pub(super) async fn claim_again(&mut self, hold: usize) -> Same {
        let Some(hold) = self.turn_hold(hold) else { return Ok(()) };
        let Leased::Turn(turn, line) = &hold.what else { return Ok(()) };
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
        let (mut oracle, mut store) = (super::side::Skew(0).turn(oracle), self.skew.turn(store));
        // How long the lease lasts may be what was asked for or what is left.
        (oracle.lease_for, store.lease_for) = (Duration::ZERO, Duration::ZERO);
        same("turn claimed again", oracle, store)
    }

    pub(super) async fn claim_work(
        &mut self,
        asks: Asks,
        requests: usize,
        lease: Duration,
    ) -> Same {
        let claim = WorkClaim {
            filter: filter(asks),
            session: session_claim(asks),
            requests: (0..requests).map(|_| worker(asks, lease)).collect(),
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
        same_next_due(&format!("{:?}", work_line(asks)), oracle.next_due, store.next_due)
    }

    /// Lets the oracle lease the fresh work that the store leased to requests.
    pub(super) async fn follow_born_work(
        &mut self,
        requests: &[WorkRequest],
        fresh: &[(InstanceId, WorkKey)],
        born: &[(usize, WorkItem)],
    ) -> Same {
        if let Some((n, _)) = born.iter().find(|(n, _)| *n >= requests.len()) {
            return Err(format!("request {n} was served, of {}", requests.len()));
        }
        for (n, request) in requests.iter().enumerate() {
            let owner = request.session.as_ref().map(|session| &session.owner);
            let first = self.oracle.first_work(&request.filter, owner);
            let expected = first.filter(|first| fresh.contains(first));
            let served = born.iter().find(|(served, _)| *served == n).map(|(_, item)| item);
            let got = served.map(|item| (item.instance.clone(), item.key));
            same(&format!("work born for request {n}"), expected, got)?;
            let Some(item) = served else { continue };
            let claim = WorkClaim {
                filter: request.filter.clone(),
                session: request.session.clone(),
                requests: vec![request.clone()],
                further: false,
            };
            let claimed = self.oracle.claim_work(vec![claim]).await.map_err(failed)?.remove(0);
            let oracle = claimed.work[0].as_ref().ok_or("the first work can be claimed")?;
            same("work born", plain_work(oracle), plain_work(item))?;
            self.remember_work(oracle, item);
        }
        Ok(())
    }
}
