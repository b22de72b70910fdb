//! A point in time by the database's clock.

/// Microseconds since 1970 by the database's clock. The application never creates one from its own
/// clock to compare with it: it only shows and stores what the database returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the time that is later by a duration.
    pub fn plus(self, span: std::time::Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// Returns the nearest time that every store can represent: from 1970 to the year 9999.
    pub fn storable(self) -> Self {
        const YEAR_10000: i64 = 253_402_300_800_000_000;
        Self(self.0.clamp(0, YEAR_10000 - 1))
    }

    /// Returns the time from `self` until `later`, rounded up to a whole millisecond so that a
    /// timer never fires early; zero if `later` has passed.
    pub fn until(self, later: Self) -> std::time::Duration {
        let micros = u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0);
        std::time::Duration::from_millis(micros.div_ceil(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn waiting_rounds_up_and_never_goes_backwards() {
        assert_eq!(Timestamp(0).until(Timestamp(1)), Duration::from_millis(1));
        assert_eq!(Timestamp(0).until(Timestamp(2000)), Duration::from_millis(2));
        assert_eq!(Timestamp(5).until(Timestamp(1)), Duration::ZERO);
        assert_eq!(Timestamp(7).plus(Duration::from_millis(1)), Timestamp(1007));
    }
}
