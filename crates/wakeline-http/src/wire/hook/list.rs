//! Lists that are read in pages, with iterators that lead forwards and backwards.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::hook::{HookPage, PageOrder, PageRequest};

use crate::error::ApiError;
use crate::input::QueryParams;

/// The default and the maximum number of items in a page.
const LIMIT_DEFAULT: u64 = 50;
const LIMIT_MAX: u64 = 250;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct List<T> {
    /// The items.
    pub(crate) data: Vec<T>,
    /// Whether this was the last page in the requested direction.
    pub(crate) done: bool,
    /// The `iterator` of the next page.
    pub(crate) iterator: Option<String>,
    /// The `iterator` of the previous page.
    pub(crate) prev_iterator: Option<String>,
}

/// The page that a request selects. An iterator is the text of a key; a leading `-` selects the
/// page before the key.
pub(crate) struct Paging<K> {
    pub(crate) request: PageRequest<K>,
    given: Option<String>,
}

impl<K> Paging<K> {
    /// Parses `limit`, `iterator` and `order`.
    pub(crate) fn read(
        params: &QueryParams,
        order: PageOrder,
        parse: impl FnOnce(&str) -> Option<K>,
    ) -> Result<Self, ApiError> {
        let limit = params.number("limit", LIMIT_DEFAULT, 1..=LIMIT_MAX)?;
        let given = params.text("iterator").filter(|text| !text.is_empty()).map(str::to_owned);
        let key = given.as_deref().map(|text| text.strip_prefix('-').unwrap_or(text));
        let after = match key {
            None => None,
            Some(text) => Some(parse(text).ok_or_else(|| {
                let message =
                    format!("iterator must be one that an earlier response returned, not {text:?}");
                ApiError::invalid_param("iterator", message)
            })?),
        };
        let order = match params.text("order") {
            None | Some("") => order,
            Some("ascending") => PageOrder::Ascending,
            Some("descending") => PageOrder::Descending,
            Some(other) => {
                let message = format!("order must be ascending or descending, not {other:?}");
                return Err(ApiError::invalid_param("order", message));
            }
        };
        let backwards = given.as_deref().is_some_and(|text| text.starts_with('-'));
        let request = PageRequest { limit: limit as u32, after, order, backwards };
        Ok(Self { request, given })
    }
}

impl<T> List<T> {
    /// Renders a page. `key` returns the text with which the list continues after an item.
    pub(crate) fn new<S>(
        page: HookPage<S>,
        given: Option<&str>,
        key: impl Fn(&S) -> String,
        show: impl FnMut(S) -> Result<T, ApiError>,
    ) -> Result<Self, ApiError> {
        let last = page.items.last().map(&key);
        let first = page.items.first().map(&key);
        let stay = || given.filter(|text| !text.starts_with('-')).map(str::to_owned);
        Ok(Self {
            iterator: last.or_else(stay),
            // The first page has one too, because a list that is newest first grows there.
            prev_iterator: first.map(|key| format!("-{key}")),
            done: page.done,
            data: page.items.into_iter().map(show).collect::<Result<_, _>>()?,
        })
    }
}

impl<K> Paging<K> {
    /// Returns the request to the store, and the iterator of the request to the server.
    pub(crate) fn split(self) -> (PageRequest<K>, Option<String>) {
        (self.request, self.given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Paging<u32>, ApiError> {
        Paging::read(&QueryParams::of(pairs), PageOrder::Ascending, |text| text.parse().ok())
    }

    #[test]
    fn iterators_lead_forwards_and_backwards() {
        let (request, given) = read(&[("iterator", "7"), ("limit", "2")]).expect("valid").split();
        assert_eq!((request.after, request.backwards, request.limit), (Some(7), false, 2));
        let page = HookPage { items: vec![8_u32, 9], done: false };
        let list = List::new(page, given.as_deref(), u32::to_string, Ok).expect("shown");
        assert_eq!(list.iterator.as_deref(), Some("9"));
        assert_eq!(list.prev_iterator.as_deref(), Some("-8"));

        let (request, _) = read(&[("iterator", "-8")]).expect("valid").split();
        assert_eq!((request.after, request.backwards), (Some(8), true));
    }

    #[test]
    fn empty_page_keeps_its_iterator_and_first_page_leads_backwards_too() {
        let nothing = || HookPage { items: Vec::<u32>::new(), done: true };
        let list = List::new(nothing(), Some("9"), u32::to_string, Ok).expect("shown");
        assert_eq!(list.iterator.as_deref(), Some("9"));
        let first = HookPage { items: vec![1_u32], done: true };
        let list = List::new(first, None, u32::to_string, Ok).expect("shown");
        let iterators = (list.iterator.as_deref(), list.prev_iterator.as_deref());
        assert_eq!(iterators, (Some("1"), Some("-1")));
    }

    #[test]
    fn invalid_limits_and_iterators_are_refused() {
        for wrong in [("limit", "0"), ("limit", "251"), ("iterator", "x"), ("order", "up")] {
            assert!(read(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
