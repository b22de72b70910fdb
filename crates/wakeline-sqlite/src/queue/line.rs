//! The partitions of a line, in the order in which claims consider them.
//!
//! # Invariants
//! * This walks the index of due times from its beginning, so its cost does not depend on the
//!   number of partitions or messages. Only partitions with a priority of their own are read one by
//!   one.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use wakeline_core::Selector;

use super::cursor::QueueCursor;
use crate::error::Res;
use crate::session::{DbSession, QueueRow};

/// Number of candidates that are read from a group at a time.
const CHUNK_LEN: i64 = 32;

/// A candidate in the index of due times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DuePartition {
    due_at: i64,
    partition: i64,
}

/// Partitions of one queue that share one priority, with the line's group there.
struct CandidateSource {
    queue: Arc<QueueRow>,
    group: i64,
    /// The priority of the queue, then the priority of the partitions.
    priority: (i32, i32),
    /// Partitions of the queue that belong to other sources.
    in_other_sources: HashSet<i64>,
    /// Candidates that were read but not offered yet, in order.
    ahead: VecDeque<DuePartition>,
    /// Where the next chunk begins, or `None` after the last chunk.
    after: Option<DuePartition>,
}

/// The cursors of a line that may have messages now, in order.
pub(crate) struct QueueCandidates {
    sources: Vec<CandidateSource>,
    now: i64,
}

/// A cursor that is offered to a request.
pub(crate) struct QueueCandidate {
    pub(crate) source: usize,
    pub(crate) queue: Arc<QueueRow>,
    pub(crate) cursor: QueueCursor,
}

impl QueueCandidates {
    /// `groups` are the queues of the line with the id of its group in each.
    pub(crate) fn new(
        s: &mut DbSession<'_>,
        selector: &Selector,
        groups: &[(Arc<QueueRow>, i64)],
    ) -> Res<Self> {
        let start = DuePartition { due_at: i64::MIN, partition: i64::MIN };
        let mut sources = Vec::with_capacity(groups.len());
        for (queue, group) in groups {
            let mut source = CandidateSource {
                queue: Arc::clone(queue),
                group: *group,
                priority: (queue.options.priority, 0),
                in_other_sources: HashSet::new(),
                ahead: VecDeque::new(),
                after: Some(start.clone()),
            };
            if let Selector::Partition(_, name) = selector {
                source.after = None;
                source.ahead.extend(
                    s.partition(&source.queue, name)?
                        .map(|partition| DuePartition { due_at: i64::MIN, partition }),
                );
            } else if !queue.options.partition_priorities.is_empty() {
                sources.extend(source.split_by_priority(s)?);
            }
            sources.push(source);
        }
        sources.sort_by_key(|source| std::cmp::Reverse(source.priority));
        Ok(Self { sources, now: s.now.0 })
    }

    /// The next due cursor: highest priority first, then earliest due time.
    pub(crate) fn next(&mut self, s: &DbSession<'_>) -> Res<Option<QueueCandidate>> {
        let mut best: Option<(usize, DuePartition)> = None;
        for at in 0..self.sources.len() {
            if best.as_ref().is_some_and(|(other, _)| self.priority(*other) > self.priority(at)) {
                break;
            }
            let now = self.now;
            let Some(position) = self.sources[at].peek(s, now)? else { continue };
            if best.as_ref().is_none_or(|(_, other)| position < other) {
                best = Some((at, position.clone()));
            }
        }
        let Some((source, position)) = best else { return Ok(None) };
        let CandidateSource { queue, group, ahead, .. } = &mut self.sources[source];
        ahead.pop_front();
        let cursor = QueueCursor::read(s, position.partition, *group)?;
        Ok(cursor.map(|cursor| QueueCandidate { source, queue: Arc::clone(queue), cursor }))
    }

    /// Inserts a cursor again at its correct place, after its due time was corrected.
    pub(crate) fn put_back(&mut self, candidate: &QueueCandidate, due_at: i64) {
        let position = DuePartition { due_at, partition: candidate.cursor.partition };
        let ahead = &mut self.sources[candidate.source].ahead;
        let at = ahead.partition_point(|other| *other < position);
        ahead.insert(at, position);
    }

    fn priority(&self, source: usize) -> (i32, i32) {
        self.sources[source].priority
    }
}

impl CandidateSource {
    /// Moves the partitions that have a priority of their own to new sources, one per priority.
    fn split_by_priority(&mut self, s: &mut DbSession<'_>) -> Res<Vec<Self>> {
        let mut by_priority: BTreeMap<i32, VecDeque<DuePartition>> = BTreeMap::new();
        for (name, priority) in &self.queue.options.partition_priorities {
            let Some(partition) = s.partition(&self.queue, name)? else { continue };
            self.in_other_sources.insert(partition);
            let cursor = QueueCursor::read(s, partition, self.group)?;
            let due_at = cursor.and_then(|cursor| cursor.due_at).filter(|at| *at <= s.now.0);
            let position = due_at.map(|due_at| DuePartition { due_at, partition });
            by_priority.entry(*priority).or_default().extend(position);
        }
        let source = |(priority, mut ahead): (i32, VecDeque<DuePartition>)| {
            ahead.make_contiguous().sort();
            Self {
                queue: Arc::clone(&self.queue),
                group: self.group,
                priority: (self.priority.0, priority),
                in_other_sources: HashSet::new(),
                ahead,
                after: None,
            }
        };
        Ok(by_priority.into_iter().map(source).collect())
    }

    fn peek(&mut self, s: &DbSession<'_>, now: i64) -> Res<Option<&DuePartition>> {
        while self.ahead.is_empty()
            && let Some(after) = self.after.take()
        {
            let sql = include_str!("../../sql/queries/claim_candidates.sql");
            let mut statement = s.conn.prepare_cached(sql)?;
            let params = (self.group, now, after.due_at, after.partition, CHUNK_LEN);
            let mut rows = statement.query(params)?;
            let mut read = 0;
            while let Some(row) = rows.next()? {
                let position = DuePartition { due_at: row.get(0)?, partition: row.get(1)? };
                read += 1;
                if read == CHUNK_LEN {
                    self.after = Some(position.clone());
                }
                if !self.in_other_sources.contains(&position.partition) {
                    self.ahead.push_back(position);
                }
            }
        }
        Ok(self.ahead.front())
    }
}
