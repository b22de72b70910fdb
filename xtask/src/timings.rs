//! Where the time of a test run goes, for `cargo xtask test --timings`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::bench;

const SLOWEST: usize = 40;

/// Where nextest reports what it ran, below the target folder.
const REPORTS: [&str; 2] = ["nextest/default/junit.xml", "nextest/long/junit.xml"];

/// The file in which tests note how long their set-up took.
#[derive(Debug)]
pub(crate) struct TestTimings {
    set_up: PathBuf,
}

impl TestTimings {
    pub(crate) fn new(scratch: &Path) -> Self {
        Self { set_up: scratch.join("set-up-micros") }
    }

    /// Sets the variable with the path of the file.
    pub(crate) fn lend(&self, command: &mut Command) {
        command.env("WAKELINE_TEST_TIMINGS", &self.set_up);
    }

    /// The slowest tests, and the share of set-up.
    pub(crate) fn report(&self, root: &Path) -> Result<String> {
        let target = bench::target_folder(root)?;
        let modified = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
        let report = REPORTS.map(|name| target.join(name)).into_iter().max_by_key(modified);
        let report = report.expect("there are two");
        let xml =
            fs::read_to_string(&report).with_context(|| format!("reading {}", report.display()))?;
        // Absent if no test had anything to set up.
        let set_up = fs::read_to_string(&self.set_up).unwrap_or_default();
        Ok(summarise(tests(&xml), &set_up))
    }
}

/// Seconds and name of every test in a report.
fn tests(xml: &str) -> Vec<(f64, String)> {
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        Some(rest.split('"').next().unwrap_or_default().to_owned())
    };
    let cases = xml.split("<testcase").skip(1).filter_map(|rest| {
        let tag = rest.split('>').next()?;
        let seconds = attribute(tag, "time")?.parse().ok()?;
        Some((seconds, format!("{} {}", attribute(tag, "classname")?, attribute(tag, "name")?)))
    });
    cases.collect()
}

fn summarise(mut tests: Vec<(f64, String)>, set_up_micros: &str) -> String {
    let all: f64 = tests.iter().map(|(seconds, _)| seconds).sum();
    let micros: f64 = set_up_micros.lines().filter_map(|line| line.parse::<f64>().ok()).sum();
    let set_up = (micros / 1e6).max(0.0);
    let share = if all > 0.0 { 100.0 * set_up / all } else { 0.0 };
    let mut text = format!(
        "{} tests took {all:.0} s, one after the other; {set_up:.0} s of it ({share:.0} %) was \
         set-up. The slowest:\n",
        tests.len()
    );
    tests.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    for (seconds, name) in tests.iter().take(SLOWEST) {
        writeln!(text, "{seconds:8.1} s  {name}").expect("strings take all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_set_up_is_summed() {
        let xml = "<testsuite name=\"a\" time=\"9\">\n\
            <testcase name=\"m::quick\" classname=\"a::it\" timestamp=\"x\" time=\"0.500\"/>\n\
            <testcase name=\"m::slow\" classname=\"a::it\" timestamp=\"x\" time=\"1.500\">\n";
        let text = summarise(tests(xml), "250000\n250000\n");
        assert!(text.starts_with("2 tests took 2 s"), "{text}");
        assert!(text.contains("; 0 s of it (25 %) was set-up"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..], ["     1.5 s  a::it m::slow", "     0.5 s  a::it m::quick"]);
    }
}
