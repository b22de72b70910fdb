//! Lists, a page at a time: which way to walk an index, and what becomes of the rows.

use uuid::Uuid;
use wakeline_store::hook::{Page, PageOrder, PageRequest};

use crate::error::Res;

/// Above every id.
const HIGHEST: [u8; 17] = [0xff; 17];

/// A walk along an index.
pub(super) struct Walk<B> {
    /// From small keys to great ones.
    pub(super) up: bool,
    /// It begins behind this key.
    pub(super) bound: B,
    /// Most rows to read: one more than the page holds.
    pub(super) rows: i64,
    reversed: bool,
    limit: usize,
}

impl Walk<Vec<u8>> {
    /// A walk over ids.
    pub(super) fn ids<K: Copy>(request: &PageRequest<K>, id: impl Fn(K) -> Uuid) -> Self {
        Self::new(
            request,
            |key| id(*key).into_bytes().to_vec(),
            |up| {
                if up { Vec::new() } else { HIGHEST.to_vec() }
            },
        )
    }
}

impl<B> Walk<B> {
    /// A walk from a key, or from the end of the index at which it starts.
    pub(super) fn new<K>(
        request: &PageRequest<K>,
        bound: impl Fn(&K) -> B,
        edge: impl Fn(bool) -> B,
    ) -> Self {
        let reversed = request.backwards && request.after.is_some();
        let up = (request.order == PageOrder::Ascending) != reversed;
        let limit = request.limit.max(1);
        Self {
            up,
            bound: request.after.as_ref().map_or_else(|| edge(up), bound),
            rows: i64::from(limit) + 1,
            reversed,
            limit: limit as usize,
        }
    }

    /// One of two statements, by direction.
    pub(super) fn pick(&self, up: &'static str, down: &'static str) -> &'static str {
        if self.up { up } else { down }
    }

    /// The rows as a page.
    fn page<T>(&self, mut items: Vec<T>) -> Page<T> {
        let done = items.len() <= self.limit;
        items.truncate(self.limit);
        if self.reversed {
            items.reverse();
        }
        Page { items, done }
    }

    /// The rows that a statement finds, each made into an item.
    pub(super) fn read<T>(
        &self,
        rows: &mut rusqlite::Rows<'_>,
        mut item: impl FnMut(&rusqlite::Row<'_>) -> Res<T>,
    ) -> Res<Page<T>> {
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(item(row)?);
        }
        Ok(self.page(items))
    }
}
