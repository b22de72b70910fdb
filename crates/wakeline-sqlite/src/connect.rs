//! Opens connections with the settings that the store's guarantees need, and fails where a setting
//! cannot be applied.
//!
//! # Invariants
//! * Every connection is in WAL mode with `synchronous = FULL`. Both settings are read back,
//!   because SQLite silently treats an unknown value as NORMAL, which loses acknowledged writes on
//!   power loss.
//! * Only SQLite opens the database file. Closing another file descriptor of it would drop the
//!   POSIX locks that SQLite holds.
//! * Files that this store creates are readable by their owner only. SQLite gives `-wal` and `-shm`
//!   the permissions of the database.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use wakeline_store::StoreError;

use crate::error::{database, unusable};
use crate::options::SqliteOptions;

const OPEN: &str = "open";
/// `PRAGMA synchronous` as a number.
const SYNCHRONOUS_FULL: i64 = 2;
const STATEMENTS_CACHED_MAX: usize = 256;
const CHECKPOINT_PAGES: i64 = 4_000;
/// The page size that SQLite gives new files.
pub(crate) const PAGE_BYTES: u64 = 4_096;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The single connection that writes.
    Writer,
    /// One of the connections that only read.
    Reader,
}

/// Opens a connection and verifies its settings.
pub(crate) fn open(options: &SqliteOptions, role: Role) -> Result<Connection, StoreError> {
    if role == Role::Writer {
        make_private(&options.path);
    }
    let conn = Connection::open(&options.path).map_err(|error| database(OPEN, error))?;
    configure(&conn, options, role).map_err(|error| database(OPEN, error))?;
    let journal: String = pragma(&conn, "journal_mode")?;
    let synchronous: i64 = pragma(&conn, "synchronous")?;
    check_durability(&journal, synchronous)?;
    Ok(conn)
}

/// Creates the file, if it does not exist, readable by its owner only; SQLite would make it
/// readable by everyone. If this fails, SQLite fails too and reports the reason.
#[cfg(target_os = "linux")]
fn make_private(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    // `open` would need a `close`, which drops the locks that SQLite holds on the file.
    let _ = mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0);
}

/// The same for systems where a file can only be created by opening it. At worst two connections of
/// one process race to create it while it is still empty.
#[cfg(not(target_os = "linux"))]
fn make_private(path: &Path) {
    let _ = private_file().create_new(true).open(path);
}

/// Options to open a file next to the database for writing, accessible by its owner only.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Creates a folder next to the database, accessible by its owner only, unless it exists.
pub(crate) fn make_private_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn configure(
    conn: &Connection,
    options: &SqliteOptions,
    role: Role,
) -> Result<(), rusqlite::Error> {
    conn.busy_timeout(options.busy_timeout())?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
    // Otherwise SQLite plans a cached statement again whenever another value is bound to a LIMIT
    // or a range, which costs several times as much as running it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    switch_to_wal(conn, options.busy_timeout())?;
    conn.execute_batch(include_str!("../sql/queries/settings.sql"))?;
    conn.pragma_update(None, "wal_autocheckpoint", checkpoint_pages(options.ballast_bytes))?;
    match role {
        Role::Reader => conn.pragma_update(None, "query_only", true)?,
        Role::Writer => {
            if let Some(pages) = options.pages_max {
                limit_pages(conn, pages)?;
            }
        }
    }
    Ok(())
}

/// Number of pages in the write-ahead log that triggers a checkpoint. On a full disk a checkpoint
/// can only use the space of the ballast, so the log must not hold more pages than fit there.
fn checkpoint_pages(ballast_bytes: u64) -> i64 {
    let fitting = i64::try_from(ballast_bytes / PAGE_BYTES).unwrap_or(i64::MAX);
    if fitting == 0 { CHECKPOINT_PAGES } else { fitting.clamp(100, CHECKPOINT_PAGES) }
}

