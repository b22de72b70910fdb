//! The numbers of capabilities, tags and activity names, which claims use to search their indexes.
//!
//! # Invariants
//! * A number is never removed, so the cache stays correct.
//! * Missing numbers are created in a transaction of their own, so that no write delays another one
//!   with the same name.

use std::collections::{BTreeSet, HashMap};

use parking_lot::RwLock;
use serde::Serialize;
use wakeline_core::{
    ActivityFilter, ActivityName, ActivityNames, ActivityRoute, Capabilities, Capability, Tag,
    TagFilter,
};
use wakeline_store::StoreError;

use super::FlowCore;
use crate::error;
use crate::rows::Columns;

const OPERATION: &str = "resolve names";

/// The maximum number of names of each kind in the cache.
const LEN_MAX: usize = 10_000;

/// The number that stands for no tag, or for no name.
const NONE: i32 = 0;

#[derive(Clone, Copy)]
enum NameKind {
    Capability = 0,
    Tag = 1,
    Activity = 2,
}

/// The cached numbers of names.
#[derive(Default)]
pub(super) struct NumberCache {
    capabilities: RwLock<HashMap<String, i32>>,
    tags: RwLock<HashMap<String, i32>>,
    activities: RwLock<HashMap<String, i32>>,
}

/// A worker's filter as the SQL functions take it: numbers of tags and names; `None` for any.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FilterForm {
    tags: Option<Vec<i32>>,
    names: Option<Vec<i32>>,
}

impl NumberCache {
    fn of(&self, kind: NameKind) -> &RwLock<HashMap<String, i32>> {
        match kind {
            NameKind::Capability => &self.capabilities,
            NameKind::Tag => &self.tags,
            NameKind::Activity => &self.activities,
        }
    }
}

impl FlowCore {
    /// Returns the number of a capability.
    pub(super) async fn capability(&self, name: &Capability) -> Result<i32, StoreError> {
        Ok(self.numbers(NameKind::Capability, [name.as_str()].into()).await?[0])
    }

    /// Returns the numbers of a dispatcher's capabilities; `None` for any.
    pub(super) async fn capabilities(
        &self,
        known: &Capabilities,
    ) -> Result<Option<Vec<i32>>, StoreError> {
        match known {
            Capabilities::Any => Ok(None),
            Capabilities::Of(names) => {
                let names = names.iter().map(Capability::as_str).collect();
                self.numbers(NameKind::Capability, names).await.map(Some)
            }
        }
    }

    /// Returns the numbers of a route as one number: the tag in the upper half, the name in the
    /// lower half.
    pub(super) async fn route(&self, route: &ActivityRoute) -> Result<i64, StoreError> {
        let tag = self.number_if(NameKind::Tag, route.tag.as_ref().map(Tag::as_str)).await?;
        let name = route.name.as_ref().map(ActivityName::as_str);
        let name = self.number_if(NameKind::Activity, name).await?;
        Ok(i64::from(tag) << 32 | i64::from(name))
    }

    /// Returns the numbers of the tags and names that a worker accepts.
    pub(super) async fn filter(&self, filter: &ActivityFilter) -> Result<FilterForm, StoreError> {
        let names = match &filter.names {
            ActivityNames::Any => None,
            ActivityNames::Of(names) => {
                let names = names.iter().map(ActivityName::as_str).collect();
                Some(self.numbers(NameKind::Activity, names).await?)
            }
        };
        Ok(FilterForm { tags: self.tags(&filter.tags).await?, names })
    }

    async fn number_if(&self, kind: NameKind, name: Option<&str>) -> Result<i32, StoreError> {
        match name {
            None => Ok(NONE),
            Some(name) => Ok(self.numbers(kind, [name].into()).await?[0]),
        }
    }

    /// Returns the numbers of a worker's tags; `None` for any.
    async fn tags(&self, taken: &TagFilter) -> Result<Option<Vec<i32>>, StoreError> {
        let TagFilter::Of { untagged, tags } = taken else { return Ok(None) };
        let mut numbers =
            self.numbers(NameKind::Tag, tags.iter().map(Tag::as_str).collect()).await?;
        if *untagged {
            numbers.push(NONE);
        }
        Ok(Some(numbers))
    }

    async fn numbers(&self, kind: NameKind, names: BTreeSet<&str>) -> Result<Vec<i32>, StoreError> {
        let known = |cache: &HashMap<String, i32>| {
            names.iter().map(|name| cache.get(*name).copied()).collect::<Option<Vec<i32>>>()
        };
        if let Some(numbers) = known(&self.names.of(kind).read()) {
            return Ok(numbers);
        }
        let wanted: Vec<&str> = names.iter().copied().collect();
        let rows = self.general(OPERATION, &self.sql.names, &[&(kind as i16), &wanted]).await?;
        let mut found = HashMap::new();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            found.insert(columns.take::<String>()?, columns.take::<i32>()?);
        }
        let numbers = known(&found).ok_or_else(|| error::no_result(OPERATION))?;
        let mut cache = self.names.of(kind).write();
        if cache.len() + found.len() > LEN_MAX {
            cache.clear();
        }
        cache.extend(found);
        Ok(numbers)
    }
}
