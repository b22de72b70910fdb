//! Space kept back beside the database, so that a full disk can still be emptied.
//!
//! On a full disk SQLite refuses even a DELETE (trap 41). The ballast is given up then: settling
//! and deleting go on in its place, and pushes are refused until there is room again.
//!
//! # Invariants
//! * The file is the state: while it is missing, every process on the database is short of space.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use wakeline_core::error_chain;

use crate::connect::{PAGE_BYTES, limit_pages, private_file};
use crate::options::SqliteOptions;

/// How often a missing ballast is tried to be laid again.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// The file that is given up when the disk is full.
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

    /// Lays the ballast if it is missing and there is room for it and as much again.
    pub(crate) fn lay(&self, conn: &Connection) -> bool {
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
        let laid = self.allocate(conn);
        if let Err(error) = &laid {
            tracing::warn!(
                path = %self.path.display(), error = error_chain(&error),
                "no space for the ballast file"
            );
            self.remove();
        }
        laid.is_ok()
    }

    /// Whether the database may grow: the ballast is there, or what was deleted left that much
    /// room inside the database.
    pub(crate) fn may_grow(&self, conn: &Connection) -> bool {
        self.lay(conn) || self.free_inside(conn) >= self.bytes
    }

    /// Gives the ballast up. False if there was none.
    pub(crate) fn give_up(&self) -> bool {
        let gone = self.bytes > 0 && self.remove();
        if gone {
            tracing::error!(path = %self.path.display(), "disk full: gave up the ballast file");
            *self.tried.lock() = Some(Instant::now());
        }
        gone
    }

    /// In tests that limit the database's size: lets it grow into the place of the ballast.
    pub(crate) fn grow_into_its_place(&self, conn: &Connection) {
        if let Some(pages) = self.pages_max {
            let extra = u32::try_from(self.bytes / PAGE_BYTES).unwrap_or(u32::MAX);
            // A limit that cannot be raised shows as a full disk in the test that set it.
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

    /// Writes the ballast where the file system cannot reserve space.
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
