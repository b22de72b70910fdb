//! Brings a schema up to date: applies each migration once and in order, installs this release's
//! function set, and installs the functions for users unless a newer release has installed them.
//!
//! # Where it sits
//! The SQL files are in [`crate::embedded`]; [`crate::function_sets`] explains function sets.
//!
//! # Invariants
//! * It runs in one transaction under one advisory lock per schema, so that any number of nodes may
//!   start at once, and a failure leaves the schema as it was.
//! * An applied migration never changes: a schema with another checksum is refused.
//! * Objects that a newer release installed are neither changed nor dropped. A schema that a newer
//!   release made unusable for this one is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use wakeline_core::error_chain;
use wakeline_store::StoreError;

use crate::connect::{Params, PgLink, PgTransaction, Sql, fill};
use crate::connector::PgConnector;
use crate::embedded::{FUNCTIONS, MIGRATIONS, SqlFile, TEST_CLOCK};
use crate::function_sets::{self, FunctionSet, Release, set_names};
use crate::options::{PostgresOptions, Schema};
use crate::privileges::Privileges;

pub(crate) const OPERATION: &str = "migrate";

/// The longest time that one migration may take, and that a node waits for another's.
const PATIENCE: Duration = Duration::from_secs(600);

/// The oldest server version with the features that the SQL uses.
const SERVER_VERSION_MIN: i32 = 150_000;

/// The changes that [`migrate_up`] made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Migrations that were applied, in order.
    pub migrations: Vec<String>,
    /// Functions that were installed or replaced.
    pub functions: Vec<String>,
}

/// The state of a schema compared with this binary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostgresMigrationStatus {
    /// Migrations that are in the schema, in order.
    pub applied: Vec<String>,
    /// Migrations that `wakeline migrate up` would apply, in order.
    pub pending: Vec<String>,
    /// Functions that it would install or replace.
    pub functions_pending: Vec<String>,
}

impl PostgresMigrationStatus {
    /// Whether the schema is up to date.
    pub fn is_current(&self) -> bool {
        self.pending.is_empty() && self.functions_pending.is_empty()
    }
}

/// Brings the schema up to date.
pub async fn migrate_up(options: &PostgresOptions) -> Result<MigrationReport, StoreError> {
    let migrator = Migrator::new(options)?;
    let report = migrator.up().await;
    migrator.link.close().await;
    report
}

/// Returns the state of the schema; changes nothing.
pub async fn migrate_status(
    options: &PostgresOptions,
) -> Result<PostgresMigrationStatus, StoreError> {
    let migrator = Migrator::new(options)?;
    let status = migrator.status().await;
    migrator.link.close().await;
    status
}

/// The installed objects, as recorded in the schema.
#[derive(Default)]
struct Installed {
    exists: bool,
    test_clock: bool,
    /// Checksums by name.
    migrations: BTreeMap<String, String>,
    newest: Option<NewestRelease>,
    /// The function set of this program, if it is installed.
    functions: Option<FunctionSet>,
}

struct NewestRelease {
    release: Release,
    oldest: Release,
    api_checksum: String,
}

/// Migrates one schema.
pub(crate) struct Migrator {
    pub(crate) link: PgLink,
    pub(crate) schema: Schema,
    pub(crate) release: Release,
    /// The checksum of this program's function set.
    pub(crate) set: String,
    wants_test_clock: bool,
}

