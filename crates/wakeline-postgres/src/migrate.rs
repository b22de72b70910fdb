//! Brings a schema up to date: migrations once and in order, functions whenever their text changed.
//!
//! # Where it sits
//! [`crate::PostgresStore::connect`] and `wakeline migrate` call it. The files are in
//! [`crate::embedded`].
//!
//! # Invariants
//! * All of it is one transaction under one advisory lock per schema, so that any number of nodes
//!   may start at once, and a failure leaves the schema as it was.
//! * An applied migration never changes: a differing checksum is refused.
//! * A schema newer than this binary is refused, not guessed at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use wakeline_store::StoreError;

use crate::connect::{Link, LinkTransaction, Sql, fill};
use crate::connector::Connector;
use crate::embedded::{FUNCTIONS, MIGRATIONS, SqlFile, TEST_CLOCK};
use crate::options::{PostgresOptions, Schema};

const OPERATION: &str = "migrate";

/// Longest time that one migration may take, and that a node waits for another's.
const PATIENCE: Duration = Duration::from_secs(600);

/// The oldest server that has what the SQL uses.
const SERVER_VERSION_MIN: i32 = 150_000;

/// What [`migrate_up`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Migrations that were applied, in order.
    pub migrations: Vec<String>,
    /// Functions that were put in place or replaced.
    pub functions: Vec<String>,
}

/// How a schema stands against this binary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Migrations that are in the schema, in order.
    pub applied: Vec<String>,
    /// Migrations that `wakeline migrate up` would apply, in order.
    pub pending: Vec<String>,
    /// Functions that it would put in place, replace or drop.
    pub functions_pending: Vec<String>,
}

impl MigrationStatus {
    /// Whether there is nothing to do.
    pub fn is_current(&self) -> bool {
        self.pending.is_empty() && self.functions_pending.is_empty()
    }
}

/// Brings the schema up to date.
pub async fn migrate_up(options: &PostgresOptions) -> Result<MigrationReport, StoreError> {
    let migrator = Migrator::new(options, MIGRATIONS, FUNCTIONS)?;
    let report = migrator.up().await;
    migrator.link.close().await;
    report
}

/// Tells how the schema stands; changes nothing.
pub async fn migrate_status(options: &PostgresOptions) -> Result<MigrationStatus, StoreError> {
    let migrator = Migrator::new(options, MIGRATIONS, FUNCTIONS)?;
    let status = migrator.status().await;
    migrator.link.close().await;
    status
}

/// What is in the schema, by the book-keeping tables: names and checksums.
#[derive(Default)]
struct Books {
    exist: bool,
    test_clock: bool,
    migrations: BTreeMap<String, String>,
    functions: BTreeMap<String, String>,
}

/// Migrates one schema. The files are parameters, so that tests can change them.
pub(crate) struct Migrator<'a> {
    link: Link,
    schema: Schema,
    wants_test_clock: bool,
    migrations: &'a [SqlFile],
    functions: &'a [SqlFile],
}

impl<'a> Migrator<'a> {
    pub(crate) fn new(
        options: &PostgresOptions,
        migrations: &'a [SqlFile],
        functions: &'a [SqlFile],
    ) -> Result<Self, StoreError> {
        let patient = PostgresOptions { statement_timeout: PATIENCE, ..options.clone() };
        let connector = Connector::new("url", &options.url, &patient, "")?;
        Ok(Self {
            link: Link::new(Arc::new(connector)),
            schema: Schema::new(&options.schema)?,
            wants_test_clock: options.test_clock,
            migrations,
            functions,
        })
    }

    pub(crate) async fn status(&self) -> Result<MigrationStatus, StoreError> {
        let transaction = self.link.begin(OPERATION).await?;
        let books = self.read_books(&transaction).await?;
        transaction.rollback().await?;
        self.check(&books)?;
        Ok(MigrationStatus {
            applied: books.migrations.keys().cloned().collect(),
            pending: self.pending(&books).map(|file| file.name.to_owned()).collect(),
            functions_pending: self
                .changed_functions(&books)
                .iter()
                .map(|file| file.name.to_owned())
                .chain(self.dropped_functions(&books))
                .collect(),
        })
    }

    pub(crate) async fn up(&self) -> Result<MigrationReport, StoreError> {
        let transaction = self.link.begin(OPERATION).await?;
        let lock = self.sql(include_str!("../sql/queries/migrate_lock.sql"));
        transaction.query(&lock, &[&self.schema.migration_lock()]).await?;
        let report = self.up_locked(&transaction).await;
        match report {
            Ok(report) => transaction.commit().await.map(|()| report),
            Err(error) => {
                // The first error counts; that of a rollback on a lost connection does not.
                let _ = transaction.rollback().await;
                Err(error)
            }
        }
    }

    async fn up_locked(&self, tx: &LinkTransaction<'_>) -> Result<MigrationReport, StoreError> {
        self.create_schema(tx).await?;
        let mut books = self.read_books(tx).await?;
        self.check(&books)?;
        if self.wants_test_clock && !books.test_clock {
            if !books.migrations.is_empty() {
                return Err(self.refuse("has a true clock; tests need a schema of their own"));
            }
            books.test_clock = true;
        }
        let mut report = MigrationReport::default();
        let record = self.sql(include_str!("../sql/queries/migrate_record.sql"));
        for file in self.pending(&books) {
            tx.script(&fill(&self.schema, file.text)).await?;
            tx.query(&record, &[&file.name, &checksum(file.text)]).await?;
            report.migrations.push(file.name.to_owned());
        }
        // Bodies may name functions and tables that come later in the list.
        tx.script("SET LOCAL check_function_bodies = off").await?;
        for file in self.changed_functions(&books) {
            self.replace_function(tx, file).await?;
            report.functions.push(file.name.to_owned());
        }
        for name in self.dropped_functions(&books) {
            self.drop_overloads(tx, &name).await?;
            let forget = self.sql(include_str!("../sql/queries/migrate_forget_function.sql"));
            tx.query(&forget, &[&name]).await?;
        }
        Ok(report)
    }

