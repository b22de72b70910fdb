//! The SQL functions that nodes call: one set per release, side by side in the database.
//!
//! # Where it sits
//! [`crate::migrate`] installs sets and drops unused ones; [`crate::session::fill`] puts the names
//! of a node's own set into its statements.
//!
//! # Invariants
//! * A set never changes: functions with another text form another set, under another name.
//! * Functions that users call ([`MAIN_SCHEMA_FUNCTIONS`]) are not part of a set. They are in the
//!   main schema under stable names, and call the set of the newest release.

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio_util::sync::{CancellationToken, DropGuard};
use wakeline_core::error_chain;

use wakeline_store::StoreError;

use crate::connect::{Params, PgTransaction, fill};
use crate::embedded::{FUNCTIONS, MAIN_SCHEMA_FUNCTIONS, SqlFile};
use crate::migrate::{MigrationReport, Migrator, OPERATION};
use crate::options::{PostgresOptions, Schema};

/// How often a node records that it uses its set: much more often than weekly, because a set that
/// was unused for a week is dropped.
const TOUCH_INTERVAL: Duration = Duration::from_secs(3600);

/// The number of bytes of the main schema's name in the name of a set's schema, so that this fits
/// into the 63 bytes of an identifier. The checksum distinguishes names that are cut off.
const NAME_LEN_MAX: usize = 40;

/// A version of this program, as a number that only grows: 1.2.3 is 1002003.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(pub(crate) i32);

impl Release {
    /// The oldest release that works with the tables as this one leaves them. It moves when a
    /// migration removes what older programs need: one release after the last program that needs
    /// it.
    pub(crate) const OLDEST: Self = Self(1_000);

    /// The release of this program.
    pub(crate) fn own(options: &PostgresOptions) -> Self {
        let number = |text: &str| text.parse::<i32>().expect("cargo gives numbers");
        let version = number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
            + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
            + number(env!("CARGO_PKG_VERSION_PATCH"));
        Self(options.test_release.unwrap_or(version))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0 / 1_000_000, self.0 / 1_000 % 1_000, self.0 % 1_000)
    }
}

/// An installed set of functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionSet {
    pub(crate) checksum: String,
    /// The schema of the set. `None` if the role that installed it may not create schemas: then the
    /// functions are in the main schema, and their names end with the checksum.
    pub(crate) place: Option<String>,
}

impl FunctionSet {
    /// The qualified SQL name of a function of the set.
    pub(crate) fn function(&self, main: &str, name: &str) -> String {
        match &self.place {
            Some(place) => format!("\"{place}\".{name}"),
            None => format!("\"{main}\".{name}_{}", self.checksum),
        }
    }
}

/// The name of the schema for a set.
pub(crate) fn schema_for(main: &str, checksum: &str) -> String {
    let len = main.len().min(NAME_LEN_MAX);
    format!("{}_fn_{checksum}", &main[..len])
}

/// Whether a function belongs to a set.
pub(crate) fn is_in_set(name: &str) -> bool {
    FUNCTIONS.binary_search_by(|file| file.name.cmp(name)).is_ok() && !is_in_main_schema(name)
}

/// The names of the functions of a set.
pub(crate) fn set_names() -> Vec<&'static str> {
    FUNCTIONS.iter().map(|file| file.name).filter(|name| !is_in_main_schema(name)).collect()
}

/// Whether a function is in the main schema: users call it, or something that outlives sets does.
pub(crate) fn is_in_main_schema(name: &str) -> bool {
    MAIN_SCHEMA_FUNCTIONS.contains(&name)
}

