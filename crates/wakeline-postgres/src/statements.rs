//! Counts the statements of a schema that PostgreSQL has executed.

use wakeline_store::StoreError;

use crate::connect::Sql;
use crate::migrate::Migrator;
use crate::options::PostgresOptions;
use crate::rows::Columns;

const OPERATION: &str = "count statements";

/// Returns how many statements that name the schema the role of the options has executed in its
/// database, according to the extension `pg_stat_statements`. `None` if that is not installed
/// there, or may not be read.
pub async fn count_statements(options: &PostgresOptions) -> Result<Option<u64>, StoreError> {
    let migrator = Migrator::new(options)?;
    let counted = migrator.count_statements().await;
    migrator.link.close().await;
    counted
}

impl Migrator {
    async fn count_statements(&self) -> Result<Option<u64>, StoreError> {
        let place = self.sql(include_str!("../sql/queries/statements_place.sql"));
        let rows = self.link.query(OPERATION, &place, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let place: String = Columns::new(OPERATION, row).take()?;
        let count = include_str!("../sql/queries/statements_count.sql");
        let count = Sql::new(&self.schema, &count.replace("@statements@", &place));
        // The library may not be loaded, or this role may not read it: then the count is unknown.
        let Ok(rows) = self.link.query(OPERATION, &count, &[&self.schema.name()]).await else {
            return Ok(None);
        };
        let Some(row) = rows.first() else { return Ok(None) };
        let calls: i64 = Columns::new(OPERATION, row).take()?;
        Ok(u64::try_from(calls).ok())
    }
}
