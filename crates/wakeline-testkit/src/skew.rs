//! Processes with a wrong wall clock, to show that only the database's clock matters.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Shifts the wall clock of a process by `SKEW_SECS`; measured durations stay correct.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    const char *skew = getenv("SKEW_SECS");
    if (!failed && skew && clock == CLOCK_REALTIME) now->tv_sec += atol(skew);
    return failed;
}
"#;

/// A library that shifts clocks. A C compiler is available, because SQLite was built with it.
#[derive(Debug)]
pub struct Skew {
    library: PathBuf,
}

impl Skew {
    /// Compiles the library into a folder.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn compile(folder: &Path) -> Self {
        let (source, library) = (folder.join("skew.c"), folder.join("skew.so"));
        std::fs::write(&source, SHIM).expect("written");
        let mut cc = Command::new("cc");
        let made = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        assert!(made.expect("cc runs").success(), "the shim compiles");
        Self { library }
    }

    /// The environment of a process whose clock is wrong by this number of seconds.
    pub fn environment(&self, secs: i64) -> [(&'static str, std::ffi::OsString); 2] {
        let library = self.library.clone().into_os_string();
        [("LD_PRELOAD", library), ("SKEW_SECS", secs.to_string().into())]
    }
}