    async fn create_schema(&self, tx: &LinkTransaction<'_>) -> Result<(), StoreError> {
        let exists = self.sql(include_str!("../sql/queries/migrate_schema_exists.sql"));
        if tx.query(&exists, &[&self.schema.name()]).await?.is_empty() {
            tx.script(&format!("CREATE SCHEMA {}", self.schema.quoted())).await?;
        }
        if !self.read_books(tx).await?.exist {
            let bootstrap = include_str!("../sql/queries/migrate_bootstrap.sql");
            tx.script(&fill(&self.schema, bootstrap)).await?;
        }
        Ok(())
    }

    async fn read_books(&self, tx: &LinkTransaction<'_>) -> Result<Books, StoreError> {
        self.check_server(tx).await?;
        let relations = self.sql(include_str!("../sql/queries/migrate_relations.sql"));
        let rows = tx.query(&relations, &[&self.schema.name()]).await?;
        let present: BTreeSet<String> = rows.iter().map(|row| row.get("name")).collect();
        let mut books = Books {
            exist: present.contains("migrations") && present.contains("function_checksums"),
            test_clock: present.contains("test_clock"),
            ..Books::default()
        };
        if books.exist {
            let applied = self.sql(include_str!("../sql/queries/migrate_books.sql"));
            for row in tx.query(&applied, &[]).await? {
                let names = match row.get("kind") {
                    "migration" => &mut books.migrations,
                    _ => &mut books.functions,
                };
                names.insert(row.get("name"), row.get("checksum"));
            }
        }
        Ok(books)
    }

    /// Refuses a server that is too old, before its first syntax error does.
    async fn check_server(&self, tx: &LinkTransaction<'_>) -> Result<(), StoreError> {
        let server = self.sql(include_str!("../sql/queries/migrate_server.sql"));
        let rows = tx.query(&server, &[]).await?;
        let version: i32 = rows.first().map_or(0, |row| row.get("version"));
        if version >= SERVER_VERSION_MIN {
            return Ok(());
        }
        let reason = format!("leads to PostgreSQL {}, 15 or later is needed", version / 10_000);
        Err(StoreError::Invalid { field: "url", reason })
    }

    /// Refuses a schema that this binary does not understand.
    fn check(&self, books: &Books) -> Result<(), StoreError> {
        for (name, applied) in &books.migrations {
            let Some(file) = self.migrations.iter().find(|file| file.name == name) else {
                return Err(self.refuse(&format!(
                    "was migrated by a newer wakeline: this one does not know migration {name}"
                )));
            };
            if *applied != checksum(file.text) {
                return Err(self.refuse(&format!(
                    "has migration {name} with another content than this wakeline: \
                     an applied migration must not change"
                )));
            }
        }
        Ok(())
    }

    fn pending(&self, books: &Books) -> impl Iterator<Item = &'a SqlFile> {
        self.migrations.iter().filter(|file| !books.migrations.contains_key(file.name))
    }

    fn changed_functions(&self, books: &Books) -> Vec<&'a SqlFile> {
        let current = |file: &SqlFile| books.functions.get(file.name) == Some(&checksum(file.text));
        self.functions
            .iter()
            .map(|file| match file.name {
                // A schema that was made with a test's clock keeps it.
                "clock" if books.test_clock => TEST_CLOCK,
                _ => file,
            })
            .filter(|file| !current(file))
            .collect()
    }

    fn dropped_functions(&self, books: &Books) -> Vec<String> {
        let known = |name: &String| self.functions.iter().any(|file| file.name == name);
        books.functions.keys().filter(|name| !known(name)).cloned().collect()
    }

    async fn replace_function(
        &self,
        tx: &LinkTransaction<'_>,
        file: &SqlFile,
    ) -> Result<(), StoreError> {
        self.drop_overloads(tx, file.name).await?;
        tx.script(&fill(&self.schema, file.text)).await?;
        let record = self.sql(include_str!("../sql/queries/migrate_record_function.sql"));
        tx.query(&record, &[&file.name, &checksum(file.text)]).await.map(|_| ())
    }

    async fn drop_overloads(&self, tx: &LinkTransaction<'_>, name: &str) -> Result<(), StoreError> {
        let overloads = self.sql(include_str!("../sql/queries/migrate_overloads.sql"));
        for row in tx.query(&overloads, &[&self.schema.name(), &name]).await? {
            tx.script(&format!("DROP FUNCTION {}", row.get::<_, &str>("name"))).await?;
        }
        Ok(())
    }

    fn sql(&self, template: &str) -> Sql {
        Sql::new(&self.schema, template)
    }

    fn refuse(&self, reason: &str) -> StoreError {
        let reason = format!("{:?} {reason}", self.schema.name());
        StoreError::Invalid { field: "schema", reason }
    }
}

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
