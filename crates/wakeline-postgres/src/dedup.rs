//! The transaction ids that this node knows of, so that dedup costs no index row per message.
//!
//! # Where it sits
//! A push asks here which of its items are known, and tells the database up to which offset it
//! knows; the database compares the rest under the partition's lock and returns what is new.
//!
//! # Invariants
//! * What is remembered of a partition is all of its ids with offsets from `from` to `to`. Who
//!   cannot keep that forgets: the database then compares more, and the answer is as exact.
//! * Nothing here decides: the database verifies each offset that is named as known.
//! * Bounded in total: partitions that were not used for longest are forgotten first.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use wakeline_core::Timestamp;

/// Most ids that are remembered; about 50 bytes each.
const IDS_MAX: usize = 2_000_000;

/// A segment's ids, as the database returns them: joined by line feeds, which no id contains.
pub(crate) struct SegmentIds {
    /// The offset of the first one.
    pub(crate) first: i64,
    /// When they were pushed.
    pub(crate) at: Timestamp,
    /// The ids.
    pub(crate) txns: String,
}

/// The offsets of which a node knows the ids: from the first to before the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// The ids that this node knows of.
pub(crate) struct DedupCache {
    hasher: RandomState,
    partitions: HashMap<i64, Partition>,
    /// Ids in all partitions.
    len: usize,
    len_max: usize,
    /// Counts uses; the least recent goes first.
    uses: u64,
}

#[derive(Default)]
struct Partition {
    known: Known,
    offsets: HashMap<u64, i64>,
    segments: VecDeque<Segment>,
    /// Ids in all its segments.
    len: usize,
    used: u64,
}

/// The hashes of one segment, so that they can be forgotten together.
struct Segment {
    first: i64,
    at: Timestamp,
    hashes: Box<[u64]>,
}

impl Default for DedupCache {
    fn default() -> Self {
        Self::with_len_max(IDS_MAX)
    }
}

impl DedupCache {
    fn with_len_max(len_max: usize) -> Self {
        Self { hasher: RandomState::new(), partitions: HashMap::new(), len: 0, len_max, uses: 0 }
    }

    /// What is known of a partition. The database compares everything else.
    pub(crate) fn known(&mut self, partition: i64) -> Known {
        self.uses += 1;
        match self.partitions.get_mut(&partition) {
            Some(entry) => {
                entry.used = self.uses;
                entry.known
            }
            None => Known::default(),
        }
    }

    /// The offset at which an id was last seen.
    pub(crate) fn offset(&self, partition: i64, txn: &str) -> Option<i64> {
        let hash = self.hasher.hash_one(txn);
        self.partitions.get(&partition)?.offsets.get(&hash).copied()
    }

    /// Takes in segments that the database returned to a push that had named `named`.
    pub(crate) fn learn(&mut self, partition: i64, named: Known, delta: &[SegmentIds]) {
        if named.to > 0 && !self.partitions.contains_key(&partition) {
            return; // Forgotten meanwhile; a part of the window would be of no use.
        }
        for segment in delta {
            let hashes = segment.txns.split('\n').map(|txn| self.hasher.hash_one(txn)).collect();
            self.append(partition, Segment { first: segment.first, at: segment.at, hashes });
        }
    }

    /// Takes in what this node just stored, if it follows on what is known. A partition that
    /// nothing was known of begins with it if the push compared the whole window (`complete`).
    pub(crate) fn stored<'a>(
        &mut self,
        (partition, first): (i64, i64),
        at: Timestamp,
        txns: impl Iterator<Item = &'a str>,
        complete: bool,
    ) {
        match self.partitions.get(&partition) {
            Some(entry) if entry.known.to == first => {}
            None if complete => {}
            _ => return,
        }
        let hashes = txns.map(|txn| self.hasher.hash_one(txn)).collect();
        self.append(partition, Segment { first, at, hashes });
    }

    /// Forgets what is older than the window.
    pub(crate) fn prune(&mut self, partition: i64, before: Timestamp) {
        let Some(entry) = self.partitions.get_mut(&partition) else { return };
        while entry.segments.front().is_some_and(|segment| segment.at < before) {
            self.len -= entry.drop_oldest();
        }
    }

    /// Forgets an id that has left the window although it is remembered.
    pub(crate) fn lapse(&mut self, partition: i64, txn: &str) {
        let hash = self.hasher.hash_one(txn);
        if let Some(entry) = self.partitions.get_mut(&partition) {
            entry.offsets.remove(&hash);
        }
    }

    /// Forgets a partition.
    pub(crate) fn forget(&mut self, partition: i64) {
        if let Some(entry) = self.partitions.remove(&partition) {
            self.len -= entry.len;
        }
    }

    fn append(&mut self, partition: i64, segment: Segment) {
        self.uses += 1;
        let entry = self.partitions.entry(partition).or_default();
        entry.used = self.uses;
        if segment.first < entry.known.to {
            return;
        }
        if entry.segments.is_empty() {
            // Whatever lies before it was outside of the window.
            entry.known.from = segment.first;
        }
        for (offset, hash) in (segment.first..).zip(&segment.hashes) {
            entry.offsets.insert(*hash, offset);
        }
        entry.known.to = segment.first + i64::try_from(segment.hashes.len()).unwrap_or(i64::MAX);
        self.len += segment.hashes.len();
        entry.len += segment.hashes.len();
        entry.segments.push_back(segment);
        // One partition may not push out all others.
        while entry.len > self.len_max / 4 && entry.segments.len() > 1 {
            self.len -= entry.drop_oldest();
        }
        if self.len > self.len_max {
            self.evict();
        }
    }

    /// Forgets the least recently used partitions until a tenth is free.
    fn evict(&mut self) {
        let mut by_use: Vec<_> = self.partitions.iter().map(|(id, p)| (p.used, *id)).collect();
        by_use.sort_unstable();
        for (_, partition) in by_use {
            if self.len <= self.len_max / 10 * 9 {
                return;
            }
            self.forget(partition);
        }
    }
}

