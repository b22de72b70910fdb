//! A cache of the transaction ids that this node has seen, so that deduplication costs no index row
//! per message.
//!
//! # Where it sits
//! A push looks up here which of its items are duplicates, and sends the database the range of
//! offsets the cache covers; the database compares the rest under the partition's lock and returns
//! the new ids.
//!
//! # Invariants
//! * The cache has all ids of a partition with offsets from `from` to `to`. If it cannot keep that
//!   range complete, it forgets the partition: the database then compares more, and the answer is
//!   as exact.
//! * The cache decides nothing: the database verifies each offset that is named as known.
//! * The total size is bounded: the least recently used partitions are forgotten first.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use wakeline_core::Timestamp;

/// The maximum number of ids in the cache; each takes about 50 bytes.
const IDS_MAX: usize = 2_000_000;

/// The transaction ids of a segment as the database returns them: joined by line feeds, which no id
/// contains.
pub(crate) struct SegmentIds {
    /// The offset of the first id.
    pub(crate) first: i64,
    /// The time of the push.
    pub(crate) at: Timestamp,
    pub(crate) txns: String,
}

/// The transaction ids of a segment that this node has just stored.
pub(crate) struct StoredIds<I> {
    /// The offset of the first id.
    pub(crate) first: i64,
    /// The time of the push.
    pub(crate) at: Timestamp,
    pub(crate) txns: I,
}

/// The range of offsets whose ids a node knows, from `from` to before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KnownRange {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// The known transaction ids of all partitions.
pub(crate) struct DedupCache {
    hasher: RandomState,
    partitions: HashMap<i64, PartitionIds>,
    /// The number of ids in all partitions.
    len: usize,
    len_max: usize,
    /// Counts uses; the least recently used partition is evicted first.
    uses: u64,
}

#[derive(Default)]
struct PartitionIds {
    known: KnownRange,
    offsets: HashMap<u64, i64>,
    segments: VecDeque<Segment>,
    /// The number of ids in all its segments.
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

    /// Returns the range that is known of a partition. The database compares everything else.
    pub(crate) fn known(&mut self, partition: i64) -> KnownRange {
        self.uses += 1;
        match self.partitions.get_mut(&partition) {
            Some(entry) => {
                entry.used = self.uses;
                entry.known
            }
            None => KnownRange::default(),
        }
    }

    /// Returns the offset at which an id was last seen.
    pub(crate) fn offset(&self, partition: i64, txn: &str) -> Option<i64> {
        let hash = self.hasher.hash_one(txn);
        self.partitions.get(&partition)?.offsets.get(&hash).copied()
    }

    /// Adds the segments that the database returned to a push that had named the range `named`.
    pub(crate) fn learn(&mut self, partition: i64, named: KnownRange, delta: &[SegmentIds]) {
        if named.to > 0 && !self.partitions.contains_key(&partition) {
            return; // Forgotten meanwhile; a part of the window would be of no use.
        }
        for segment in delta {
            let hashes = segment.txns.split('\n').map(|txn| self.hasher.hash_one(txn)).collect();
            self.append(partition, Segment { first: segment.first, at: segment.at, hashes });
        }
    }

    /// Adds what this node just stored, if it continues the known range. An unknown partition
    /// begins with it if the push compared the whole window (`complete`).
    pub(crate) fn stored<'a>(
        &mut self,
        partition: i64,
        ids: StoredIds<impl Iterator<Item = &'a str>>,
        complete: bool,
    ) {
        let StoredIds { first, at, txns } = ids;
        match self.partitions.get(&partition) {
            Some(entry) if entry.known.to == first => {}
            None if complete => {}
            _ => return,
        }
        let hashes = txns.map(|txn| self.hasher.hash_one(txn)).collect();
        self.append(partition, Segment { first, at, hashes });
    }

    /// Forgets ids that are older than the deduplication window.
    pub(crate) fn prune(&mut self, partition: i64, before: Timestamp) {
        let Some(entry) = self.partitions.get_mut(&partition) else { return };
        while entry.segments.front().is_some_and(|segment| segment.at < before) {
            self.len -= entry.drop_oldest();
        }
    }

    /// Forgets an id that is in the cache but has left the window.
    pub(crate) fn lapse(&mut self, partition: i64, txn: &str) {
        let hash = self.hasher.hash_one(txn);
        if let Some(entry) = self.partitions.get_mut(&partition) {
            entry.offsets.remove(&hash);
        }
    }

    /// Removes a partition from the cache.
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
            // Everything before it was outside of the window.
            entry.known.from = segment.first;
        }
        for (offset, hash) in (segment.first..).zip(&segment.hashes) {
            entry.offsets.insert(*hash, offset);
        }
        entry.known.to = segment.first + i64::try_from(segment.hashes.len()).unwrap_or(i64::MAX);
        self.len += segment.hashes.len();
        entry.len += segment.hashes.len();
        entry.segments.push_back(segment);
        // One partition may not displace all others.
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

