//! Measures the set-up of tests, for `cargo xtask test --timings`.

use std::fs::OpenOptions;
use std::future::Future;
use std::io::Write as _;
use std::time::Instant;

/// Awaits the set-up of a test, or the removal of what it created, and appends the time that it
/// took to the file that `WAKELINE_TEST_TIMINGS` names, if any: a number of microseconds per line.
///
/// # Panics
/// If the file cannot be written.
pub async fn set_up<T>(work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let made = work.await;
    if let Some(path) = std::env::var_os("WAKELINE_TEST_TIMINGS") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let line = format!("{}\n", start.elapsed().as_micros());
        // This is one write to a file opened for appending, so it cannot split lines of other
        // tests.
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("timings can be written");
    }
    made
}
