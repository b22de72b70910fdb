//! Pagination of lists.

use wakeline_store::hook::{HookPage, PageOrder, PageRequest};

/// Returns a page of all items, which are given in ascending order of their keys.
pub(super) fn page<K: Ord, T>(mut all: Vec<(K, T)>, request: &PageRequest<K>) -> HookPage<T> {
    let descending = request.order == PageOrder::Descending;
    if descending {
        all.reverse();
    }
    let limit = usize::try_from(request.limit).expect("a page fits in memory");
    let is_before = |key: &K, mark: &K| if descending { key > mark } else { key < mark };
    let (from, to) = match (&request.after, request.backwards) {
        (None, _) => (0, limit),
        (Some(mark), false) => {
            let passed = |(key, _): &&(K, T)| is_before(key, mark) || key == mark;
            let from = all.iter().take_while(passed).count();
            (from, from + limit)
        }
        (Some(mark), true) => {
            let to = all.iter().take_while(|(key, _)| is_before(key, mark)).count();
            (to.saturating_sub(limit), to)
        }
    };
    let backwards = request.backwards && request.after.is_some();
    let done = if backwards { from == 0 } else { to >= all.len() };
    let items = all.into_iter().skip(from).take(to - from).map(|(_, item)| item).collect();
    HookPage { items, done }
}
