//! How much of a test run is set-up, for `cargo xtask test --timings`.

use std::fs::OpenOptions;
use std::future::Future;
use std::io::Write as _;
use std::time::Instant;

/// Awaits the set-up of a test, or the removal of what it made, and adds the time that it took to
/// the file that `WAKELINE_TEST_TIMINGS` names, if it names one: a number of microseconds on a
/// line.
///
/// # Panics
/// If the file cannot be written.
pub async fn set_up<T>(work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let made = work.await;
    if let Some(path) = std::env::var_os("WAKELINE_TEST_TIMINGS") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let line = format!("{}\n", start.elapsed().as_micros());
        // One write to a file opened for appending: lines of other tests are not torn.
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("timings can be written");
    }
    made
}
