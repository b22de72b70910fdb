//! Removes a schema that was made for temporary use, such as that of a benchmark.

use wakeline_store::StoreError;

use crate::migrate::{Migrator, OPERATION};
use crate::options::PostgresOptions;

/// Removes the schema with all its data, and the functions that belong to it. This cannot be
/// undone. A schema that does not exist is no error.
pub async fn remove_schema(options: &PostgresOptions) -> Result<(), StoreError> {
    let migrator = Migrator::new(options)?;
    let removed = migrator.remove().await;
    migrator.link.close().await;
    removed
}

impl Migrator {
    async fn remove(&self) -> Result<(), StoreError> {
        let transaction = self.link.begin(OPERATION).await?;
        let exists = self.sql(include_str!("../sql/queries/migrate_schema_exists.sql"));
        if !transaction.query(&exists, &[&self.schema.name()]).await?.is_empty() {
            let places = self.sql(include_str!("../sql/queries/function_set_places.sql"));
            for row in transaction.query(&places, &[]).await? {
                let place: &str = row.get("place");
                transaction.script(&format!("DROP SCHEMA IF EXISTS \"{place}\" CASCADE")).await?;
            }
            let drop = format!("DROP SCHEMA {} CASCADE", self.schema.quoted());
            transaction.script(&drop).await?;
        }
        transaction.commit().await
    }
}
