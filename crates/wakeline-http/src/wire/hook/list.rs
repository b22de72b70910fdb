//! Lists, a page at a time, with iterators that lead on and back.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::hook::{Page, PageOrder, PageRequest};

use crate::error::ApiError;
use crate::input::Params;

/// Items of a page if it does not say, and most that it may ask for.
const LIMIT_DEFAULT: u64 = 50;
const LIMIT_MAX: u64 = 250;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct List<T> {
    /// The items.
    pub(crate) data: Vec<T>,
    /// Whether this was the last page in the direction that was asked for.
    pub(crate) done: bool,
    /// What to send as `iterator` to go on.
    pub(crate) iterator: Option<String>,
    /// What to send as `iterator` to go back.
    pub(crate) prev_iterator: Option<String>,
}

/// Which page a request asks for: an iterator is the text of a key, with a `-` before it to go
/// towards the list's start.
pub(crate) struct Paging<K> {
    pub(crate) request: PageRequest<K>,
    given: Option<String>,
}

impl<K> Paging<K> {
    /// Reads `limit`, `iterator` and `order`.
    pub(crate) fn read(
        params: &Params,
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
                    format!("iterator must be one that an earlier answer returned, not {text:?}");
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
    /// A page as its answer. `key` gives the text by which a list goes on behind an item.
    pub(crate) fn new<S>(
        page: Page<S>,
        given: Option<&str>,
        key: impl Fn(&S) -> String,
        show: impl FnMut(S) -> Result<T, ApiError>,
    ) -> Result<Self, ApiError> {
        let last = page.items.last().map(&key);
        let first = page.items.first().map(&key);
        let stay = || given.filter(|text| !text.starts_with('-')).map(str::to_owned);
        Ok(Self {
            iterator: last.or_else(stay),
            // Also of the first page: what is listed newest first grows there.
            prev_iterator: first.map(|key| format!("-{key}")),
            done: page.done,
            data: page.items.into_iter().map(show).collect::<Result<_, _>>()?,
        })
    }
}

impl<K> Paging<K> {
    /// The page's request, and the iterator that it came with.
    pub(crate) fn split(self) -> (PageRequest<K>, Option<String>) {
        (self.request, self.given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Paging<u32>, ApiError> {
        Paging::read(&Params::of(pairs), PageOrder::Ascending, |text| text.parse().ok())
    }

    #[test]
    fn iterators_lead_on_and_back() {
        let (request, given) = read(&[("iterator", "7"), ("limit", "2")]).expect("valid").split();
        assert_eq!((request.after, request.backwards, request.limit), (Some(7), false, 2));
        let page = Page { items: vec![8_u32, 9], done: false };
        let list = List::new(page, given.as_deref(), u32::to_string, Ok).expect("shown");
        assert_eq!(list.iterator.as_deref(), Some("9"));
        assert_eq!(list.prev_iterator.as_deref(), Some("-8"));

        let (request, _) = read(&[("iterator", "-8")]).expect("valid").split();
        assert_eq!((request.after, request.backwards), (Some(8), true));
    }

    #[test]
    fn a_page_behind_the_end_keeps_its_place_and_the_first_leads_back_too() {
        let nothing = || Page { items: Vec::<u32>::new(), done: true };
        let list = List::new(nothing(), Some("9"), u32::to_string, Ok).expect("shown");
        assert_eq!(list.iterator.as_deref(), Some("9"));
        let first = Page { items: vec![1_u32], done: true };
        let list = List::new(first, None, u32::to_string, Ok).expect("shown");
        let iterators = (list.iterator.as_deref(), list.prev_iterator.as_deref());
        assert_eq!(iterators, (Some("1"), Some("-1")));
    }

    #[test]
    fn limits_and_iterators_that_cannot_be_are_refused() {
        for wrong in [("limit", "0"), ("limit", "251"), ("iterator", "x"), ("order", "up")] {
            assert!(read(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
