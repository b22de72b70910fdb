//! Ends the processes that xtask started and removes its temporary folder, however xtask ends.
//!
//! # Where it sits
//! [`ProcessGuard::start`] runs this program once more, as a guardian in a process group of its
//! own. Through a pipe, the guardian learns which process groups run and which folder to remove.
//! When the pipe closes, because xtask has finished, panicked, was interrupted or even killed, the
//! guardian ends the groups, stops every PostgreSQL below the folder and removes the folder.
//!
//! # Invariants
//! * Every wait is bounded: SIGINT, then a stronger signal, then SIGKILL.
//! * Only process groups that were started here, and servers whose data lie below the folder, are
//!   ended.

use std::fs;
use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::postgres::Durability;
use crate::{XtaskOutcome, run};

/// The hidden command that is the guardian.
pub(crate) const COMMAND: &str = "__guard";

const INTERRUPT_SECS: u64 = 15;
const TERMINATE_SECS: u64 = 10;
/// Both waits, once for the process groups and once for the servers, and some seconds more.
const GUARDIAN_SECS: u64 = 2 * (INTERRUPT_SECS + TERMINATE_SECS) + 10;

/// A file system in memory, on Linux.
const MEMORY_FOLDER: &str = "/dev/shm";
const MEMORY_GIGABYTES_MIN: u64 = 6;

/// The line to the guardian.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    guardian: Child,
    pipe: Option<ChildStdin>,
}

/// A running program, in a process group of its own.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Running {
    fn group(&self) -> i64 {
        -i64::from(self.child.id())
    }

    /// Asks the program and its children to end.
    pub(crate) fn terminate(&self) {
        run::signal("TERM", self.group());
    }
}

impl ProcessGuard {
    /// Starts the guardian.
    pub(crate) fn start() -> Result<Self> {
        let program = std::env::current_exe().context("finding xtask itself")?;
        Self::start_program(&program)
    }

    fn start_program(program: &Path) -> Result<Self> {
        let mut guardian = Command::new(program)
            .arg(COMMAND)
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .context("starting the guardian")?;
        let pipe = guardian.stdin.take();
        Ok(Self { guardian, pipe })
    }

    /// Makes a folder that is removed at the end, with every PostgreSQL in it stopped.
    pub(crate) fn make_folder(&mut self, durability: Durability) -> Result<PathBuf> {
        let scratch = match durability {
            Durability::On => std::env::temp_dir(),
            Durability::Off => scratch_folder(),
        };
        let folder = scratch.join(format!("wakeline-{}", std::process::id()));
        let text = folder.to_str().context("the folder for temporary files is not UTF-8")?;
        self.report(&format!("folder {text}"))?;
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }

    /// Starts a program that is ended at the end.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> Result<Running> {
        let name = run::describe(command);
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting `{name}`"))?;
        self.report(&format!("group {}", child.id()))?;
        Ok(Running { child })
    }

    /// Waits for a program that was started here.
    pub(crate) fn wait(&mut self, mut running: Running) -> Result<ExitStatus> {
        let status = running.child.wait()?;
        self.report(&format!("gone {}", running.child.id()))?;
        Ok(status)
    }

    /// Runs a program to its end. True if it succeeds.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<bool> {
        let running = self.spawn(command)?;
        Ok(self.wait(running)?.success())
    }

    /// Runs a program and returns what it printed; an error if it fails.
    pub(crate) fn output(&mut self, command: &mut Command) -> Result<String> {
        let name = run::describe(command);
        let mut running = self.spawn(command.stdout(Stdio::piped()))?;
        let mut text = String::new();
        let mut pipe = running.child.stdout.take().expect("the output is a pipe");
        pipe.read_to_string(&mut text).with_context(|| format!("reading from `{name}`"))?;
        let status = self.wait(running)?;
        if !status.success() {
            bail!("`{name}` failed ({status})");
        }
        Ok(text)
    }

    fn report(&mut self, line: &str) -> Result<()> {
        let pipe = self.pipe.as_mut().expect("open until the guard is dropped");
        writeln!(pipe, "{line}").context("the guardian process has ended unexpectedly")
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let guardian = &mut self.guardian;
        let gone = within(GUARDIAN_SECS, || !matches!(guardian.try_wait(), Ok(None)));
        if !gone {
            eprintln!(
                "xtask: the guardian process {} has not ended: stop it by hand",
                guardian.id()
            );
        }
    }
}

