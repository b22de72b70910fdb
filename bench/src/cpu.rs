//! The processor time of the load generator, the server and PostgreSQL.
//!
//! It is read from `/proc`, in seconds of user and system time. That of PostgreSQL includes all of
//! its processes, and is known only if PostgreSQL runs on this machine.

use std::collections::HashMap;
use std::fs;

/// Ticks per second in `/proc/PID/stat`. Linux shows this value to programs, independently of the
/// frequency of the kernel.
const TICKS_PER_SEC: f64 = 100.0;

/// Processor time by process, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// The load generator, which is this process.
    pub(crate) load: f64,
    /// The server under test.
    pub(crate) server: f64,
    /// PostgreSQL with all of its processes; 0 if it runs elsewhere or is not used.
    pub(crate) postgres: f64,
}

impl Usage {
    /// The time used since an earlier reading, per second of `elapsed` seconds.
    pub(crate) fn since(&self, earlier: &Self, elapsed: f64) -> Self {
        Self {
            load: (self.load - earlier.load) / elapsed,
            server: (self.server - earlier.server) / elapsed,
            postgres: (self.postgres - earlier.postgres) / elapsed,
        }
    }
}

/// Reads the processor time of the processes that take part in a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    /// The server under test.
    pub(crate) server: u32,
    /// PostgreSQL's first process.
    pub(crate) postgres: Option<u32>,
}

impl Meter {
    /// The processor time used until now.
    pub(crate) fn read(&self) -> Usage {
        let processes = Processes::read();
        Usage {
            load: processes.own(std::process::id()),
            server: processes.own(self.server),
            postgres: self.postgres.map_or(0.0, |pid| processes.tree(pid)),
        }
    }
}

/// Seconds that some processes have used until now.
pub(crate) fn used_by(pids: impl Iterator<Item = u32>) -> f64 {
    let processes = Processes::read();
    pids.map(|pid| processes.own(pid)).sum()
}

/// Seconds that the backends of a database have used until now. Process titles contain the name of
/// the database. Backends that have ended are not included.
pub(crate) fn used_by_backends(postmaster: u32, database: &str) -> f64 {
    let titled = |pid: &u32| {
        let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let title = String::from_utf8_lossy(&title);
        title.split([' ', '\0']).any(|word| word == database)
    };
    let processes = Processes::read();
    let backends = processes.0.iter().filter(|(_, process)| process.parent == postmaster);
    let of_database = backends.map(|(pid, _)| *pid).filter(titled);
    of_database.map(|pid| processes.own(pid)).sum()
}

/// Returns the parent process of a backend, if PostgreSQL runs on this machine.
pub(crate) fn postmaster_of(backend: u32) -> Option<u32> {
    let name = fs::read_to_string(format!("/proc/{backend}/comm")).ok()?;
    let text = fs::read_to_string(format!("/proc/{backend}/stat")).ok()?;
    (name.trim() == "postgres").then(|| Process::parse(&text).map(|process| process.parent))?
}

/// The processor time of one process, in ticks.
struct Process {
    parent: u32,
    /// The time of the process itself.
    own: u64,
    /// The time of children that have ended.
    ended: u64,
}

impl Process {
    /// Parses the text of `/proc/PID/stat`. The process name in it may contain any characters, so
    /// that the fields are counted from the last parenthesis.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            own: number(11)? + number(12)?,
            ended: number(13)? + number(14)?,
        })
    }
}

/// All processes of this machine, by their ids.
struct Processes(HashMap<u32, Process>);

impl Processes {
    fn read() -> Self {
        let mut processes = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let Ok(text) = fs::read_to_string(entry.path().join("stat")) else { continue };
            if let Some(process) = Process::parse(&text) {
                processes.insert(pid, process);
            }
        }
        Self(processes)
    }

    /// Seconds that a process has used, without its children: the servers are children of the load
    /// generator.
    fn own(&self, pid: u32) -> f64 {
        self.0.get(&pid).map_or(0.0, |process| process.own as f64 / TICKS_PER_SEC)
    }

    /// Seconds that a process and all of its descendants have used.
    fn tree(&self, pid: u32) -> f64 {
        let Some(process) = self.0.get(&pid) else { return 0.0 };
        let children = self.0.iter().filter(|(_, child)| child.parent == pid);
        let below: f64 = children.map(|(child, _)| self.tree(*child)).sum();
        (process.own + process.ended) as f64 / TICKS_PER_SEC + below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 5 7 7 0 -1 0 0 0 0 0 11 22 33 44 20 0 1 0 9";
        let process = Process::parse(text).expect("fields");
        assert_eq!((process.parent, process.own, process.ended), (5, 33, 77));
    }

    #[test]
    fn a_tree_counts_its_children() {
        let process = |parent, own| Process { parent, own, ended: 0 };
        let processes =
            HashMap::from([(1, process(0, 100)), (2, process(1, 50)), (3, process(2, 25))]);
        assert!((Processes(processes).tree(1) - 1.75).abs() < 1e-9);
    }
}
