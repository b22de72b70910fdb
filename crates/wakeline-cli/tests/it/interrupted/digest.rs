//! Reads the contents of a store as a digest of each table.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

/// The digests of all tables, by the names of the tables.
pub(super) type Digest = BTreeMap<String, String>;

/// Returns the names of the tables that differ.
pub(super) fn changed(before: &Digest, after: &Digest) -> Vec<String> {
    let names = before.keys().chain(after.keys());
    let mut names: Vec<_> = names.filter(|name| before.get(*name) != after.get(*name)).collect();
    names.sort();
    names.dedup();
    names.into_iter().cloned().collect()
}

/// The `application_name` of sessions that go through the proxy.
pub(super) const INTERRUPTED: &str = "interrupted";

/// Reads the digests of a PostgreSQL database.
pub(super) struct PostgresReader {
    client: Client,
    sql: String,
}

impl PostgresReader {
    pub(super) async fn new(client: Client) -> Self {
        let tables = "SELECT relname::text FROM pg_class
            WHERE relnamespace = 'wakeline'::regnamespace AND relkind IN ('r', 'p')
            AND NOT relispartition";
        let rows = client.query(tables, &[]).await.expect("tables");
        let one = |row: &tokio_postgres::Row| {
            let table: String = row.get(0);
            format!(
                "SELECT '{table}', coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '')
                 FROM wakeline.\"{table}\" t"
            )
        };
        let sql = rows.iter().map(one).collect::<Vec<_>>().join(" UNION ALL ");
        assert!(rows.len() > 30, "{sql}");
        Self { client, sql }
    }

    pub(super) async fn digest(&self) -> Digest {
        let rows = self.client.query(&self.sql, &[]).await.expect("digests");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Waits until PostgreSQL has ended all sessions that went through the proxy.
    pub(super) async fn settled(&self) {
        let began = Instant::now();
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = $1";
        loop {
            let row = self.client.query_one(sql, &[&INTERRUPTED]).await.expect("counted");
            if row.get::<_, i64>(0) == 0 {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "a backend never ends");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Reads the digests of a SQLite file.
pub(super) fn of_sqlite(path: &std::path::Path) -> Digest {
    let file = rusqlite::Connection::open(path).expect("opened");
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut names = file.prepare(names).expect("prepared");
    let names = names.query_map([], |row| row.get::<_, String>(0)).expect("read");
    let names = names.map(|name| name.expect("a name"));
    names.map(|name| (name.clone(), rows(&file, &name))).collect()
}

fn rows(file: &rusqlite::Connection, table: &str) -> String {
    let mut all = file.prepare(&format!("SELECT * FROM \"{table}\"")).expect("prepared");
    let columns = all.column_count();
    let rows = all.query_map([], |row| {
        let values = (0..columns).map(|index| row.get::<_, rusqlite::types::Value>(index));
        values.map(|value| Ok(format!("{:?}", value?))).collect::<Result<Vec<_>, _>>()
    });
    let mut rows: Vec<_> = rows.expect("read").map(|row| row.expect("a row").join(",")).collect();
    rows.sort();
    rows.join("\n")
}