impl Migrator {
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let patient = PostgresOptions { statement_timeout: PATIENCE, ..options.clone() };
        let connector = PgConnector::new("url", &options.url, &patient, "")?;
        let schema = Schema::new(&options.schema)?;
        Ok(Self {
            link: PgLink::new(Arc::new(connector)),
            release: Release::own(options),
            set: function_sets::checksum(&schema, options, FUNCTIONS),
            schema,
            wants_test_clock: options.test_clock,
        })
    }

    /// Brings the schema up to date if the options say so, and returns it with the functions that
    /// this node calls.
    pub(crate) async fn prepare(options: &PostgresOptions) -> Result<Schema, StoreError> {
        let migrator = Self::new(options)?;
        let functions = migrator.prepare_functions(options.migrate).await;
        migrator.link.close().await;
        functions.map(|functions| migrator.schema.with_functions(functions))
    }

    /// Checks the state before it migrates: a node whose role may not change the schema can use a
    /// current one.
    async fn prepare_functions(&self, migrate: bool) -> Result<FunctionSet, StoreError> {
        loop {
            let status = self.status().await?;
            if !status.is_current() && !migrate {
                return Err(self.refuse("is not up to date: run `wakeline migrate up`"));
            }
            if !status.is_current() {
                let report = self.up().await?;
                let (migrations, functions) = (report.migrations.join(" "), report.functions.len());
                tracing::info!(migrations, functions, "schema brought up to date");
            }
            // Without a result, another node found the set unused and dropped it just now.
            let Some(functions) = self.touch().await? else { continue };
            if migrate && let Err(error) = self.drop_unused().await {
                let error = error_chain(&error);
                tracing::warn!(error, "SQL functions of older releases could not be dropped");
            }
            return Ok(functions);
        }
    }

    async fn touch(&self) -> Result<Option<FunctionSet>, StoreError> {
        let touch = self.sql(include_str!("../sql/queries/function_set_touch.sql"));
        let rows = self.link.query(OPERATION, &touch, &[&self.set]).await?;
        Ok(rows.first().map(|row| self.set_at(row.get("place"))))
    }

    pub(crate) fn set_at(&self, place: Option<String>) -> FunctionSet {
        FunctionSet { checksum: self.set.clone(), place }
    }

    async fn status(&self) -> Result<PostgresMigrationStatus, StoreError> {
        let transaction = self.link.begin(OPERATION).await?;
        let installed = self.read_installed(&transaction).await?;
        transaction.rollback().await?;
        self.check(&installed)?;
        let set_missing = installed.functions.is_none();
        let api_pending = self.api_pending(&installed);
        let pending = |file: &&SqlFile| {
            if function_sets::is_in_main_schema(file.name) { api_pending } else { set_missing }
        };
        Ok(PostgresMigrationStatus {
            applied: installed.migrations.keys().cloned().collect(),
            pending: pending_migrations(&installed).map(|file| file.name.to_owned()).collect(),
            functions_pending: FUNCTIONS.iter().filter(pending).map(|f| f.name.into()).collect(),
        })
    }

    async fn up(&self) -> Result<MigrationReport, StoreError> {
        let transaction = self.link.begin(OPERATION).await?;
        let lock = self.sql(include_str!("../sql/queries/migrate_lock.sql"));
        transaction.query(&lock, &[&self.schema.migration_lock()]).await?;
        let report = self.up_locked(&transaction).await;
        match report {
            Ok(report) => transaction.commit().await.map(|()| report),
            Err(error) => {
                // The first error is returned; that of a rollback on a lost connection is ignored.
                let _ = transaction.rollback().await;
                Err(error)
            }
        }
    }

    async fn up_locked(&self, tx: &PgTransaction<'_>) -> Result<MigrationReport, StoreError> {
        self.create_schema(tx).await?;
        let mut installed = self.read_installed(tx).await?;
        self.check(&installed)?;
        if self.wants_test_clock && !installed.test_clock {
            if !installed.migrations.is_empty() {
                return Err(self
                    .refuse("was created without a test clock: give tests a schema of their own"));
            }
            installed.test_clock = true;
        }
        let mut report = MigrationReport::default();
        self.apply_pending(tx, &installed, &mut report).await?;
        // Bodies may name functions and tables that come later in the list.
        tx.script("SET LOCAL check_function_bodies = off").await?;
        let fresh = installed.functions.is_none();
        if fresh {
            installed.functions = Some(self.install_set(tx, &mut report).await?);
        }
        self.install_api(tx, &installed, &mut report).await?;
        if fresh {
            // It needs the clock function, which the previous step has installed.
            let place = installed.functions.and_then(|functions| functions.place);
            let record = self.sql(include_str!("../sql/queries/function_set_record.sql"));
            tx.query(&record, &[&self.set, &self.release.0, &place]).await?;
        }
        Ok(report)
    }

    /// Runs the pending migrations. The privileges that users gave to other roles are preserved.
    async fn apply_pending(
        &self,
        tx: &PgTransaction<'_>,
        installed: &Installed,
        report: &mut MigrationReport,
    ) -> Result<(), StoreError> {
        let record = self.sql(include_str!("../sql/queries/migrate_record.sql"));
        let privileges = Privileges::read(&self.schema, tx).await?;
        for file in pending_migrations(installed) {
            tx.script(&fill(&self.schema, file.text)).await?;
            tx.query(&record, &[&file.name, &checksum(file.text)]).await?;
            report.migrations.push(file.name.to_owned());
        }
        privileges.restore(&self.schema, tx).await
    }

    /// Replaces the functions for users, unless a newer release has installed its own.
    async fn install_api(
        &self,
        tx: &PgTransaction<'_>,
        installed: &Installed,
        report: &mut MigrationReport,
    ) -> Result<(), StoreError> {
        if !self.api_pending(installed) {
            return Ok(());
        }
        let script = self.api_script(installed);
        tx.script(&script).await?;
        let names = FUNCTIONS.iter().map(|file| file.name.to_owned());
        report.functions.extend(names.filter(|name| function_sets::is_in_main_schema(name)));
        let record = self.sql(include_str!("../sql/queries/release_record.sql"));
        let (release, oldest) = (self.release.0, Release::OLDEST.0);
        tx.query(&record, &[&release, &oldest, &checksum(&script), &self.set]).await.map(|_| ())
    }

    /// Whether the functions for users are missing or differ from those of this release. Different
    /// builds of one release occur in development only: the last one that starts wins.
    fn api_pending(&self, installed: &Installed) -> bool {
        let Some(newest) = &installed.newest else { return true };
        let differs = || newest.api_checksum != checksum(&self.api_script(installed));
        newest.release < self.release || newest.release == self.release && differs()
    }

    fn api_script(&self, installed: &Installed) -> String {
        let schema = match &installed.functions {
            Some(functions) => self.schema.with_functions(functions.clone()),
            None => self.schema.clone(),
        };
        let api = FUNCTIONS.iter().filter(|file| function_sets::is_in_main_schema(file.name));
        // A schema that was made with a test clock keeps it.
        let clocks = api.map(|file| match file.name {
            "machine_clock" if installed.test_clock => TEST_CLOCK,
            _ => file,
        });
        clocks.map(|file| fill(&schema, file.text)).collect()
    }

    async fn create_schema(&self, tx: &PgTransaction<'_>) -> Result<(), StoreError> {
        let exists = self.sql(include_str!("../sql/queries/migrate_schema_exists.sql"));
        if tx.query(&exists, &[&self.schema.name()]).await?.is_empty() {
            tx.script(&format!("CREATE SCHEMA {}", self.schema.quoted())).await?;
        }
        if !self.read_installed(tx).await?.exists {
            let bootstrap = include_str!("../sql/queries/migrate_bootstrap.sql");
            tx.script(&fill(&self.schema, bootstrap)).await?;
        }
        Ok(())
    }

    async fn read_installed(&self, tx: &PgTransaction<'_>) -> Result<Installed, StoreError> {
        self.check_server(tx).await?;
        let relations = self.sql(include_str!("../sql/queries/migrate_relations.sql"));
        let rows = tx.query(&relations, &[&self.schema.name()]).await?;
        let present: BTreeSet<String> = rows.iter().map(|row| row.get("name")).collect();
        let mut installed = Installed {
            exists: present.contains("migrations"),
            test_clock: present.contains("test_clock"),
            ..Installed::default()
        };
        if installed.exists {
            let applied = self.sql(include_str!("../sql/queries/migrate_applied.sql"));
            let rows = tx.query(&applied, &[]).await?;
            let migrations = rows.iter().map(|row| (row.get("name"), row.get("checksum")));
            installed.migrations = migrations.collect();
        }
        if present.contains("releases") {
            let newest = self.sql(include_str!("../sql/queries/release_newest.sql"));
            installed.newest = tx.query(&newest, &[]).await?.first().map(|row| NewestRelease {
                release: Release(row.get("release")),
                oldest: Release(row.get("oldest")),
                api_checksum: row.get("api_checksum"),
            });
            let find = self.sql(include_str!("../sql/queries/function_set_find.sql"));
            let params: Params<'_> = &[&self.set, &set_names(), &self.schema.name()];
            let rows = tx.query(&find, params).await?;
            installed.functions = rows.first().map(|row| self.set_at(row.get("place")));
        }
        Ok(installed)
    }

    /// Refuses a server that is too old, instead of failing with a syntax error later.
    async fn check_server(&self, tx: &PgTransaction<'_>) -> Result<(), StoreError> {
        let server = self.sql(include_str!("../sql/queries/migrate_server.sql"));
        let rows = tx.query(&server, &[]).await?;
        let version: i32 = rows.first().map_or(0, |row| row.get("version"));
        if version >= SERVER_VERSION_MIN {
            return Ok(());
        }
        let reason = format!("leads to PostgreSQL {}: use version 15 or later", version / 10_000);
        Err(StoreError::Invalid { field: "url", reason })
    }

    /// Refuses a schema that this program cannot work with.
    fn check(&self, installed: &Installed) -> Result<(), StoreError> {
        let newer = installed.newest.as_ref().filter(|newest| newest.release > self.release);
        if let Some(newer) = newer.filter(|newer| newer.oldest > self.release) {
            return Err(self.refuse(&format!(
                "was upgraded by wakeline {}, which is compatible with nodes of {} and later; this \
                 is {}: use a newer release",
                newer.release, newer.oldest, self.release
            )));
        }
        for (name, applied) in &installed.migrations {
            match MIGRATIONS.iter().find(|file| file.name == name) {
                Some(file) if *applied == checksum(file.text) => {}
                Some(_) => {
                    return Err(self.refuse(&format!(
                        "has migration {name} with another content than this release: use the \
                         release that applied it, or a later one"
                    )));
                }
                None if newer.is_some() => {}
                None => {
                    return Err(self.refuse(&format!(
                        "was migrated by a newer release, with the migration {name}: use that \
                         release or a later one"
                    )));
                }
            }
        }
        match (newer, pending_migrations(installed).next()) {
            (Some(newer), Some(file)) => Err(self.refuse(&format!(
                "was upgraded by wakeline {}, which does not contain the migration {} of this \
                 release: use that release",
                newer.release, file.name
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn sql(&self, template: &str) -> Sql {
        Sql::new(&self.schema, template)
    }

    fn refuse(&self, reason: &str) -> StoreError {
        let reason = format!("{:?} {reason}", self.schema.name());
        StoreError::Invalid { field: "schema", reason }
    }
}

fn pending_migrations(installed: &Installed) -> impl Iterator<Item = &'static SqlFile> {
    MIGRATIONS.iter().filter(|file| !installed.migrations.contains_key(file.name))
}

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
