//! Random numbers and ids that are the same on replay and add no event to the history.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::OrchestrationContext;

impl OrchestrationContext {
    /// Returns a random UUID.
    #[track_caller]
    pub fn uuid(&self) -> Uuid {
        let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = self.draw();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Returns a random number.
    #[track_caller]
    pub fn random_u64(&self) -> u64 {
        let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = self.draw();
        u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])
    }

    /// Returns a random number in the range from 0 (inclusive) to 1 (exclusive).
    #[track_caller]
    pub fn random_f64(&self) -> f64 {
        (self.random_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random number below `end`, or 0 if `end` is 0.
    #[track_caller]
    pub fn random_below(&self, end: u64) -> u64 {
        let wide = u128::from(self.random_u64()) * u128::from(end);
        u64::try_from(wide >> 64).expect("half of 128 bits")
    }

    #[track_caller]
    fn draw(&self) -> [u8; 32] {
        let drawn = self.shared.with(std::panic::Location::caller(), |state| {
            state.drawn += 1;
            state.drawn
        });
        let facts = &self.shared.facts;
        let mut hash = Sha256::new();
        hash.update(facts.seed.to_le_bytes());
        hash.update(facts.execution.to_le_bytes());
        hash.update(drawn.unwrap_or(0).to_le_bytes());
        hash.finalize().into()
    }
}
