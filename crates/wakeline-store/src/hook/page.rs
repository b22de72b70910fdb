//! Pagination by key.

/// A request for one page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest<K> {
    /// The maximum number of items; at least 1.
    pub limit: u32,
    /// The key after which the page begins; `None` starts at the beginning of the list.
    pub after: Option<K>,
    /// The sort order of the list.
    pub order: PageOrder,
    /// Whether to page backwards: return the items just before `after`, still in the list's order.
    /// Without `after` it makes no difference.
    pub backwards: bool,
}

/// The sort order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageOrder {
    /// The smallest key, or the oldest item, first.
    #[default]
    Ascending,
    /// Greatest key, or newest, first.
    Descending,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookPage<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// Whether there are no more items in the requested direction.
    pub done: bool,
}
