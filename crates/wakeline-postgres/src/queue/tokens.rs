//! The tokens under which this node may already hold leases.
//!
//! # Where it sits
//! A claim that repeats a token after an unknown outcome must find what its first attempt leased.
//! That lookup reads all leases of the line, so it is made only for the tokens that are recorded
//! here.
//!
//! # Invariants
//! * The token of a claim that succeeded or failed is kept until at least [`GENERATION_LEN`] others
//!   have followed it, which is far longer than a claim is repeated.

use std::collections::HashSet;

use parking_lot::Mutex;
use uuid::Uuid;
use wakeline_core::LeaseToken;

const GENERATION_LEN: usize = 20_000;

/// The tokens of claims that succeeded, or whose outcome is unknown.
#[derive(Default)]
pub(crate) struct ClaimedTokens {
    /// The current generation and the one before it.
    generations: Mutex<(HashSet<Uuid>, HashSet<Uuid>)>,
}

impl ClaimedTokens {
    /// Records tokens.
    pub(crate) fn remember(&self, tokens: impl Iterator<Item = LeaseToken>) {
        let mut generations = self.generations.lock();
        generations.0.extend(tokens.map(|token| token.0));
        if generations.0.len() > GENERATION_LEN {
            generations.1 = std::mem::take(&mut generations.0);
        }
    }

    /// Returns whether a lease may be held under a token.
    pub(crate) fn contains(&self, token: LeaseToken) -> bool {
        let generations = self.generations.lock();
        generations.0.contains(&token.0) || generations.1.contains(&token.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_remembered_for_a_generation_at_least() {
        let tokens = ClaimedTokens::default();
        let first = LeaseToken::generate();
        tokens.remember(std::iter::once(first));
        for _ in 0..GENERATION_LEN {
            tokens.remember(std::iter::once(LeaseToken::generate()));
        }
        assert!(tokens.contains(first));
        assert!(!tokens.contains(LeaseToken::generate()));
        for _ in 0..=GENERATION_LEN {
            tokens.remember(std::iter::once(LeaseToken::generate()));
        }
        assert!(!tokens.contains(first));
    }
}
