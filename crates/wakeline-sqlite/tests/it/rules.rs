//! The rules of `docs/reference/queue.md`, each by name.

use crate::fixture::Fixture;

wakeline_testkit::conformance_suite!(Fixture::open().await);
