//! The oracle against itself: shows that the comparison lets a right store pass.

use crate::conformance::Oracle;

#[test]
fn random_sequences_agree_with_the_oracle() {
    wakeline_testkit::differential::run(async || Oracle::default());
}