/// Moves the write-ahead log into the database and truncates the log.
pub(crate) fn checkpoint(conn: &Connection) -> Result<(), rusqlite::Error> {
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Limits the size of the database, for tests of a full disk.
pub(crate) fn limit_pages(conn: &Connection, pages: u32) -> Result<(), rusqlite::Error> {
    conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}

/// Switches to WAL. SQLite does not wait for another process that is switching at the same time, so
/// this retries until the timeout.
fn switch_to_wal(conn: &Connection, timeout: Duration) -> Result<(), rusqlite::Error> {
    let started = Instant::now();
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < timeout =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

fn pragma<T: rusqlite::types::FromSql>(conn: &Connection, name: &str) -> Result<T, StoreError> {
    conn.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| database(OPEN, error))
}

/// Refuses settings under which an answered write could be lost.
fn check_durability(journal: &str, synchronous: i64) -> Result<(), StoreError> {
    if journal != "wal" {
        let reason = format!(
            "the database's journal_mode is {journal:?} and could not be set to \"wal\": check \
             that this process may write to the file and its folder"
        );
        return Err(unusable(OPEN, reason));
    }
    if synchronous != SYNCHRONOUS_FULL {
        let reason = format!(
            "the database's synchronous setting is {synchronous} and could not be set to FULL (2), \
             without which commits may be lost"
        );
        return Err(unusable(OPEN, reason));
    }
    Ok(())
}

/// Refuses network file systems, whose locks and shared memory are unreliable.
pub(crate) fn refuse_network(options: &SqliteOptions) -> Result<(), StoreError> {
    let folder = options.folder();
    let file_system = rustix::fs::statfs(folder).map_err(|error| {
        unusable(OPEN, format!("the folder {} cannot be opened: {error}", folder.display()))
    })?;
    #[allow(
        clippy::useless_conversion,
        clippy::cast_possible_truncation,
        clippy::unnecessary_cast,
        reason = "the field's type differs between platforms; the magic numbers have 32 bits"
    )]
    let magic = file_system.f_type as u32;
    match network_file_system(magic) {
        None => Ok(()),
        Some(kind) => Err(unusable(
            OPEN,
            format!(
                "{} is on {kind}, a network file system, where SQLite's locks do not hold: \
                 use a local disk, or PostgreSQL",
                folder.display()
            ),
        )),
    }
}

fn network_file_system(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x0102_1997 => "9p",
        0x5346_414f => "AFS",
        0x00c3_6400 => "Ceph",
        0x7375_7245 => "Coda",
        0x0000_564c => "NCP",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_has_durable_settings_when_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = SqliteOptions::new(folder.path().join("w.db"));
        for role in [Role::Writer, Role::Reader] {
            let conn = open(&options, role).expect("opens");
            assert_eq!(pragma::<String>(&conn, "journal_mode").expect("readable"), "wal");
            assert_eq!(pragma::<i64>(&conn, "synchronous").expect("readable"), 2);
        }
    }

    #[test]
    fn a_cached_statement_is_planned_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = SqliteOptions::new(folder.path().join("w.db"));
        let conn = open(&options, Role::Writer).expect("opens");
        crate::migrate::up(&conn).expect("migrated");
        let sql = include_str!("../sql/queries/message_from.sql");
        for limit in 1..5 {
            let mut statement = conn.prepare_cached(sql).expect("valid");
            let mut rows = statement.query((1, 0, limit)).expect("runs");
            assert!(rows.next().expect("empty").is_none());
            drop(rows);
            assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn the_write_ahead_log_never_outgrows_the_ballast() {
        assert_eq!(checkpoint_pages(16 * 1024 * 1024), 4_000);
        assert_eq!(checkpoint_pages(2 * 1024 * 1024), 512);
        assert_eq!(checkpoint_pages(0), 4_000);
    }

    #[test]
    fn settings_that_lose_acknowledged_writes_are_refused() {
        check_durability("wal", 2).expect("the safe settings");
        for (journal, synchronous) in [("wal", 1), ("wal", 0), ("delete", 2), ("memory", 2)] {
            let refused = check_durability(journal, synchronous);
            assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{journal}");
        }
    }

    #[test]
    fn network_file_systems_are_refused_and_local_ones_are_not() {
        assert_eq!(network_file_system(0x6969), Some("NFS"));
        assert_eq!(network_file_system(0x0102_1997), Some("9p"));
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e] {
            assert_eq!(network_file_system(local), None);
        }
        let folder = tempfile::tempdir().expect("a folder");
        refuse_network(&SqliteOptions::new(folder.path().join("w.db"))).expect("a local disk");
        let missing = SqliteOptions::new(folder.path().join("missing/w.db"));
        assert!(refuse_network(&missing).is_err());
    }
}
