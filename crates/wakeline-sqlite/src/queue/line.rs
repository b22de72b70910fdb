//! The partitions of a line in the order in which they are offered.
//!
//! # Invariants
//! * Walks the index of due times from its beginning: what it costs does not depend on how many
//!   partitions there are, or on what lies in them. Only partitions with a priority of their own
//!   are looked at one by one.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use wakeline_core::Selector;

use super::cursor::Cursor;
use crate::error::Res;
use crate::session::{Queue, Session};

/// Candidates that are read from one group at a time.
const CHUNK_LEN: i64 = 32;

/// A cursor that may have something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    due_at: i64,
    partition: i64,
}

/// One queue of a line and its group there: the partitions of one priority.
struct Source {
    queue: Arc<Queue>,
    group: i64,
    /// The priority of the queue, then that of the partitions.
    priority: (i32, i32),
    /// Partitions that belong to other sources of the queue.
    elsewhere: HashSet<i64>,
    /// Read, not offered yet, in order.
    ahead: VecDeque<Place>,
    /// Where the next chunk begins; `None` if there is none.
    after: Option<Place>,
}

/// The cursors of a line that may have something now, in order.
pub(crate) struct Offered {
    sources: Vec<Source>,
    now: i64,
}

/// A cursor that is offered to a request.
pub(crate) struct Offer {
    pub(crate) source: usize,
    pub(crate) queue: Arc<Queue>,
    pub(crate) cursor: Cursor,
}

impl Offered {
    /// `groups`: the queues of the line with the id of its group in each.
    pub(crate) fn new(
        s: &mut Session<'_>,
        selector: &Selector,
        groups: &[(Arc<Queue>, i64)],
    ) -> Res<Self> {
        let start = Place { due_at: i64::MIN, partition: i64::MIN };
        let mut sources = Vec::with_capacity(groups.len());
        for (queue, group) in groups {
            let mut source = Source {
                queue: Arc::clone(queue),
                group: *group,
                priority: (queue.options.priority, 0),
                elsewhere: HashSet::new(),
                ahead: VecDeque::new(),
                after: Some(start.clone()),
            };
            if let Selector::Partition(_, name) = selector {
                source.after = None;
                source.ahead.extend(
                    s.partition(&source.queue, name)?
                        .map(|partition| Place { due_at: i64::MIN, partition }),
                );
            } else if !queue.options.partition_priorities.is_empty() {
                sources.extend(source.set_apart(s)?);
            }
            sources.push(source);
        }
        sources.sort_by_key(|source| std::cmp::Reverse(source.priority));
        Ok(Self { sources, now: s.now.0 })
    }

    /// The next cursor that was due: of the highest priority the oldest.
    pub(crate) fn next(&mut self, s: &Session<'_>) -> Res<Option<Offer>> {
        let mut best: Option<(usize, Place)> = None;
        for at in 0..self.sources.len() {
            if best.as_ref().is_some_and(|(other, _)| self.priority(*other) > self.priority(at)) {
                break;
            }
            let now = self.now;
            let Some(place) = self.sources[at].peek(s, now)? else { continue };
            if best.as_ref().is_none_or(|(_, other)| place < other) {
                best = Some((at, place.clone()));
            }
        }
        let Some((source, place)) = best else { return Ok(None) };
        let Source { queue, group, ahead, .. } = &mut self.sources[source];
        ahead.pop_front();
        let cursor = Cursor::read(s, place.partition, *group)?;
        Ok(cursor.map(|cursor| Offer { source, queue: Arc::clone(queue), cursor }))
    }

    /// Puts a cursor back in its place: it became due later than its row said.
    pub(crate) fn put_back(&mut self, offer: &Offer, due_at: i64) {
        let place = Place { due_at, partition: offer.cursor.partition };
        let ahead = &mut self.sources[offer.source].ahead;
        let at = ahead.partition_point(|other| *other < place);
        ahead.insert(at, place);
    }

    fn priority(&self, source: usize) -> (i32, i32) {
        self.sources[source].priority
    }
}

impl Source {
    /// Takes the partitions out that have a priority of their own: a source for each priority.
    fn set_apart(&mut self, s: &mut Session<'_>) -> Res<Vec<Self>> {
        let mut apart: BTreeMap<i32, VecDeque<Place>> = BTreeMap::new();
        for (name, priority) in &self.queue.options.partition_priorities {
            let Some(partition) = s.partition(&self.queue, name)? else { continue };
            self.elsewhere.insert(partition);
            let cursor = Cursor::read(s, partition, self.group)?;
            let due_at = cursor.and_then(|cursor| cursor.due_at).filter(|at| *at <= s.now.0);
            let place = due_at.map(|due_at| Place { due_at, partition });
            apart.entry(*priority).or_default().extend(place);
        }
        let source = |(priority, mut ahead): (i32, VecDeque<Place>)| {
            ahead.make_contiguous().sort();
            Self {
                queue: Arc::clone(&self.queue),
                group: self.group,
                priority: (self.priority.0, priority),
                elsewhere: HashSet::new(),
                ahead,
                after: None,
            }
        };
        Ok(apart.into_iter().map(source).collect())
    }

    fn peek(&mut self, s: &Session<'_>, now: i64) -> Res<Option<&Place>> {
        while self.ahead.is_empty()
            && let Some(after) = self.after.take()
        {
            let sql = include_str!("../../sql/queries/claim_candidates.sql");
            let mut statement = s.conn.prepare_cached(sql)?;
            let params = (self.group, now, after.due_at, after.partition, CHUNK_LEN);
            let mut rows = statement.query(params)?;
            let mut read = 0;
            while let Some(row) = rows.next()? {
                let place = Place { due_at: row.get(0)?, partition: row.get(1)? };
                read += 1;
                if read == CHUNK_LEN {
                    self.after = Some(place.clone());
                }
                if !self.elsewhere.contains(&place.partition) {
                    self.ahead.push_back(place);
                }
            }
        }
        Ok(self.ahead.front())
    }
}
