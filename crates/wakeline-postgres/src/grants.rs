//! Grants that users gave on tables and views survive migrations: one that drops a view to create
//! it again with other columns would take them away.
//!
//! # Where it sits
//! [`crate::migrate`] reads them before the first migration and restores them after the last, in
//! the same transaction.

use wakeline_store::StoreError;

use crate::connect::{LinkTransaction, Params, Sql};
use crate::options::Schema;

/// What others than the owner were granted, by relation and column.
#[derive(Default)]
pub(crate) struct Grants {
    relations: Vec<u32>,
    names: Vec<String>,
    attributes: Vec<Option<String>>,
    statements: Vec<String>,
}

impl Grants {
    /// Those of all tables and views of a schema.
    pub(crate) async fn read(
        schema: &Schema,
        tx: &LinkTransaction<'_>,
    ) -> Result<Self, StoreError> {
        let read = Sql::new(schema, include_str!("../sql/queries/grants_read.sql"));
        let mut grants = Self::default();
        for row in tx.query(&read, &[&schema.name()]).await? {
            grants.relations.push(row.get("oid"));
            grants.names.push(row.get("name"));
            grants.attributes.push(row.get("attribute"));
            grants.statements.push(row.get("statement"));
        }
        Ok(grants)
    }

    /// Gives again what was lost with a relation that is there under the same name.
    pub(crate) async fn restore(
        &self,
        schema: &Schema,
        tx: &LinkTransaction<'_>,
    ) -> Result<(), StoreError> {
        let lost = Sql::new(schema, include_str!("../sql/queries/grants_lost.sql"));
        let params: Params<'_> =
            &[&schema.name(), &self.relations, &self.names, &self.attributes, &self.statements];
        for row in tx.query(&lost, params).await? {
            tx.script(row.get("statement")).await?;
        }
        Ok(())
    }
}