/// The checksum of the function set in this program.
pub(crate) fn checksum(schema: &Schema, options: &PostgresOptions, files: &[SqlFile]) -> String {
    let mut digest = Sha256::new();
    digest.update(schema.name());
    digest.update(options.test_release.unwrap_or_default().to_be_bytes());
    for file in files.iter().filter(|file| !is_in_main_schema(file.name)) {
        digest.update(file.name);
        digest.update([0]);
        digest.update(file.text);
    }
    digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

impl Migrator {
    /// Installs this program's function set, in a schema of its own if the role may create one.
    pub(crate) async fn install_set(
        &self,
        tx: &PgTransaction<'_>,
        report: &mut MigrationReport,
    ) -> Result<FunctionSet, StoreError> {
        let may = self.sql(include_str!("../sql/queries/function_set_may_create.sql"));
        let rows = tx.query(&may, &[]).await?;
        let own_schema = rows.first().is_some_and(|row| row.get("may"));
        let place = own_schema.then(|| schema_for(self.schema.name(), &self.set));
        let mut script = place.as_ref().map_or(String::new(), |place| {
            // An existing schema is left over from a main schema that was dropped or restored. The
            // functions run with the rights of their callers, so that `GRANT USAGE` gives no rights
            // on the data.
            format!(
                "DROP SCHEMA IF EXISTS \"{place}\" CASCADE; CREATE SCHEMA \"{place}\";
                 GRANT USAGE ON SCHEMA \"{place}\" TO PUBLIC;\n"
            )
        });
        let functions = self.set_at(place);
        let schema = self.schema.with_functions(functions.clone());
        for file in FUNCTIONS.iter().filter(|file| !is_in_main_schema(file.name)) {
            script.push_str(&fill(&schema, file.text));
            report.functions.push(file.name.to_owned());
        }
        tx.script(&script).await?;
        Ok(functions)
    }

    /// Drops function sets of this release and older ones that no node has used for a week.
    pub(crate) async fn drop_unused(&self) -> Result<(), StoreError> {
        let unused = self.sql(include_str!("../sql/queries/function_set_unused.sql"));
        let params: Params<'_> = &[&self.release.0, &self.set, &self.schema.name()];
        let unused = self.link.query(OPERATION, &unused, params).await?;
        if unused.is_empty() {
            return Ok(());
        }
        let tx = self.link.begin(OPERATION).await?;
        let lock = self.sql(include_str!("../sql/queries/migrate_try_lock.sql"));
        let locked = tx.query(&lock, &[&self.schema.migration_lock()]).await?;
        if locked.first().is_some_and(|row| row.get("locked")) {
            for row in &unused {
                self.drop_set(&tx, row.get("checksum"), row.get("place")).await?;
            }
        }
        tx.commit().await
    }

    async fn drop_set(
        &self,
        tx: &PgTransaction<'_>,
        set: &str,
        place: Option<&str>,
    ) -> Result<(), StoreError> {
        let forget = self.sql(include_str!("../sql/queries/function_set_forget.sql"));
        if tx.query(&forget, &[&set]).await?.is_empty() {
            return Ok(());
        }
        tracing::info!(set, "dropping the SQL functions of a release that no node uses any more");
        if let Some(place) = place {
            return tx.script(&format!("DROP SCHEMA IF EXISTS \"{place}\" CASCADE")).await;
        }
        let functions = self.sql(include_str!("../sql/queries/function_set_functions.sql"));
        for row in tx.query(&functions, &[&self.schema.name(), &set]).await? {
            tx.script(&format!("DROP FUNCTION {}", row.get::<_, &str>("name"))).await?;
        }
        Ok(())
    }
}

/// Records once an hour that a node uses its set, until the returned guard is dropped. It installs
/// the set again if it is missing: because the node could not record its use for a week, or after a
/// restore in place.
pub(crate) fn keep_in_use(options: &PostgresOptions) -> DropGuard {
    let gone = CancellationToken::new();
    let guard = gone.clone().drop_guard();
    let options = options.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = gone.cancelled() => return,
                () = tokio::time::sleep(TOUCH_INTERVAL) => {}
            }
            if let Err(error) = Migrator::prepare(&options).await {
                let error = error_chain(&error);
                tracing::warn!(
                    error,
                    "cannot record that this node uses the SQL functions of its release"
                );
            }
        }
    });
    guard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_main_schema_function_exists_and_is_in_no_set() {
        for name in MAIN_SCHEMA_FUNCTIONS {
            assert!(FUNCTIONS.iter().any(|file| file.name == *name), "{name}");
            assert!(!is_in_set(name), "{name}");
        }
        assert!(is_in_set("claim") && !is_in_set("messages"));
    }

    #[test]
    fn function_set_names_fit_for_every_schema_name() {
        let name = schema_for(&"s".repeat(63), "0123456789ab");
        assert!(name.len() <= 63 && name.ends_with("_fn_0123456789ab"));
        assert!(FUNCTIONS.iter().all(|file| file.name.len() + 13 <= 63));
    }

    #[test]
    fn releases_are_ordered_like_versions() {
        assert_eq!(Release(1_002_003).to_string(), "1.2.3");
        assert!(Release::own(&PostgresOptions::new("")) >= Release::OLDEST);
    }
}
