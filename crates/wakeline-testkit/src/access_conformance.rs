//! The rules of keys and of the audit, each by name, for every store.
//!
//! # Where it sits
//! A store's tests say `wakeline_testkit::access_suite!(fixture)`, which makes one test of every
//! rule here, each on a fresh fixture.
//!
//! # Invariants
//! * A rule goes by the store's test clock alone: it never sleeps and never measures.
//! * A rule names what it makes by itself; stores are fresh.

mod acts;
mod keys;

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use wakeline_core::Scope;
use wakeline_store::{AuditEntry, AuditFilter, Deed, NewKey, WholeStore};

pub use acts::*;
pub use keys::*;

/// A store with a clock that tests move.
#[async_trait]
pub trait AccessUnderTest: Send + Sync {
    /// The store, empty.
    fn whole(&self) -> Arc<dyn WholeStore>;

    /// Moves the store's clock on. It stands still otherwise.
    async fn pass(&self, by: Duration);

    /// Cleans up after a test, also after one that failed.
    async fn end(&self) {}
}

/// A store under test.
pub struct AccessBench {
    fixture: Box<dyn AccessUnderTest>,
    /// The store.
    pub store: Arc<dyn WholeStore>,
}

impl AccessBench {
    /// A key to make.
    pub fn new_key(id: &str, name: &str) -> NewKey {
        let scope: Scope = "queue:read:*".parse().expect("a scope");
        let digest = [id.len() as u8; 32];
        NewKey { id: id.into(), name: name.into(), scopes: vec![scope], digest, valid_for: None }
    }

    /// Moves the clock on by seconds.
    pub async fn pass(&self, secs: u64) {
        self.fixture.pass(Duration::from_secs(secs)).await;
    }

    /// Runs a call as somebody who does something.
    pub async fn doing<F: Future>(&self, act: &'static str, call: F) -> F::Output {
        let (target, detail) = ("it".to_owned(), "how".to_owned());
        Deed { actor: "key:tester".to_owned(), act, target, detail }.during(call).await
    }

    /// What the audit has, newest first.
    pub async fn entries(&self) -> Vec<AuditEntry> {
        let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
        self.store.audit(filter).await.expect("the audit is listed")
    }

    /// The acts that the audit has, oldest first.
    pub async fn acts(&self) -> Vec<String> {
        let mut acts: Vec<_> = self.entries().await.into_iter().map(|entry| entry.act).collect();
        acts.reverse();
        acts
    }
}

/// Holds a store to one rule, and cleans up afterwards either way.
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

/// Makes a test of every rule. The expression makes a fresh [`AccessUnderTest`]; it may await.
#[macro_export]
macro_rules! access_suite {
    ($fixture:expr) => {
        $crate::access_rules!($fixture;
            a_key_tells_what_it_was_made_with,
            a_name_is_free_again_once_its_key_is_revoked,
            an_id_is_used_once,
            a_key_is_revoked_once_and_for_good,
            a_rotated_key_keeps_its_former_secret_for_a_while,
            a_revoked_key_is_not_rotated,
            use_is_noted_once_a_minute,
            partitions_tell_their_queues,
            groups_tell_their_names,
            acts_on_keys_are_recorded,
            acts_on_queues_are_recorded,
            acts_on_orchestrations_are_recorded,
            acts_on_webhooks_are_recorded,
            what_nobody_is_named_for_is_not_recorded,
            the_audit_is_listed_by_what_and_who_in_pages,
            old_entries_go_first_and_only_so_many,
        );
    };
}

/// Makes tests of rules.
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
