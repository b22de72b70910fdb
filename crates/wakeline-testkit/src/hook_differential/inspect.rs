//! Comparing everything that can be read.

use std::collections::BTreeMap;

use wakeline_core::{AttemptId, EndpointRef, HookMessageId};
use wakeline_store::hook::{
    Attempt, AttemptFilter, AttemptOutcome, Delivery, DeliveryState, HookEndpoints as _,
    HookMessageFilter, HookReader as _,
};

use super::compare::{Comparison, same};
use super::op::ENDPOINTS;
use super::side::HookSkew;
use super::world::{HookWorld, failed};
use crate::hook_conformance::first;

impl HookWorld<'_> {
    pub(super) async fn inspect(&mut self) -> Comparison {
        for line in self.names.lines() {
            self.oracle.end_expired_leases(&line);
        }
        for n in 0..ENDPOINTS {
            self.inspect_endpoint(n).await?;
        }
        let filter = HookMessageFilter { with_content: true, ..HookMessageFilter::default() };
        let app = self.names.app;
        let oracle = self.oracle.messages(app, filter.clone(), first(1_000)).await;
        let store = self.store.messages(app, filter, first(1_000)).await.map_err(failed)?;
        let oracle = oracle.map_err(failed)?.items;
        let store: Vec<_> = store.items.into_iter().map(|one| self.skew.message(one)).collect();
        same("messages", &oracle, &store)?;
        for message in oracle {
            self.inspect_deliveries(message.id).await?;
        }
        Ok(())
    }

    async fn inspect_endpoint(&self, n: usize) -> Comparison {
        let (app, which) = (self.app(), EndpointRef::Id(self.names.endpoints[n]));
        let oracle = self.oracle.endpoint(&app, &which).await.map_err(failed)?;
        let store = self.store.endpoint(&app, &which).await.map_err(failed)?;
        let oracle = oracle.map(|one| HookSkew(0).endpoint(one));
        same("endpoint", oracle, store.map(|one| self.skew.endpoint(one)))
    }

    async fn inspect_deliveries(&self, message: HookMessageId) -> Comparison {
        let app = self.names.app;
        let oracle = self.oracle.deliveries(app, message, first(100)).await.map_err(failed)?;
        let store = self.store.deliveries(app, message, first(100)).await.map_err(failed)?;
        let plain = |skew: HookSkew, items: Vec<Delivery>| -> BTreeMap<_, _> {
            let plain = items.into_iter().map(|one| skew.delivery(one));
            plain.map(|one| (one.endpoint, one)).collect()
        };
        let oracle = plain(HookSkew(0), oracle.items);
        let store = plain(self.skew, store.items);
        let ours: Vec<_> = oracle.keys().collect();
        same("endpoints of a message", ours, store.keys().collect())?;
        let logged = self.attempts(message, true).await?;
        let theirs = self.attempts(message, false).await?;
        for (endpoint, oracle) in &oracle {
            self.same_delivery(oracle, &store[endpoint], &logged).await?;
        }
        self.same_attempts(&logged, &theirs).await
    }

    /// Lists the attempts of a message, of the oracle or of the store.
    async fn attempts(
        &self,
        message: HookMessageId,
        oracle: bool,
    ) -> Result<BTreeMap<AttemptId, Attempt>, String> {
        let (app, page) = (self.names.app, first(1_000));
        let filter = AttemptFilter {
            message: Some(message),
            with_content: true,
            ..AttemptFilter::default()
        };
        let (skew, page) = if oracle {
            (HookSkew(0), self.oracle.attempts(app, filter, page).await)
        } else {
            (self.skew, self.store.attempts(app, filter, page).await)
        };
        let items = page.map_err(failed)?.items.into_iter();
        Ok(items.map(|one| skew.attempt(one)).map(|one| (one.id, one)).collect())
    }

    /// Requires equal deliveries, unless the store has not yet processed an expired lease.
    async fn same_delivery(
        &self,
        oracle: &Delivery,
        store: &Delivery,
        logged: &BTreeMap<AttemptId, Attempt>,
    ) -> Comparison {
        let expired = logged.values().any(|attempt| {
            attempt.endpoint == oracle.endpoint
                && attempt.attempt_no == oracle.attempts
                && attempt.outcome == AttemptOutcome::Unknown
        });
        let is_unseen = expired
            && store.state == DeliveryState::InFlight
            && store.attempts + 1 == oracle.attempts;
        if is_unseen || oracle == store {
            return Ok(());
        }
        let n = self.names.endpoints.iter().position(|id| *id == oracle.endpoint);
        let gone = match n {
            Some(n) => self.is_deleted(n).await?,
            None => true,
        };
        let over = [DeliveryState::InFlight, DeliveryState::Cancelled];
        if gone && over.contains(&oracle.state) && over.contains(&store.state) {
            return Ok(());
        }
        same("delivery", oracle, store)
    }

    /// Requires that all attempts are logged, except expired ones that the store has not yet
    /// processed.
    async fn same_attempts(
        &self,
        oracle: &BTreeMap<AttemptId, Attempt>,
        store: &BTreeMap<AttemptId, Attempt>,
    ) -> Comparison {
        if let Some(more) = store.keys().find(|id| !oracle.contains_key(id)) {
            return Err(format!("the store has an attempt too many: {:?}", store[more]));
        }
        for (id, attempt) in oracle {
            match store.get(id) {
                Some(logged) => same("attempt", attempt, logged)?,
                None => {
                    let is_last = !oracle.values().any(|other| {
                        other.endpoint == attempt.endpoint && other.attempt_no > attempt.attempt_no
                    });
                    let unseen = attempt.outcome == AttemptOutcome::Unknown && is_last;
                    if !unseen {
                        return Err(format!("the store has no attempt {attempt:?}"));
                    }
                }
            }
        }
        Ok(())
    }
}
