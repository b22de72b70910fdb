//! Lists, a page at a time.

/// A piece of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest<K> {
    /// Most items; at least 1.
    pub limit: u32,
    /// The key of the item that the page begins behind; `None` begins at the list's start.
    pub after: Option<K>,
    /// Which way the list goes.
    pub order: PageOrder,
    /// Whether to go from `after` towards the list's start: the items just before it, in the
    /// list's order all the same. With no `after` it makes no difference.
    pub backwards: bool,
}

/// Which way a list goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageOrder {
    /// Smallest key, or oldest, first.
    #[default]
    Ascending,
    /// Greatest key, or newest, first.
    Descending,
}

/// What a page holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// Whether there is nothing more in the direction that was asked for.
    pub done: bool,
}
