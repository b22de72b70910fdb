//! Preserves the privileges that users gave other roles on tables and views: a migration that drops
//! a view and creates it again with other columns would remove them.
//!
//! # Where it sits
//! [`crate::migrate`] reads them before the first migration and restores them after the last, in
//! the same transaction.

use wakeline_store::StoreError;

use crate::connect::{Params, PgTransaction, Sql};
use crate::options::Schema;

/// The privileges of roles other than the owner, by relation and column.
#[derive(Default)]
pub(crate) struct Privileges {
    relations: Vec<u32>,
    names: Vec<String>,
    attributes: Vec<Option<String>>,
    statements: Vec<String>,
}

impl Privileges {
    /// Reads the privileges on all tables and views of a schema.
    pub(crate) async fn read(schema: &Schema, tx: &PgTransaction<'_>) -> Result<Self, StoreError> {
        let read = Sql::new(schema, include_str!("../sql/queries/grants_read.sql"));
        let mut privileges = Self::default();
        for row in tx.query(&read, &[&schema.name()]).await? {
            privileges.relations.push(row.get("oid"));
            privileges.names.push(row.get("name"));
            privileges.attributes.push(row.get("attribute"));
            privileges.statements.push(row.get("statement"));
        }
        Ok(privileges)
    }

    /// Grants again the privileges that were lost with a relation, if there is one of the same
    /// name.
    pub(crate) async fn restore(
        &self,
        schema: &Schema,
        tx: &PgTransaction<'_>,
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
