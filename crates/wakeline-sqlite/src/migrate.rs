//! Migrates the schema: forward only, each migration once, under the write lock.
//!
//! # Invariants
//! * An applied migration never changes: a different checksum is refused, and so is a schema that
//!   is newer than this program.
//! * Any number of processes may start at once; each migration is applied by one of them.

use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};
use wakeline_store::StoreError;

use crate::connect::{self, Role};
use crate::error::{Res, StoreFault, unusable};
use crate::options::SqliteOptions;

const MIGRATE: &str = "migrate";

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "queue", sql: include_str!("../sql/migrations/0001_queue.sql") },
    Migration { version: 2, name: "flow", sql: include_str!("../sql/migrations/0002_flow.sql") },
    Migration { version: 3, name: "hook", sql: include_str!("../sql/migrations/0003_hook.sql") },
    Migration {
        version: 4,
        name: "redrives",
        sql: include_str!("../sql/migrations/0004_redrives.sql"),
    },
    Migration {
        version: 5,
        name: "housekeeping",
        sql: include_str!("../sql/migrations/0005_housekeeping.sql"),
    },
    Migration {
        version: 6,
        name: "access",
        sql: include_str!("../sql/migrations/0006_access.sql"),
    },
    Migration {
        version: 7,
        name: "scheduled",
        sql: include_str!("../sql/migrations/0007_scheduled.sql"),
    },
    Migration {
        version: 8,
        name: "traces",
        sql: include_str!("../sql/migrations/0008_traces.sql"),
    },
    Migration { version: 9, name: "drops", sql: include_str!("../sql/migrations/0009_drops.sql") },
    Migration { version: 10, name: "stats", sql: include_str!("../sql/migrations/0010_stats.sql") },
    Migration {
        version: 11,
        name: "ledger",
        sql: include_str!("../sql/migrations/0011_ledger.sql"),
    },
    Migration {
        version: 12,
        name: "maintenance",
        sql: include_str!("../sql/migrations/0012_maintenance.sql"),
    },
    Migration {
        version: 13,
        name: "deleted messages",
        sql: include_str!("../sql/migrations/0013_deleted_messages.sql"),
    },
    Migration { version: 14, name: "clock", sql: include_str!("../sql/migrations/0014_clock.sql") },
    Migration {
        version: 15,
        name: "idle groups",
        sql: include_str!("../sql/migrations/0015_idle_groups.sql"),
    },
    Migration {
        version: 16,
        name: "batches",
        sql: include_str!("../sql/migrations/0016_batches.sql"),
    },
    Migration {
        version: 17,
        name: "instance starts",
        sql: include_str!("../sql/migrations/0017_instance_starts.sql"),
    },
    Migration {
        version: 18,
        name: "activity names",
        sql: include_str!("../sql/migrations/0018_activity_names.sql"),
    },
    Migration {
        version: 19,
        name: "unclaimed",
        sql: include_str!("../sql/migrations/0019_unclaimed.sql"),
    },
    Migration {
        version: 20,
        name: "lane leftovers",
        sql: include_str!("../sql/migrations/0020_lane_leftovers.sql"),
    },
    Migration {
        version: 21,
        name: "hook deletions",
        sql: include_str!("../sql/migrations/0021_hook_deletions.sql"),
    },
    Migration {
        version: 22,
        name: "activity errors",
        sql: include_str!("../sql/migrations/0022_activity_errors.sql"),
    },
    Migration {
        version: 23,
        name: "fan-outs",
        sql: include_str!("../sql/migrations/0023_fan_outs.sql"),
    },
    Migration {
        version: 24,
        name: "mailboxes",
        sql: include_str!("../sql/migrations/0024_mailboxes.sql"),
    },
    Migration {
        version: 25,
        name: "pending parents",
        sql: include_str!("../sql/migrations/0025_pending_parents.sql"),
    },
    Migration {
        version: 26,
        name: "prunable",
        sql: include_str!("../sql/migrations/0026_prunable.sql"),
    },
    Migration {
        version: 27,
        name: "child lists",
        sql: include_str!("../sql/migrations/0027_child_lists.sql"),
    },
];

/// One migration and whether it was applied to the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    /// The migration's number. Migrations are applied in this order.
    pub version: i64,
    /// A short description of the migration.
    pub name: String,
    /// Whether the migration was applied to the database.
    pub applied: bool,
}

/// Applies all missing migrations, and creates the database if it does not exist. Returns all
/// migrations.
pub async fn migrate_up(options: &SqliteOptions) -> Result<Vec<MigrationStatus>, StoreError> {
    blocking(options, |options| {
        connect::refuse_network(options)?;
        let conn = connect::open(options, Role::Writer)?;
        up(&conn)?;
        status(&conn)
    })
    .await
}

/// Returns all migrations and whether each was applied. Does not create a database.
pub async fn migrate_status(options: &SqliteOptions) -> Result<Vec<MigrationStatus>, StoreError> {
    blocking(options, |options| {
        // This reads metadata only: no code but SQLite may open the file.
        if !options.path.exists() {
            return Ok(list(|_| false));
        }
        status(&connect::open(options, Role::Reader)?)
    })
    .await
}

