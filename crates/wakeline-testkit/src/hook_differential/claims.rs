//! Messages and claims on both sides.

use std::collections::BTreeMap;
use std::time::Duration;

use wakeline_core::{AttemptId, EndpointId, HookLine};
use wakeline_store::hook::{
    DeliveryClaim, DeliveryGroup, DeliveryItem, DeliveryRequest, EmitOutcome, HookStore as _,
    Trigger,
};

use super::compare::{Comparison, is_late, same};
use super::op::{HookMail, RequestSpec};
use super::side::{HookHold, HookSkew, head, requests};
use super::world::{HookStep, HookWorld, failed};

/// Duration of leases that are made on insert.
const LEASE_ON_INSERT: Duration = Duration::from_secs(20);

/// The attempts that requests have left after the store served them.
struct Left {
    general: usize,
    fresh_only: usize,
}

fn is_fresh(item: &DeliveryItem) -> bool {
    item.attempt_no == 1 && item.trigger == Trigger::Scheduled
}

/// Counts the attempts that a request has left; an error if it was given more than it can take.
fn left_of(request: &DeliveryRequest, groups: &[DeliveryGroup]) -> Result<Left, String> {
    let items: Vec<_> = groups.iter().flat_map(|group| &group.items).collect();
    let fresh = items.iter().filter(|item| is_fresh(item)).count();
    let kept = usize::try_from(request.fresh_only).expect("few");
    let general = request.attempts.len() - kept;
    let others = items.len() - fresh;
    if others > general || items.len() > request.attempts.len() {
        return Err(format!("a request {request:?} was given {groups:?}"));
    }
    let own = fresh.saturating_sub(general - others);
    let general = general - others - fresh.min(general - others);
    Ok(Left { general, fresh_only: kept - own })
}

