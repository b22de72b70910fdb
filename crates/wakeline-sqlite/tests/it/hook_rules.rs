//! The rules of `docs/reference/hook.md`, each by name.

use crate::fixture::Fixture;

wakeline_testkit::hook_conformance_suite!(Fixture::open().await);
