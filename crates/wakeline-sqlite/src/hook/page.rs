//! Pages of lists: the direction in which an index is walked, and building the page.

use uuid::Uuid;
use wakeline_store::hook::{HookPage, PageOrder, PageRequest};

use crate::error::Res;

/// A key above every id.
const HIGHEST: [u8; 17] = [0xff; 17];

/// A walk of an index, from which one page is read.
pub(super) struct IndexWalk<B> {
    /// Whether the walk goes from low keys to high keys.
    pub(super) up: bool,
    /// The key after which the walk begins.
    pub(super) bound: B,
    /// The number of rows to read: one more than the page holds.
    pub(super) rows: i64,
    reversed: bool,
    limit: usize,
}

impl IndexWalk<Vec<u8>> {
    /// A walk over UUIDs.
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

impl<B> IndexWalk<B> {
    /// A walk that begins after the request's key, or at the end of the index where the direction
    /// starts.
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

    /// Selects one of two statements by the direction.
    pub(super) fn pick(&self, up: &'static str, down: &'static str) -> &'static str {
        if self.up { up } else { down }
    }

    /// Builds the page from the rows that were read.
    fn page<T>(&self, mut items: Vec<T>) -> HookPage<T> {
        let done = items.len() <= self.limit;
        items.truncate(self.limit);
        if self.reversed {
            items.reverse();
        }
        HookPage { items, done }
    }

    /// Reads the rows of a statement, and builds the page.
    pub(super) fn read<T>(
        &self,
        rows: &mut rusqlite::Rows<'_>,
        mut item: impl FnMut(&rusqlite::Row<'_>) -> Res<T>,
    ) -> Res<HookPage<T>> {
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(item(row)?);
        }
        Ok(self.page(items))
    }
}
