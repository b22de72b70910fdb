//! Mutants of the webhook store: each breaks one rule, and the differential run must detect it.

mod mutant;
mod reader;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_store::Store;
use wakeline_store::hook::HookBackend;
use wakeline_testkit::conformance::StoreUnderTest;
use wakeline_testkit::hook_conformance::HookUnderTest;
use wakeline_testkit::oracle::MemoryStore;

use mutant::MutantHookStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookMutation {
    /// Emits report no changes, so waiters are not notified.
    NotifiesNoWaiter,
    /// Claims never report a next due time.
    ReportsNoNextDue,
    /// Claims always report that something is due now.
    AlwaysReportsDueNow,
    /// Sweeps report that no line has anything due.
    FindsNothingInSweeps,
    /// Claims return no delivery.
    ClaimsNothing,
    /// The slots reserved for first attempts are used for all attempts.
    ReservesNothingForFirstAttempts,
    /// An emit leases no new delivery to the waiting sender that calls it.
    LeasesNothingOnInsert,
    /// Every attempt is reported as the first one.
    ReportsEveryAttemptAsFirst,
    /// Results of attempts whose lease has expired are accepted.
    AcceptsStaleTokens,
    /// Retries are due at once.
    IgnoresRetryDelay,
    /// Deliveries that have failed for good are retried.
    RetriesFailedDeliveries,
    /// Results of attempts do not reach the circuit breaker.
    IgnoresBreakerSamples,
    /// A throttle that an endpoint requested is not stored.
    IgnoresThrottles,
    /// Endpoints that answer that they are gone stay enabled.
    IgnoresGone,
    /// Announcements are lost.
    LosesAnnouncements,
    /// Releasing a delivery fails it.
    ReleasesAsFailed,
    /// Extensions of a lease last one second only.
    IgnoresExtensions,
    /// Idempotency keys are ignored.
    IgnoresKeys,
    /// The callers' own ids of messages are ignored.
    IgnoresEventIds,
    /// Channels of messages are ignored.
    IgnoresChannels,
    /// A message for one named endpoint goes to all endpoints.
    IgnoresNamedEndpoint,
    /// Disabling an endpoint has no effect.
    NeverDisables,
    /// A rotated secret stays valid for twice its grace period.
    DoublesGrace,
    /// Resending has no effect.
    IgnoresResend,
    /// Cancelling has no effect.
    IgnoresCancel,
    /// A recovered delivery gets one attempt instead of a new retry schedule.
    RecoversWithOneAttempt,
    /// Expunged payloads are kept.
    KeepsExpungedPayloads,
    /// Logged attempts have no response status.
    LogsNoStatus,
}

struct MutantFixture(Arc<MutantHookStore>);

#[async_trait]
impl StoreUnderTest for MutantFixture {
    fn store(&self) -> Arc<dyn Store> {
        self.0.inner.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.inner.advance(by);
    }
}

#[async_trait]
impl HookUnderTest for MutantFixture {
    fn hook(&self) -> Arc<dyn HookBackend> {
        self.0.clone()
    }
}

fn is_caught(mutation: HookMutation) {
    let run = || {
        wakeline_testkit::hook_differential::run_at_least(20_000, async || {
            MutantFixture(Arc::new(MutantHookStore {
                inner: Arc::new(MemoryStore::new()),
                mutation,
            }))
        });
    };
    let caught = catch_unwind(AssertUnwindSafe(run)).expect_err("a broken store must be caught");
    let text = caught.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("WAKELINE_SEED="), "{mutation:?} is caught as: {text}");
    assert!(text.contains("smallest sequence"), "{mutation:?} is caught as: {text}");
}

/// One test for each mutation, so that they run in parallel.
macro_rules! each_is_caught {
    ($($name:ident: $mutation:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(HookMutation::$mutation);
            }
        )*
    };
}

each_is_caught! {
    a_store_that_notifies_no_waiter_is_caught: NotifiesNoWaiter,
    a_store_that_reports_no_next_due_is_caught: ReportsNoNextDue,
    a_store_that_always_reports_due_now_is_caught: AlwaysReportsDueNow,
    a_store_that_finds_nothing_in_sweeps_is_caught: FindsNothingInSweeps,
    a_store_that_claims_nothing_is_caught: ClaimsNothing,
    a_store_that_reserves_nothing_for_first_attempts_is_caught: ReservesNothingForFirstAttempts,
    a_store_that_leases_nothing_on_insert_is_caught: LeasesNothingOnInsert,
    a_store_that_reports_every_attempt_as_first_is_caught: ReportsEveryAttemptAsFirst,
    a_store_that_accepts_stale_tokens_is_caught: AcceptsStaleTokens,
    a_store_that_ignores_retry_delay_is_caught: IgnoresRetryDelay,
    a_store_that_retries_failed_deliveries_is_caught: RetriesFailedDeliveries,
    a_store_that_ignores_breaker_samples_is_caught: IgnoresBreakerSamples,
    a_store_that_ignores_throttles_is_caught: IgnoresThrottles,
    a_store_that_ignores_gone_is_caught: IgnoresGone,
    a_store_that_loses_announcements_is_caught: LosesAnnouncements,
    a_store_that_releases_as_failed_is_caught: ReleasesAsFailed,
    a_store_that_ignores_extensions_is_caught: IgnoresExtensions,
    a_store_that_ignores_keys_is_caught: IgnoresKeys,
    a_store_that_ignores_event_ids_is_caught: IgnoresEventIds,
    a_store_that_ignores_channels_is_caught: IgnoresChannels,
    a_store_that_ignores_named_endpoint_is_caught: IgnoresNamedEndpoint,
    a_store_that_never_disables_is_caught: NeverDisables,
    a_store_that_doubles_grace_is_caught: DoublesGrace,
    a_store_that_ignores_resend_is_caught: IgnoresResend,
    a_store_that_ignores_cancel_is_caught: IgnoresCancel,
    a_store_that_recovers_with_one_attempt_is_caught: RecoversWithOneAttempt,
    a_store_that_keeps_expunged_payloads_is_caught: KeepsExpungedPayloads,
    a_store_that_logs_no_status_is_caught: LogsNoStatus,
}
