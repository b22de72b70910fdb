//! The rules of `docs/reference/flow.md`, each by name.

use crate::fixture::Fixture;

wakeline_testkit::flow_conformance_suite!(Fixture::open().await);
