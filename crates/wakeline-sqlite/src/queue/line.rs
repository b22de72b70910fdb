//! The partitions of a line in the order in which they are offered.
//!
//! # Invariants
//! * Walks the index of due times from its beginning: what it costs does not depend on how many
//!   partitions there are, or on what lies in them.

use std::collections::VecDeque;
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

/// One queue of a line and its group there.
struct Source {
    queue: Arc<Queue>,
    group: i64,
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
            let (queue, group) = (Arc::clone(queue), *group);
            let mut source =
                Source { queue, group, ahead: VecDeque::new(), after: Some(start.clone()) };
            if let Selector::Partition(_, name) = selector {
                source.after = None;
                source.ahead.extend(
                    s.partition(&source.queue, name)?
                        .map(|partition| Place { due_at: i64::MIN, partition }),
                );
            }
            sources.push(source);
        }
        sources.sort_by_key(|source| -i64::from(source.queue.options.priority));
        Ok(Self { sources, now: s.now.0 })
    }

    /// The next cursor that was due: of the queues of the highest priority the oldest.
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

    fn priority(&self, source: usize) -> i32 {
        self.sources[source].queue.options.priority
    }
}

impl Source {
    fn peek(&mut self, s: &Session<'_>, now: i64) -> Res<Option<&Place>> {
        if self.ahead.is_empty()
            && let Some(after) = self.after.take()
        {
            let sql = include_str!("../../sql/queries/claim_candidates.sql");
            let mut statement = s.conn.prepare_cached(sql)?;
            let params = (self.group, now, after.due_at, after.partition, CHUNK_LEN);
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                self.ahead.push_back(Place { due_at: row.get(0)?, partition: row.get(1)? });
            }
            let full = i64::try_from(self.ahead.len()).is_ok_and(|len| len == CHUNK_LEN);
            self.after = self.ahead.back().filter(|_| full).cloned();
        }
        Ok(self.ahead.front())
    }
}
