//! Compares the oracle with itself, which shows that the comparison accepts a correct store.

use crate::conformance::Oracle;

#[test]
fn random_sequences_agree_with_the_oracle() {
    wakeline_testkit::differential::run(async || Oracle::default());
}
