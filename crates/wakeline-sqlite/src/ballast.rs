//! The ballast: a file next to the database that reserves space, so that data can still be deleted
//! when the disk is full.
//!
//! On a full disk SQLite refuses even a DELETE. The store then removes the ballast file: settling
//! and deleting continue in the freed space, and pushes are refused until there is space again.
//!
//! # Invariants
//! * The file itself is the state: while it is missing, every process on the database treats the
//!   disk as full.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use wakeline_core::error_chain;

use crate::connect::{PAGE_BYTES, limit_pages, private_file};
use crate::options::SqliteOptions;

/// Shortest time between two attempts to create a missing ballast file.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// The file that is removed when the disk is full.
pub(crate) struct Ballast {
    folder: PathBuf,
    path: PathBuf,
    bytes: u64,
    pages_max: Option<u32>,
    tried: Mutex<Option<Instant>>,
}

impl Ballast {
    pub(crate) fn new(options: &SqliteOptions) -> Self {
        Self {
            folder: options.folder().to_owned(),
            path: options.beside(".ballast"),
            bytes: options.ballast_bytes,
            pages_max: options.pages_max,
            tried: Mutex::new(None),
        }
    }

    /// Creates the ballast file if it is missing and the disk has space for twice its size. Returns
    /// whether the file exists, or ballast is disabled.
    pub(crate) fn ensure(&self, conn: &Connection) -> bool {
        if self.bytes == 0 || self.path.exists() {
            return true;
        }
        {
            let mut tried = self.tried.lock();
            if tried.is_some_and(|tried| tried.elapsed() < TRY_EVERY) {
                return false;
            }
            *tried = Some(Instant::now());
        }
        let created = self.allocate(conn);
        if let Err(error) = &created {
            tracing::warn!(
                path = %self.path.display(), error = error_chain(&error),
                "too little disk space for the ballast file, which reserves space for acks when \
                 the disk is full: free some disk space"
            );
            self.remove();
        }
        created.is_ok()
    }

    /// Whether the database may grow: the ballast file exists, or deleted data left at least its
    /// size of free pages inside the database.
    pub(crate) fn may_grow(&self, conn: &Connection) -> bool {
        self.ensure(conn) || self.free_inside(conn) >= self.bytes
    }

    /// Removes the ballast file. Returns false if there was none.
    pub(crate) fn release(&self) -> bool {
        let gone = self.bytes > 0 && self.remove();
        if gone {
            tracing::error!(
                path = %self.path.display(),
                "the disk is full: removed the ballast file, so that messages can be acked; free \
                 some disk space"
            );
            *self.tried.lock() = Some(Instant::now());
        }
        gone
    }

    /// In tests that limit the database's size: raises the limit by the size of the ballast.
    pub(crate) fn raise_page_limit(&self, conn: &Connection) {
        if let Some(pages) = self.pages_max {
            let extra = u32::try_from(self.bytes / PAGE_BYTES).unwrap_or(u32::MAX);
            // If the limit cannot be raised, the test that set it sees a full disk.
            let _ = limit_pages(conn, pages.saturating_add(extra));
        }
    }

    fn allocate(&self, conn: &Connection) -> std::io::Result<()> {
        if let Some(pages) = self.pages_max {
            let used: u32 = conn
                .pragma_query_value(None, "page_count", |row| row.get(0))
                .map_err(std::io::Error::other)?;
            if used >= pages {
                return Err(std::io::Error::other("the database is at its test limit"));
            }
        }
        let disk = statvfs(&self.folder)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < self.bytes.saturating_mul(2) {
            return Err(std::io::Error::other("too little space left"));
        }
        let file = private_file().create(true).truncate(true).open(&self.path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => self.fill(file),
            done => Ok(done?),
        }
    }

    /// Writes zeros, for file systems that cannot reserve space.
    fn fill(&self, mut file: File) -> std::io::Result<()> {
        let zeros = std::io::Read::take(std::io::repeat(0), self.bytes);
        std::io::copy(&mut { zeros }, &mut file)?;
        file.sync_all()
    }

    fn remove(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }

    fn free_inside(&self, conn: &Connection) -> u64 {
        let pragma = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let bytes = || -> rusqlite::Result<i64> {
            Ok(pragma("freelist_count")?.saturating_mul(pragma("page_size")?))
        };
        u64::try_from(bytes().unwrap_or(0)).unwrap_or(0)
    }
}
