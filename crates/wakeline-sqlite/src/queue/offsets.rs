//! Sets of offsets, stored as ranges, for example the unsettled messages of a lease.

use std::fmt;
use std::str::FromStr;

/// A set of offsets. The database stores its text form, for example `3-9,12`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// First and last offset of each range, ascending, with gaps between the ranges.
    ranges: Vec<(i64, i64)>,
}

/// A text is not a valid set of offsets.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a set of offsets")]
pub(crate) struct OffsetsError(String);

impl Offsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest and the highest offset.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        Some((self.ranges.first()?.0, self.ranges.last()?.1))
    }

    pub(crate) fn contains(&self, offset: i64) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&offset))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    pub(crate) fn insert(&mut self, offset: i64) {
        if self.contains(offset) {
            return;
        }
        let at = self.ranges.partition_point(|(first, _)| *first < offset);
        let after = self.ranges.get(at).is_some_and(|(first, _)| *first == offset + 1);
        let before = at > 0 && self.ranges[at - 1].1 == offset - 1;
        match (before, after) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = offset,
            (false, true) => self.ranges[at].0 = offset,
            (false, false) => self.ranges.insert(at, (offset, offset)),
        }
    }

    /// The text form, or `None` if the set is empty.
    pub(crate) fn text(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.to_string())
    }

    pub(crate) fn remove(&mut self, offset: i64) {
        let Some(at) =
            self.ranges.iter().position(|(first, last)| (*first..=*last).contains(&offset))
        else {
            return;
        };
        let (first, last) = self.ranges[at];
        let rest = [(first, offset - 1), (offset + 1, last)];
        self.ranges.splice(at..=at, rest.into_iter().filter(|(first, last)| first <= last));
    }
}

impl FromIterator<i64> for Offsets {
    /// The offsets must be ascending.
    fn from_iter<I: IntoIterator<Item = i64>>(offsets: I) -> Self {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for offset in offsets {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == offset => *last = offset,
                _ => ranges.push((offset, offset)),
            }
        }
        Self { ranges }
    }
}

impl fmt::Display for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            if first == last {
                write!(f, "{first}")?;
            } else {
                write!(f, "{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Offsets {
    type Err = OffsetsError;

    fn from_str(text: &str) -> Result<Self, OffsetsError> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = first.parse::<i64>().ok().zip(last.parse::<i64>().ok());
            let (first, last) = bounds.ok_or_else(|| OffsetsError(text.to_owned()))?;
            let ascends = ranges.last().is_none_or(|(_, before)| *before < first);
            if first < 0 || last < first || !ascends {
                return Err(OffsetsError(text.to_owned()));
            }
            ranges.push((first, last));
        }
        Ok(Self { ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn text_that_is_not_a_set_is_refused() {
        for text in ["", "x", "3-", "-3", "5-3", "3,3", "9,1-2", "1,,2"] {
            assert!(text.parse::<Offsets>().is_err(), "{text}");
        }
        assert_eq!("3-9,12".parse::<Offsets>().expect("a set").iter().count(), 8);
    }

    proptest! {
        #[test]
        fn ranges_hold_what_a_plain_set_holds(
            offsets in proptest::collection::btree_set(0i64..40, 0..30),
            gone in proptest::collection::vec(0i64..40, 0..20),
        ) {
            let mut plain: BTreeSet<i64> = offsets.clone();
            let mut ranges: Offsets = offsets.into_iter().collect();
            for offset in gone {
                plain.remove(&offset);
                ranges.remove(offset);
                prop_assert!(!ranges.contains(offset));
                let other = (offset * 7) % 40;
                plain.insert(other);
                ranges.insert(other);
                let kept: Offsets = plain.iter().copied().collect();
                prop_assert_eq!(&ranges, &kept);
            }
            prop_assert_eq!(ranges.is_empty(), plain.is_empty());
            prop_assert_eq!(ranges.iter().collect::<BTreeSet<_>>(), plain);
            if !ranges.is_empty() {
                prop_assert_eq!(ranges.to_string().parse::<Offsets>().expect("a set"), ranges);
            }
        }
    }
}