/// Where temporary files go: into memory if there is enough of it, because tests create and remove
/// hundreds of thousands of small files, and wait for the disk at every commit.
fn scratch_folder() -> PathBuf {
    let memory = Path::new(MEMORY_FOLDER);
    let mut df = Command::new("df");
    let free = run::output(df.args(["--output=avail", "--block-size=1G"]).arg(memory)).ok();
    let free = free.and_then(|text| text.lines().nth(1)?.trim().parse::<u64>().ok());
    if memory.is_dir() && free.is_some_and(|gigabytes| gigabytes >= MEMORY_GIGABYTES_MIN) {
        return memory.to_owned();
    }
    std::env::temp_dir()
}

/// The guardian: takes notes until the pipe closes, then cleans up.
pub(crate) fn main() -> Result<XtaskOutcome> {
    let mut notes = Notes::default();
    for line in std::io::stdin().lock().lines() {
        // An unreadable line is the end of the pipe to us: cleaning up comes first.
        let Ok(line) = line else { break };
        notes.take(&line);
    }
    notes.clean_up();
    Ok(XtaskOutcome::Well)
}

#[derive(Debug, Default)]
struct Notes {
    groups: Vec<i64>,
    folders: Vec<PathBuf>,
}

impl Notes {
    fn take(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("folder", path)) => self.folders.push(PathBuf::from(path)),
            Some(("group", id)) => self.groups.extend(id.parse::<i64>().map(|id| -id)),
            Some(("gone", id)) => self.groups.retain(|group| id.parse() != Ok(-group)),
            _ => (),
        }
    }

    fn clean_up(&self) {
        end_all(&self.groups, &["TERM", "KILL"]);
        for folder in &self.folders {
            let mut servers = Vec::new();
            find_servers(folder, &mut servers);
            end_all(&servers, &["INT", "QUIT", "KILL"]);
            if folder.exists()
                && let Err(error) = fs::remove_dir_all(folder)
            {
                eprintln!("xtask: cannot remove {}: {error}", folder.display());
            }
        }
    }
}

/// Sends signals in turn until all are gone.
fn end_all(processes: &[i64], signals: &[&str]) {
    let mut left: Vec<i64> = processes.to_vec();
    for (turn, signal) in signals.iter().enumerate() {
        left.retain(|process| run::signal(signal, *process));
        let secs = if turn == 0 { INTERRUPT_SECS } else { TERMINATE_SECS };
        within(secs, || {
            left.retain(|process| run::signal("0", *process));
            left.is_empty()
        });
    }
}

/// PostgreSQL servers whose data folder lies below `folder`.
fn find_servers(folder: &Path, found: &mut Vec<i64>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_servers(&entry.path(), found);
        } else if entry.file_name() == "postmaster.pid"
            && let Ok(text) = fs::read_to_string(entry.path())
            && let Some(process) = text.lines().next().and_then(|line| line.trim().parse().ok())
            && works_in(process, folder)
        {
            found.push(process);
        }
    }
}

/// Whether a process works in a folder. A killed server leaves its file behind, and its number
/// may belong to a stranger by now.
fn works_in(process: i64, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    match fs::read_link(format!("/proc/{process}/cwd")) {
        Ok(place) => place == folder,
        // Not Linux: nothing to compare with.
        Err(_) => !Path::new("/proc/self").exists(),
    }
}

/// Asks again and again until it is so, or the time is over.
pub(crate) fn within(secs: u64, mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > Duration::from_secs(secs) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_forget_what_ended_by_itself() {
        let mut notes = Notes::default();
        for line in ["group 7", "group 8", "gone 7", "folder /a b", "nonsense"] {
            notes.take(line);
        }
        assert_eq!(notes.groups, [-8]);
        assert_eq!(notes.folders, [PathBuf::from("/a b")]);
    }

    #[test]
    fn cleaning_up_ends_groups_and_removes_folders() {
        let folder = std::env::temp_dir().join(format!("wakeline-guard-{}", std::process::id()));
        fs::create_dir_all(folder.join("data")).expect("made");
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .process_group(0)
            .spawn()
            .expect("starts");
        let group = -i64::from(child.id());
        let reaper = std::thread::spawn(move || child.wait().expect("ends").success());
        Notes { groups: vec![group], folders: vec![folder.clone()] }.clean_up();
        assert!(!reaper.join().expect("no panic"));
        assert!(!folder.exists());
        assert!(within(5, || !run::signal("0", group)), "the group is still there");
    }

    #[test]
    fn a_stale_server_file_ends_no_stranger() {
        let folder = std::env::temp_dir().join(format!("wakeline-stale-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("postmaster.pid"), format!("{}\n", std::process::id()))
            .expect("written");
        let mut found = Vec::new();
        find_servers(&folder, &mut found);
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(found, Vec::<i64>::new());
    }
}