impl HookWorld<'_> {
    pub(super) async fn emit(&mut self, mail: &HookMail, wanted: &[RequestSpec]) -> HookStep {
        // The rules leave open whether a new delivery is leased on insert past one whose lease
        // expired.
        let wanted = if self.oracle.is_blurred(None) { &[] } else { wanted };
        let (new, requests) = (self.names.message(mail), requests(wanted, LEASE_ON_INSERT));
        let id = new.id;
        let oracle = self.oracle.emit(new.clone(), Vec::new()).await.map_err(failed)?;
        let store = self.store.emit(new, requests.clone()).await.map_err(failed)?;
        let plain = |skew: HookSkew, outcome: EmitOutcome| match outcome {
            EmitOutcome::Stored(message, n) => EmitOutcome::Stored(skew.message(message), n),
            EmitOutcome::Repeated(message) => EmitOutcome::Repeated(skew.message(message)),
            EmitOutcome::Taken(message) => EmitOutcome::Taken(skew.message(message)),
            other => other,
        };
        let is_stored = matches!(oracle.outcome, EmitOutcome::Stored(..));
        same("emit", plain(HookSkew(0), oracle.outcome), plain(self.skew, store.outcome))?;
        if !is_stored {
            same("leases of what was not stored", 0, store.leased.len())?;
            return Ok(Some(store.changes));
        }
        self.messages.push(id);
        let mut left = requests.iter().map(|request| request.attempts.len()).sum::<usize>();
        for (n, groups) in &store.leased {
            let request = requests.get(*n).ok_or("a request was served that was not there")?;
            left_of(request, groups)?;
            for group in groups {
                self.follow(request, group, &[]).await?;
                left -= group.items.len();
            }
        }
        let must = self.oracle.must_be_leased_on_insert(id);
        if left > 0 && !must.is_empty() {
            return Err(format!(
                "{must:?} have a new delivery not leased on insert: {left} attempts are left"
            ));
        }
        Ok(Some(store.changes))
    }

    /// Lets the oracle lease what the store leased; `spare` are ids that the store did not use.
    async fn follow(
        &mut self,
        request: &DeliveryRequest,
        group: &DeliveryGroup,
        spare: &[AttemptId],
    ) -> Comparison {
        let (endpoint, message) = head(group).ok_or("the store gives an empty group")?;
        let mut attempts: Vec<_> = group.items.iter().map(|item| item.token.attempt).collect();
        if let Some(unknown) = attempts.iter().find(|id| !request.attempts.contains(id)) {
            return Err(format!("{unknown} was not in the request"));
        }
        attempts.extend(spare);
        let exact = DeliveryRequest { attempts, fresh_only: 0, lease: request.lease };
        let all = u32::try_from(exact.attempts.len()).expect("few");
        let fresh = DeliveryRequest { fresh_only: all, ..exact.clone() };
        let mut given = self.oracle.claim_delivery_of(endpoint, message, &exact);
        if given.is_none() && request.fresh_only > 0 {
            given = self.oracle.claim_delivery_of(endpoint, message, &fresh);
        }
        let given = given.ok_or_else(|| format!("the rules do not give {group:?} now"))?;
        same("group", HookSkew(0).group(&given), self.skew.group(group))?;
        let tokens = given.items.iter().zip(&group.items);
        let tokens = tokens.map(|(oracle, store)| (oracle.token, store.token)).collect();
        self.remember(HookHold { endpoint, tokens });
        Ok(())
    }

    pub(super) async fn claim(
        &mut self,
        line: HookLine,
        wanted: &[RequestSpec],
        lease: Duration,
    ) -> Comparison {
        let requests = requests(wanted, lease);
        // The next due time of a single request is compared whether the request is filled or not.
        let further = requests.len() == 1;
        let claim = DeliveryClaim { further, ..DeliveryClaim::new(line.clone(), requests.clone()) };
        let mut claimed = self.store.claim_deliveries(vec![claim]).await.map_err(failed)?;
        same("number of lines", 1, claimed.len())?;
        let store = claimed.remove(0);
        same("number of requests", requests.len(), store.groups.len())?;
        self.oracle.end_expired_leases(&line);
        let due = self.oracle.claimable_endpoints(&line, false);
        let general: usize = requests
            .iter()
            .map(|request| request.attempts.len() - to_usize(request.fresh_only))
            .sum();
        let mut left = Left { general: 0, fresh_only: 0 };
        for (request, groups) in requests.iter().zip(&store.groups) {
            let rest = left_of(request, groups)?;
            let spare = spare_ids(request, groups, rest.general);
            for group in groups {
                self.follow(request, group, &spare).await?;
            }
            left.general += rest.general;
            left.fresh_only += rest.fresh_only;
        }
        let groups: Vec<&DeliveryGroup> = store.groups.iter().flatten().collect();
        if groups.is_empty() && general > 0 && !due.is_empty() {
            return Err(format!("{due:?} have something, but nothing is given"));
        }
        if requests.iter().all(|request| request.fresh_only == 0) {
            shares_are_fair(&groups, general, due.len())?;
        }
        self.next_due_is_right(&line, further, &left, store.next_due)
    }

    fn next_due_is_right(
        &self,
        line: &HookLine,
        further: bool,
        left: &Left,
        store: Option<Duration>,
    ) -> Comparison {
        let is_filled = left.general + left.fresh_only == 0;
        if is_filled && !further {
            return Ok(());
        }
        let used_up = left.general == 0;
        let fresh_only = if further { *line == HookLine::PushFresh } else { used_up };
        let oracle = self.oracle.line_due_in(line, fresh_only, true);
        // If its own slots are used up, the claim did not examine everything that is due.
        let looked = !further || !used_up;
        let is_idle = looked && store == Some(Duration::ZERO) && oracle != store;
        if is_late(oracle, store) || is_idle {
            return Err(format!("{line:?} is next due in {oracle:?}, the store says {store:?}"));
        }
        Ok(())
    }

    /// Claims again with the ids of a group in flight.
    pub(super) async fn claim_again(&mut self, hold: usize) -> Comparison {
        let Some(hold) = self.hold(hold) else { return Ok(()) };
        let Some(n) = self.names.endpoints.iter().position(|id| *id == hold.endpoint) else {
            return Ok(());
        };
        if self.is_off(n).await? {
            return Ok(());
        }
        let line = match n {
            super::op::PULLED => HookLine::Pull(hold.endpoint),
            _ => HookLine::Push,
        };
        let attempts: Vec<AttemptId> = hold.tokens.iter().map(|(token, _)| token.attempt).collect();
        let request = DeliveryRequest { attempts, fresh_only: 0, lease: Some(LEASE_ON_INSERT) };
        let probe = DeliveryClaim::new(line.clone(), vec![request]);
        self.oracle.end_expired_leases(&line);
        if !self.all_live(&hold).await? {
            return Ok(());
        }
        let store = self.store.claim_deliveries(vec![probe]).await.map_err(failed)?.remove(0);
        let mut got: Vec<_> = (store.groups.iter().flatten())
            .flat_map(|group| &group.items)
            .map(|item| (item.token.delivery, item.token.attempt))
            .collect();
        let held = hold.tokens.iter().map(|(_, token)| (token.delivery, token.attempt));
        let mut held: Vec<_> = held.collect();
        held.sort_unstable();
        got.sort_unstable();
        same("deliveries claimed again", held, got)
    }
}

fn to_usize(n: u32) -> usize {
    usize::try_from(n).expect("few")
}

/// Returns the ids for any attempt that the store did not use: groups could have been larger.
fn spare_ids(
    request: &DeliveryRequest,
    groups: &[DeliveryGroup],
    general: usize,
) -> Vec<AttemptId> {
    let used = |id: &AttemptId| {
        groups.iter().flat_map(|group| &group.items).any(|item| item.token.attempt == *id)
    };
    request.attempts.iter().filter(|id| !used(id)).take(general).copied().collect()
}

/// Rule 4: no endpoint gets more than its share.
fn shares_are_fair(groups: &[&DeliveryGroup], attempts: usize, endpoints: usize) -> Comparison {
    let mut order: Vec<EndpointId> = Vec::new();
    let mut given: BTreeMap<EndpointId, (usize, usize)> = BTreeMap::new();
    for group in groups {
        let endpoint = group.target.endpoint;
        if !order.contains(&endpoint) {
            order.push(endpoint);
        }
        let counts = given.entry(endpoint).or_default();
        counts.0 += 1;
        counts.1 += group.items.len();
    }
    let mut left = attempts;
    for (n, endpoint) in order.iter().enumerate() {
        let (groups, items) = given[endpoint];
        let share = left.div_ceil(endpoints.saturating_sub(n).max(1));
        if groups > share {
            return Err(format!("{endpoint} got {groups} of {attempts}, its share is {share}"));
        }
        left -= items;
    }
    Ok(())
}