async fn blocking<T: Send + 'static>(
    options: &SqliteOptions,
    work: impl FnOnce(&SqliteOptions) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let options = options.clone();
    tokio::task::spawn_blocking(move || work(&options))
        .await
        .map_err(|error| StoreError::Fatal { operation: MIGRATE, source: error.into() })?
}

/// Applies the missing migrations.
pub(crate) fn up(conn: &Connection) -> Result<(), StoreError> {
    let run = || -> Res<Result<(), StoreError>> {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        conn.execute_batch(include_str!("../sql/queries/migrations_table.sql"))?;
        if let Err(error) = verify(conn)? {
            return Ok(Err(error));
        }
        for migration in MIGRATIONS {
            if applied(conn, migration.version)?.is_none() {
                conn.execute_batch(migration.sql)?;
                conn.execute(
                    include_str!("../sql/queries/migrations_add.sql"),
                    (migration.version, migration.name, checksum(migration.sql)),
                )?;
            }
        }
        conn.execute_batch("COMMIT")?;
        Ok(Ok(()))
    };
    let done = run().map_err(|fault| fault.named(MIGRATE)).and_then(|done| done);
    if !conn.is_autocommit() {
        // The first error is the one to report. Closing the connection also ends the transaction.
        let _ = conn.execute_batch("ROLLBACK");
    }
    done
}

/// Fails unless every migration was applied unchanged and none is newer than this program.
pub(crate) fn require_current(conn: &Connection) -> Result<(), StoreError> {
    let missing = status(conn)?.into_iter().find(|migration| !migration.applied);
    match missing {
        None => Ok(()),
        Some(migration) => Err(unusable(
            MIGRATE,
            format!(
                "the schema lacks migration {} ({}): run `wakeline migrate up`",
                migration.version, migration.name
            ),
        )),
    }
}

/// Returns the schema as sorted text, for comparison.
pub fn dump_schema(conn: &Connection) -> Result<String, StoreError> {
    let read = || -> Res<String> {
        let mut statement = conn.prepare(include_str!("../sql/queries/schema_dump.sql"))?;
        let objects = statement.query_map([], |row| row.get::<_, String>(0))?;
        let mut text = String::new();
        for object in objects {
            text.push_str(object?.trim());
            text.push_str(";\n\n");
        }
        Ok(text)
    };
    read().map_err(|fault| fault.named(MIGRATE))
}

fn status(conn: &Connection) -> Result<Vec<MigrationStatus>, StoreError> {
    let read = || -> Res<Result<Vec<MigrationStatus>, StoreError>> {
        let known: bool =
            conn.query_row(include_str!("../sql/queries/migrations_known.sql"), [], |row| {
                row.get(0)
            })?;
        if !known {
            return Ok(Ok(list(|_| false)));
        }
        if let Err(error) = verify(conn)? {
            return Ok(Err(error));
        }
        let mut versions = Vec::new();
        for migration in MIGRATIONS {
            if applied(conn, migration.version)?.is_some() {
                versions.push(migration.version);
            }
        }
        Ok(Ok(list(|version| versions.contains(&version))))
    };
    read().map_err(|fault| fault.named(MIGRATE)).and_then(|done| done)
}

fn list(applied: impl Fn(i64) -> bool) -> Vec<MigrationStatus> {
    MIGRATIONS
        .iter()
        .map(|migration| MigrationStatus {
            version: migration.version,
            name: migration.name.to_owned(),
            applied: applied(migration.version),
        })
        .collect()
}

/// Refuses a schema whose migrations have changed, or that a newer program migrated.
fn verify(conn: &Connection) -> Res<Result<(), StoreError>> {
    let newest: i64 =
        conn.query_row(include_str!("../sql/queries/migrations_newest.sql"), [], |row| row.get(0))?;
    let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
    if newest > known {
        let reason = format!(
            "the schema is at version {newest}, and this release knows versions up to {known}: \
             use a newer release"
        );
        return Ok(Err(unusable(MIGRATE, reason)));
    }
    for migration in MIGRATIONS {
        let stored = applied(conn, migration.version)?;
        if stored.is_some_and(|stored| stored != checksum(migration.sql)) {
            let Migration { version, name, .. } = migration;
            let reason = format!(
                "migration {version} ({name}) was applied with different content than it has in \
                 this release: use the release that applied it, or a later one"
            );
            return Ok(Err(unusable(MIGRATE, reason)));
        }
    }
    Ok(Ok(()))
}

fn applied(conn: &Connection, version: i64) -> Result<Option<String>, StoreFault> {
    let sql = include_str!("../sql/queries/migrations_applied.sql");
    Ok(conn.query_row(sql, [version], |row| row.get(0)).optional()?)
}

fn checksum(sql: &str) -> String {
    Sha256::digest(sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
