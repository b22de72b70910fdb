//! The migrated schema as text, so that a change of it shows as a diff in review.

use std::sync::Arc;

use wakeline_store::StoreError;

use crate::connect::{Link, Sql};
use crate::connector::Connector;
use crate::options::{PostgresOptions, Schema};

/// Reads a schema from the catalogs. The same schema gives the same text under any name: it is
/// called `wakeline` in it.
pub async fn dump_schema(options: &PostgresOptions) -> Result<String, StoreError> {
    let schema = Schema::new(&options.schema)?;
    // Without a search path the catalogs name everything in full.
    let connector =
        Connector::new("url", &options.url, options, "")?.with_session("SET search_path = ''");
    let link = Link::new(Arc::new(connector));
    let dump = Sql::new(&schema, include_str!("../sql/queries/schema_dump.sql"));
    let rows = link.query("dump schema", &dump, &[&schema.name()]).await;
    link.close().await;
    let mut text = String::new();
    for row in rows? {
        text.push_str(row.get("text"));
        text.push('\n');
    }
    Ok(normalised(&schema, &text))
}

fn normalised(schema: &Schema, text: &str) -> String {
    let names = [format!("{}.", schema.quoted()), format!("{}.", schema.name())];
    let mut text = text.to_owned();
    for name in names {
        text = text.replace(&name, "wakeline.");
    }
    text.replace(&schema.channel(), "@channel@")
}
