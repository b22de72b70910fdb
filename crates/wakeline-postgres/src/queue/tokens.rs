//! Tokens under which this node may hold leases already.
//!
//! # Where it sits
//! A claim that repeats a token after an unknown outcome must find what its first try leased.
//! That look-up reads all leases of the line, so it is made only for tokens that are in here.
//!
//! # Invariants
//! * A token is in here if its claim was granted or failed, until twice [`GENERATION_LEN`] others
//!   have come after it: far longer than anybody repeats a claim.

use std::collections::HashSet;

use parking_lot::Mutex;
use uuid::Uuid;
use wakeline_core::LeaseToken;

const GENERATION_LEN: usize = 20_000;

/// Tokens of claims that were granted, or whose outcome is unknown.
#[derive(Default)]
pub(crate) struct GrantedTokens {
    /// The current generation and the one before it.
    generations: Mutex<(HashSet<Uuid>, HashSet<Uuid>)>,
}

impl GrantedTokens {
    /// Remembers tokens.
    pub(crate) fn remember(&self, tokens: impl Iterator<Item = LeaseToken>) {
        let mut generations = self.generations.lock();
        generations.0.extend(tokens.map(|token| token.0));
        if generations.0.len() > GENERATION_LEN {
            generations.1 = std::mem::take(&mut generations.0);
        }
    }

    /// Whether a lease may be held under a token.
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
        let tokens = GrantedTokens::default();
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
