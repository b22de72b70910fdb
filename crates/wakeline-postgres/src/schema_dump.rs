//! Dumps the migrated schema as text, so that a change of it appears as a diff in a review.

use std::sync::Arc;

use tokio_postgres::Row;
use wakeline_store::StoreError;

use crate::connect::{PgLink, Sql};
use crate::connector::PgConnector;
use crate::options::{PostgresOptions, Schema};

/// Reads a schema from the catalogs. The text does not depend on the schema's name, which is
/// replaced by `wakeline`.
pub async fn dump_schema(options: &PostgresOptions) -> Result<String, StoreError> {
    let schema = Schema::new(&options.schema)?;
    let link = PgLink::new(Arc::new(PgConnector::new("url", &options.url, options, "")?));
    let rows = read(&link, &schema).await;
    link.close().await;
    let mut text = String::new();
    for row in rows? {
        text.push_str(row.get("text"));
        text.push('\n');
    }
    Ok(normalised(&schema, &text))
}

async fn read(link: &PgLink, schema: &Schema) -> Result<Vec<Row>, StoreError> {
    let dump = Sql::new(schema, include_str!("../sql/queries/schema_dump.sql"));
    let transaction = link.begin("dump schema").await?;
    // With an empty search path the catalogs qualify all names.
    transaction.script("SET LOCAL search_path = ''").await?;
    let rows = transaction.query(&dump, &[&schema.name()]).await?;
    transaction.rollback().await.map(|()| rows)
}

fn normalised(schema: &Schema, text: &str) -> String {
    let names = [format!("{}.", schema.quoted()), format!("{}.", schema.name())];
    let mut text = text.to_owned();
    for name in names {
        text = text.replace(&name, "wakeline.");
    }
    text.replace(&schema.channel(), "@channel@")
}
