//! Stores of webhooks that break one rule each: the differential run must catch every one.

mod reader;
mod sinner;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_store::Store;
use wakeline_store::hook::HookBackend;
use wakeline_testkit::conformance::StoreUnderTest;
use wakeline_testkit::hook_conformance::HookUnderTest;
use wakeline_testkit::oracle::MemoryStore;

use sinner::Sinner;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sin {
    /// Commits tell nobody.
    TellsNobody,
    /// Empty claims see nothing coming.
    SeesNothingComing,
    /// Empty claims always say that there is something.
    AlwaysSeesSomething,
    /// Sweeps see nothing coming.
    SweepsNothing,
    /// Claims never give anything.
    GivesNothing,
    /// What is kept for first attempts is for all.
    KeepsNothingForFirstOnes,
    /// Senders that come along are never served.
    ServesNobodyAtBirth,
    /// Every attempt is said to be the first.
    ForgetsAttempts,
    /// Ends of expired attempts are believed.
    BelievesZombies,
    /// Retries are due at once.
    RetriesAtOnce,
    /// Failed ones are tried again.
    NeverGivesUp,
    /// Breakers are never told.
    ForgetsSamples,
    /// Throttles are not kept.
    ForgetsThrottles,
    /// Gone endpoints stay on.
    IgnoresGone,
    /// Announcements are lost.
    LosesAnnouncements,
    /// Giving back ends the delivery.
    ReleasesAsFailed,
    /// Extensions do not last.
    ExtendsNothing,
    /// Idempotency keys are not looked at.
    ForgetsKeys,
    /// Own ids of messages are not looked at.
    ForgetsEventIds,
    /// Channels are not looked at.
    IgnoresChannels,
    /// A named endpoint is one of many.
    IgnoresOnly,
    /// Switching off does nothing.
    NeverDisables,
    /// Old secrets sign for ever longer.
    DoublesGrace,
    /// Resending does nothing.
    ResendsNothing,
    /// Cancelling does nothing.
    CancelsNothing,
    /// Recovering sends once more only.
    RecoversOnce,
    /// Payloads stay.
    KeepsPayloads,
    /// The log has no answers.
    LogsNoStatus,
}

struct Mutant(Arc<Sinner>);

#[async_trait]
impl StoreUnderTest for Mutant {
    fn store(&self) -> Arc<dyn Store> {
        self.0.inner.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.inner.advance(by);
    }
}

#[async_trait]
impl HookUnderTest for Mutant {
    fn hook(&self) -> Arc<dyn HookBackend> {
        self.0.clone()
    }
}

fn is_caught(sin: Sin) {
    let run = || {
        wakeline_testkit::hook_differential::run_at_least(20_000, async || {
            Mutant(Arc::new(Sinner { inner: Arc::new(MemoryStore::new()), sin }))
        });
    };
    let caught = catch_unwind(AssertUnwindSafe(run)).expect_err("a broken store must be caught");
    let text = caught.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("WAKELINE_SEED="), "{sin:?} is caught as: {text}");
    assert!(text.contains("smallest sequence"), "{sin:?} is caught as: {text}");
}

/// One test per sin, so that they run side by side.
macro_rules! each_is_caught {
    ($($name:ident: $sin:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(Sin::$sin);
            }
        )*
    };
}

each_is_caught! {
    a_store_that_tells_nobody_is_caught: TellsNobody,
    a_store_that_sees_nothing_coming_is_caught: SeesNothingComing,
    a_store_that_always_sees_something_is_caught: AlwaysSeesSomething,
    a_store_that_sweeps_nothing_is_caught: SweepsNothing,
    a_store_that_gives_nothing_is_caught: GivesNothing,
    a_store_that_keeps_nothing_for_first_ones_is_caught: KeepsNothingForFirstOnes,
    a_store_that_serves_nobody_at_birth_is_caught: ServesNobodyAtBirth,
    a_store_that_forgets_attempts_is_caught: ForgetsAttempts,
    a_store_that_believes_zombies_is_caught: BelievesZombies,
    a_store_that_retries_at_once_is_caught: RetriesAtOnce,
    a_store_that_never_gives_up_is_caught: NeverGivesUp,
    a_store_that_forgets_samples_is_caught: ForgetsSamples,
    a_store_that_forgets_throttles_is_caught: ForgetsThrottles,
    a_store_that_ignores_gone_is_caught: IgnoresGone,
    a_store_that_loses_announcements_is_caught: LosesAnnouncements,
    a_store_that_releases_as_failed_is_caught: ReleasesAsFailed,
    a_store_that_extends_nothing_is_caught: ExtendsNothing,
    a_store_that_forgets_keys_is_caught: ForgetsKeys,
    a_store_that_forgets_event_ids_is_caught: ForgetsEventIds,
    a_store_that_ignores_channels_is_caught: IgnoresChannels,
    a_store_that_ignores_only_is_caught: IgnoresOnly,
    a_store_that_never_disables_is_caught: NeverDisables,
    a_store_that_doubles_grace_is_caught: DoublesGrace,
    a_store_that_resends_nothing_is_caught: ResendsNothing,
    a_store_that_cancels_nothing_is_caught: CancelsNothing,
    a_store_that_recovers_once_is_caught: RecoversOnce,
    a_store_that_keeps_payloads_is_caught: KeepsPayloads,
    a_store_that_logs_no_status_is_caught: LogsNoStatus,
}