impl PartitionIds {
    /// Forgets the oldest segment; returns the number of its ids.
    fn drop_oldest(&mut self) -> usize {
        let Some(segment) = self.segments.pop_front() else { return 0 };
        for (offset, hash) in (segment.first..).zip(&segment.hashes) {
            // A later message may have reused the id.
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

    fn stored(first: i64, at: i64, txns: &str) -> StoredIds<impl Iterator<Item = &str>> {
        StoredIds { first, at: Timestamp(at), txns: txns.split(' ') }
    }

    #[test]
    fn stored_ids_are_known_afterwards() {
        let mut cache = DedupCache::default();
        assert_eq!(cache.known(1), KnownRange::default());
        cache.stored(1, stored(0, 0, "a b"), true);
        assert_eq!(cache.known(1), KnownRange { from: 0, to: 2 });
        assert_eq!(cache.offset(1, "b"), Some(1));
        assert_eq!(cache.offset(1, "c"), None);
        assert_eq!(cache.offset(2, "b"), None);
    }

    #[test]
    fn a_gap_is_never_bridged() {
        let mut cache = DedupCache::default();
        cache.stored(1, stored(0, 0, "a"), true);
        cache.stored(1, stored(5, 1, "f"), true);
        assert_eq!(cache.known(1), KnownRange { from: 0, to: 1 });
        cache.learn(
            1,
            KnownRange { from: 0, to: 1 },
            &[segment(1, 1, "b c d e"), segment(5, 1, "f")],
        );
        assert_eq!(cache.known(1), KnownRange { from: 0, to: 6 });
        assert_eq!(cache.offset(1, "f"), Some(5));
    }

    #[test]
    fn ids_outside_of_the_window_are_forgotten() {
        let mut cache = DedupCache::default();
        cache.learn(1, KnownRange::default(), &[segment(0, 10, "a b"), segment(2, 20, "c")]);
        cache.prune(1, Timestamp(20));
        assert_eq!(cache.known(1), KnownRange { from: 2, to: 3 });
        assert_eq!(cache.offset(1, "a"), None);
        assert_eq!(cache.offset(1, "c"), Some(2));
        cache.prune(1, Timestamp(21));
        assert_eq!(cache.known(1), KnownRange { from: 3, to: 3 });
        assert_eq!(cache.len, 0);
    }

    #[test]
    fn a_reused_id_outlives_its_first_message() {
        let mut cache = DedupCache::default();
        cache.learn(1, KnownRange::default(), &[segment(0, 10, "a"), segment(1, 20, "a")]);
        cache.prune(1, Timestamp(20));
        assert_eq!(cache.offset(1, "a"), Some(1));
    }

    #[test]
    fn the_least_recently_used_partitions_are_forgotten_first() {
        let mut cache = DedupCache::with_len_max(40);
        for partition in 1..=4 {
            cache.learn(partition, KnownRange::default(), &[segment(0, 0, &"x ".repeat(9))]);
        }
        cache.known(1);
        cache.learn(5, KnownRange::default(), &[segment(0, 0, &"y ".repeat(9))]);
        assert_eq!(cache.known(2), KnownRange::default());
        assert_eq!(cache.known(1).to, 10);
        assert!(cache.len <= 40);
    }

    #[test]
    fn a_large_partition_keeps_its_newest_ids() {
        let mut cache = DedupCache::with_len_max(40);
        for first in 0..20 {
            let id = format!("id{first}");
            cache.learn(1, KnownRange { from: 0, to: first }, &[segment(first, 0, &id)]);
        }
        assert_eq!(cache.known(1), KnownRange { from: 10, to: 20 });
        assert_eq!(cache.offset(1, "id9"), None);
        assert_eq!(cache.offset(1, "id10"), Some(10));
    }
}