impl Partition {
    /// Forgets the oldest segment; returns how many ids that were.
    fn drop_oldest(&mut self) -> usize {
        let Some(segment) = self.segments.pop_front() else { return 0 };
        for (offset, hash) in (segment.first..).zip(&segment.hashes) {
            // A later message may have the id by now.
            if self.offsets.get(hash) == Some(&offset) {
                self.offsets.remove(hash);
            }
        }
        self.known.from = match self.segments.front() {
            Some(next) => next.first,
            None => self.known.to,
        };
        self.len -= segment.hashes.len();
        segment.hashes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(first: i64, at: i64, txns: &str) -> SegmentIds {
        SegmentIds { first, at: Timestamp(at), txns: txns.replace(' ', "\n") }
    }

    #[test]
    fn what_this_node_stores_is_known_from_then_on() {
        let mut cache = DedupCache::default();
        assert_eq!(cache.known(1), Known::default());
        cache.stored((1, 0), Timestamp(0), ["a", "b"].into_iter(), true);
        assert_eq!(cache.known(1), Known { from: 0, to: 2 });
        assert_eq!(cache.offset(1, "b"), Some(1));
        assert_eq!(cache.offset(1, "c"), None);
        assert_eq!(cache.offset(2, "b"), None);
    }

    #[test]
    fn a_gap_is_never_bridged() {
        let mut cache = DedupCache::default();
        cache.stored((1, 0), Timestamp(0), ["a"].into_iter(), true);
        cache.stored((1, 5), Timestamp(1), ["f"].into_iter(), true);
        assert_eq!(cache.known(1), Known { from: 0, to: 1 });
        cache.learn(1, Known { from: 0, to: 1 }, &[segment(1, 1, "b c d e"), segment(5, 1, "f")]);
        assert_eq!(cache.known(1), Known { from: 0, to: 6 });
        assert_eq!(cache.offset(1, "f"), Some(5));
    }

    #[test]
    fn ids_outside_of_the_window_go_and_the_rest_stays() {
        let mut cache = DedupCache::default();
        cache.learn(1, Known::default(), &[segment(0, 10, "a b"), segment(2, 20, "c")]);
        cache.prune(1, Timestamp(20));
        assert_eq!(cache.known(1), Known { from: 2, to: 3 });
        assert_eq!(cache.offset(1, "a"), None);
        assert_eq!(cache.offset(1, "c"), Some(2));
        cache.prune(1, Timestamp(21));
        assert_eq!(cache.known(1), Known { from: 3, to: 3 });
        assert_eq!(cache.len, 0);
    }

    #[test]
    fn an_id_that_came_again_survives_its_first_message() {
        let mut cache = DedupCache::default();
        cache.learn(1, Known::default(), &[segment(0, 10, "a"), segment(1, 20, "a")]);
        cache.prune(1, Timestamp(20));
        assert_eq!(cache.offset(1, "a"), Some(1));
    }

    #[test]
    fn the_least_recently_used_partitions_are_forgotten_first() {
        let mut cache = DedupCache::with_len_max(40);
        for partition in 1..=4 {
            cache.learn(partition, Known::default(), &[segment(0, 0, &"x ".repeat(9))]);
        }
        cache.known(1);
        cache.learn(5, Known::default(), &[segment(0, 0, &"y ".repeat(9))]);
        assert_eq!(cache.known(2), Known::default());
        assert_eq!(cache.known(1).to, 10);
        assert!(cache.len <= 40);
    }

    #[test]
    fn a_large_partition_keeps_its_newest_ids() {
        let mut cache = DedupCache::with_len_max(40);
        for first in 0..20 {
            let id = format!("id{first}");
            cache.learn(1, Known { from: 0, to: first }, &[segment(first, 0, &id)]);
        }
        assert_eq!(cache.known(1), Known { from: 10, to: 20 });
        assert_eq!(cache.offset(1, "id9"), None);
        assert_eq!(cache.offset(1, "id10"), Some(10));
    }
}
