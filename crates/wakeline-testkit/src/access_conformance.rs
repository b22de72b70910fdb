//! The rules of API keys and of the audit log, one function each, for every store.
//!
//! # Where it sits
//! A store's tests call `wakeline_testkit::access_suite!(fixture)`, which makes one test of every
//! rule here, each on a new fixture.
//!
//! # Invariants
//! * A rule depends on the store's test clock alone: it never sleeps and never measures time.
//! * A rule creates everything that it needs; stores are empty.

mod audit;
mod keys;

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use wakeline_core::Scope;
use wakeline_store::{AuditAction, AuditEntry, AuditFilter, Backend, NewKey};

pub use audit::*;
pub use keys::*;

/// A store whose clock is moved by tests.
#[async_trait]
pub trait AccessUnderTest: Send + Sync {
    /// The store, which is empty.
    fn whole(&self) -> Arc<dyn Backend>;

    /// Advances the store's clock. It stands still otherwise.
    async fn pass(&self, by: Duration);

    /// Cleans up after a test, also after one that failed.
    async fn end(&self) {}
}

/// A store under test.
pub struct AccessBench {
    fixture: Box<dyn AccessUnderTest>,
    /// The store.
    pub store: Arc<dyn Backend>,
}

impl AccessBench {
    /// A new key.
    pub fn new_key(id: &str, name: &str) -> NewKey {
        let scope: Scope = "queue:read:*".parse().expect("a scope");
        let digest = [id.len() as u8; 32];
        NewKey { id: id.into(), name: name.into(), scopes: vec![scope], digest, valid_for: None }
    }

    /// Advances the clock by seconds.
    pub async fn pass(&self, secs: u64) {
        self.fixture.pass(Duration::from_secs(secs)).await;
    }

    /// Runs a call as an audited action.
    pub async fn doing<F: Future>(&self, action: &'static str, call: F) -> F::Output {
        let (target, detail) = ("it".to_owned(), "how".to_owned());
        AuditAction { actor: "key:tester".to_owned(), action, target, detail }.during(call).await
    }

    /// Lists the entries of the audit log, newest first.
    pub async fn entries(&self) -> Vec<AuditEntry> {
        let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
        self.store.audit(filter).await.expect("the audit is listed")
    }

    /// Lists the actions in the audit log, oldest first.
    pub async fn actions(&self) -> Vec<String> {
        let mut acts: Vec<_> = self.entries().await.into_iter().map(|entry| entry.action).collect();
        acts.reverse();
        acts
    }
}

/// Runs one rule against a store, and cleans up afterwards whether it passes or fails.
pub async fn hold_to(
    fixture: impl AccessUnderTest + 'static,
    rule: impl AsyncFnOnce(&AccessBench),
) {
    let bench = AccessBench { store: fixture.whole(), fixture: Box::new(fixture) };
    let outcome = AssertUnwindSafe(rule(&bench)).catch_unwind().await;
    bench.fixture.end().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// Makes a test of every rule. The expression makes a new [`AccessUnderTest`]; it may await.
#[macro_export]
macro_rules! access_suite {
    ($fixture:expr) => {
        $crate::access_rules!($fixture;
            a_key_shows_what_it_was_created_with,
            a_name_is_free_again_once_its_key_is_revoked,
            an_id_is_used_once,
            a_key_is_revoked_once_and_for_good,
            a_rotated_key_keeps_its_former_secret_for_a_while,
            a_revoked_key_is_not_rotated,
            use_is_noted_once_a_minute,
            queues_of_partitions_are_found,
            names_of_groups_are_found,
            actions_on_keys_are_recorded,
            actions_on_queues_are_recorded,
            actions_on_orchestrations_are_recorded,
            actions_on_webhooks_are_recorded,
            calls_without_an_audit_action_are_not_recorded,
            the_audit_is_listed_by_what_and_who_in_pages,
            old_entries_go_first_and_only_so_many,
        );
    };
}

/// Makes a test of each of the given rules.
#[doc(hidden)]
#[macro_export]
macro_rules! access_rules {
    ($fixture:expr; $($rule:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $rule() {
                let fixture = $fixture;
                $crate::access_conformance::hold_to(
                    fixture,
                    $crate::access_conformance::$rule,
                )
                .await;
            }
        )*
    };
}
