//! Ends of attempts on both sides.

use std::time::Duration;

use wakeline_core::DeliveryToken;
use wakeline_store::hook::{
    DeliveryVerdict, HookStore as _, SettleDelivery, SettledDelivery, SettledState,
};

use super::compare::{Comparison, same};
use super::op::{AttemptVerdict, Ending, HookMail};
use super::side::HookHold;
use super::world::{HookStep, HookWorld, failed};
use crate::hook_conformance::{end, secs};

/// The duration to which leases are extended: longer than any lease lasts.
const EXTENSION: Duration = Duration::from_secs(60);

impl HookWorld<'_> {
    /// Ends all attempts of a group in the same way.
    pub(super) async fn settle(&mut self, hold: usize, ending: Ending) -> HookStep {
        let Some(hold) = self.hold(hold) else { return Ok(None) };
        let verdict = match ending.verdict {
            AttemptVerdict::Delivered => DeliveryVerdict::Delivered,
            AttemptVerdict::RetryMs(ms) => DeliveryVerdict::Retry(Duration::from_millis(ms)),
            AttemptVerdict::Failed => DeliveryVerdict::Failed,
        };
        let mail = HookMail {
            odd_type: true,
            channel: false,
            event_id: None,
            key: None,
            only: None,
            short: false,
        };
        let announce: Vec<_> =
            (ending.announce.then(|| self.names.message(&mail))).into_iter().collect();
        let announced: Vec<_> = announce.iter().map(|message| message.id).collect();
        let ends = |side: fn(&(DeliveryToken, DeliveryToken)) -> DeliveryToken| {
            let tokens = hold.tokens.iter().map(side).enumerate();
            let one = |(n, token)| SettleDelivery {
                sample: ending.sample,
                throttle: ending.throttle.map(secs),
                gone: ending.gone,
                announce: if n == 0 { announce.clone() } else { Vec::new() },
                ..end(token, verdict)
            };
            tokens.map(one).collect::<Vec<_>>()
        };
        let oracle = self.oracle.settle_deliveries(ends(|pair| pair.0)).await.map_err(failed)?;
        let store = self.store.settle_deliveries(ends(|pair| pair.1)).await.map_err(failed)?;
        let plain = |settled: &[SettledDelivery]| -> Vec<_> {
            settled.iter().map(|one| (one.state, one.disabled, one.opened)).collect()
        };
        same("settled", plain(&oracle), plain(&store))?;
        if oracle.first().is_some_and(|one| one.state != SettledState::Stale) {
            self.messages.extend(announced);
        }
        Ok(Some(store.into_iter().flat_map(|one| one.changes).collect()))
    }

    pub(super) async fn release(&mut self, hold: usize) -> HookStep {
        let Some(hold) = self.hold(hold) else { return Ok(None) };
        let (oracle, store) = hold.tokens.iter().copied().unzip();
        self.oracle.release_deliveries(oracle).await.map_err(failed)?;
        Ok(Some(self.store.release_deliveries(store).await.map_err(failed)?))
    }

    pub(super) async fn extend(&mut self, hold: usize) -> Comparison {
        let Some(hold) = self.hold(hold) else { return Ok(()) };
        let Some(n) = self.names.endpoints.iter().position(|id| *id == hold.endpoint) else {
            return Ok(());
        };
        if self.is_deleted(n).await? {
            return Ok(());
        }
        let (oracle, store): (Vec<_>, Vec<_>) = hold.tokens.iter().copied().unzip();
        let oracle = self.oracle.extend_deliveries(oracle, EXTENSION).await.map_err(failed)?;
        let store = self.store.extend_deliveries(store, EXTENSION).await.map_err(failed)?;
        same("extended", oracle, store)
    }

    /// Returns whether all leases of a group are unexpired. The oracle answers by extending them,
    /// and the store extends them too, so that both have the same end.
    pub(super) async fn all_live(&mut self, hold: &HookHold) -> Result<bool, String> {
        let (oracle, store): (Vec<_>, Vec<_>) = hold.tokens.iter().copied().unzip();
        let oracle = self.oracle.extend_deliveries(oracle, EXTENSION).await.map_err(failed)?;
        let store = self.store.extend_deliveries(store, EXTENSION).await.map_err(failed)?;
        same("live leases", &oracle, &store)?;
        Ok(oracle.iter().all(|live| *live))
    }
}
