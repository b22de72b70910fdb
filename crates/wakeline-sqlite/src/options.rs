//! The options with which a SQLite store is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wakeline_core::Timestamp;
use wakeline_store::StoreError;

/// The location of the database and how it is used. Every field except `path` has a default.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SqliteOptions {
    /// The database file. The store creates more files next to it: `-wal`, `-shm`, `.ballast` and
    /// the folder `.hints`.
    pub path: PathBuf,
    /// How long, in milliseconds, a write waits for another process that is writing to the file.
    #[serde(default = "defaults::busy_timeout_ms")]
    pub busy_timeout_ms: u64,
    /// Size of the ballast file, which reserves space so that data can still be deleted when the
    /// disk is full. 0 disables it.
    #[serde(default = "defaults::ballast_bytes")]
    pub ballast_bytes: u64,
    /// Number of connections that read concurrently with the writer.
    #[serde(default = "defaults::readers_len")]
    pub readers_len: usize,
    /// Whether opening migrates the schema. If false, an outdated schema is refused.
    #[serde(default = "defaults::yes")]
    pub migrate: bool,
    /// Whether hints are exchanged with other processes on the same file.
    #[serde(default = "defaults::yes")]
    pub hints: bool,
    /// A clock for tests that replaces the machine's clock.
    #[doc(hidden)]
    #[serde(skip)]
    pub clock: Option<TestClock>,
    /// Largest size of the database in pages, for tests of a full disk.
    #[doc(hidden)]
    #[serde(skip)]
    pub pages_max: Option<u32>,
}

mod defaults {
    pub(super) fn busy_timeout_ms() -> u64 {
        5_000
    }
    pub(super) fn ballast_bytes() -> u64 {
        16 * 1024 * 1024
    }
    pub(super) fn readers_len() -> usize {
        2
    }
    pub(super) fn yes() -> bool {
        true
    }
}

impl SqliteOptions {
    /// The default options for a database file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            busy_timeout_ms: defaults::busy_timeout_ms(),
            ballast_bytes: defaults::ballast_bytes(),
            readers_len: defaults::readers_len(),
            migrate: true,
            hints: true,
            clock: None,
            pages_max: None,
        }
    }

    /// The default options for a schema of a file. SQLite has no schemas, so a named schema is a
    /// separate file next to it: `orders.db` with the schema `test` becomes `orders-test.db`.
    pub fn new_with_schema(
        path: impl Into<PathBuf>,
        schema_name: Option<&str>,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        match schema_name {
            Some(schema) => Ok(Self::new(path_of_schema(&path, schema)?)),
            None => Ok(Self::new(path)),
        }
    }

    pub(crate) fn busy_timeout(&self) -> Duration {
        Duration::from_millis(self.busy_timeout_ms)
    }

    /// The path of a file or folder that belongs to the database: its path with a suffix.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    /// The folder that holds the database.
    pub(crate) fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }
}

fn path_of_schema(path: &Path, schema: &str) -> Result<PathBuf, StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if schema.is_empty() || !schema.bytes().all(plain) {
        let reason = format!("{schema:?} may only contain ASCII letters, digits, _ and -");
        return Err(StoreError::Invalid { field: "schema", reason });
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{schema}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{schema}"),
    };
    Ok(path.with_file_name(name))
}

/// A clock that only moves when a test advances it.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct TestClock(Arc<TestTime>);

#[derive(Debug)]
struct TestTime {
    /// The date, in microseconds since 1970.
    wall: AtomicI64,
    /// The time since the machine was started, in microseconds.
    uptime: AtomicI64,
    /// Identifies the current boot of the machine.
    boot: String,
}

impl TestClock {
    /// A clock of a machine that is started at the given time.
    pub fn new(at: Timestamp) -> Self {
        static BOOTS: AtomicI64 = AtomicI64::new(0);
        let boot = format!("test {}", BOOTS.fetch_add(1, Ordering::SeqCst));
        Self(Arc::new(TestTime { wall: AtomicI64::new(at.0), uptime: AtomicI64::new(0), boot }))
    }

    /// Advances the date and the uptime.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.uptime.fetch_add(micros, Ordering::SeqCst);
        self.0.wall.fetch_add(micros, Ordering::SeqCst);
    }

    /// Changes the date by a number of seconds without advancing the uptime.
    pub fn step(&self, secs: i64) {
        self.0.wall.fetch_add(secs.saturating_mul(1_000_000), Ordering::SeqCst);
    }

    /// The clock's current date.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.wall.load(Ordering::SeqCst))
    }

    pub(crate) fn uptime(&self) -> i64 {
        self.0.uptime.load(Ordering::SeqCst)
    }

    pub(crate) fn boot(&self) -> String {
        self.0.boot.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_separate_file() {
        let options = SqliteOptions::new_with_schema("data/orders.db", Some("test"));
        assert_eq!(options.expect("valid").path, Path::new("data/orders-test.db"));
        assert!(SqliteOptions::new_with_schema("orders.db", Some("../x")).is_err());
    }
}
