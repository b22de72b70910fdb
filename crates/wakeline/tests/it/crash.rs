//! Kills every example with SIGKILL at every persisted transition and starts it again: the result
//! is always the same. Activities may run twice, but their results count once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use wakeline::{Client, EventKind};

use crate::support::Store;

/// Short, so that the leases of a killed program end soon.
const LEASE_MS: &str = "300";
/// A number of transitions that no example reaches.
const TRANSITIONS_MAX: u32 = 200;

pub(crate) struct Example {
    path: PathBuf,
    store: Store,
    log: PathBuf,
    lease_ms: &'static str,
    _folder: tempfile::TempDir,
}

impl Example {
    fn new(name: &str, store: Store) -> Self {
        Self::with_lease(name, store, LEASE_MS)
    }

    pub(crate) fn with_lease(name: &str, store: Store, lease_ms: &'static str) -> Self {
        let own = std::env::current_exe().expect("a path");
        let built = own.ancestors().nth(2).expect("the folder of the build");
        let path = built.join("examples").join(name);
        assert!(path.exists(), "build the examples first: {}", path.display());
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        Self { path, store, log, lease_ms, _folder: folder }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the command that runs the program for one instance.
    pub(crate) fn command(&self, instance: &str) -> Command {
        let mut program = Command::new(&self.path);
        program.args(self.store.flags()).arg(instance).stdin(Stdio::null());
        program.env("WAKELINE_EXAMPLE_LEASE_MS", self.lease_ms);
        program.env("WAKELINE_EXAMPLE_LOG", &self.log);
        program
    }

    /// Runs the program; `kill` is the transition at which it kills itself.
    fn run(&self, instance: &str, kill: Option<&str>) -> Output {
        let mut program = self.command(instance);
        if let Some(kill) = kill {
            program.env("WAKELINE_EXAMPLE_KILL", kill);
        }
        program.output().expect("it runs")
    }

    /// Returns what the program printed, if it succeeded.
    fn result(&self, instance: &str, kill: Option<&str>) -> Option<String> {
        use std::os::unix::process::ExitStatusExt;
        let output = self.run(instance, kill);
        if kill.is_some() && output.status.signal() == Some(9) {
            return None;
        }
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{instance} {kill:?}: {}\n{words}", output.status);
        Some(String::from_utf8(output.stdout).expect("text").trim().to_owned())
    }

    /// Kills the program at every transition, and returns the number of kills.
    fn kill_everywhere(&self, expected: &str) -> u32 {
        assert_eq!(self.result("undisturbed", None).as_deref(), Some(expected));
        let mut kills = 0;
        for moment in ["after", "before"] {
            for nth in 1..TRANSITIONS_MAX {
                let instance = format!("{moment}-{nth}");
                let killed = self.result(&instance, Some(&format!("{moment}:{nth}")));
                let result = match killed {
                    None => self.result(&instance, None).expect("not killed"),
                    Some(ref result) => result.clone(),
                };
                assert_eq!(result, expected, "killed {moment} transition {nth}");
                if killed.is_some() {
                    break;
                }
                kills += 1;
            }
        }
        kills
    }

    pub(crate) fn logged(&self) -> Vec<String> {
        read_lines(&self.log)
    }
}

fn read_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("the activities' log");
    text.lines().map(ToOwned::to_owned).collect()
}

/// Asserts that no operation of the instance or of its descendants has ended twice.
async fn ended_once(client: &Client, instance: &str) {
    for member in client.tree(instance).await.expect("a tree") {
        for execution in client.executions(member.as_str()).await.expect("executions") {
            let events = client.history(member.as_str(), Some(execution.execution)).await;
            let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
            for event in events.expect("a history") {
                match event.kind {
                    EventKind::ActivityCompleted { of, .. }
                    | EventKind::ActivityFailed { of, .. }
                    | EventKind::TimerFired { of }
                    | EventKind::ChildCompleted { of, .. }
                    | EventKind::ChildFailed { of, .. } => *ends.entry(of).or_default() += 1,
                    _ => {}
                }
            }
            assert!(ends.values().all(|times| *times == 1), "{member}: {ends:?}");
        }
    }
}

async fn survives(name: &str, store: Store, expected: &str) {
    let example = Example::new(name, store);
    let started = std::time::Instant::now();
    let kills = example.kill_everywhere(expected);
    let logged = example.logged();
    let again = logged.iter().filter(|line| !line.ends_with("try 1")).count();
    eprintln!(
        "{name} on {}: killed {kills} times in {:?}; {} activities ran, {again} of them again",
        example.store.name(),
        started.elapsed(),
        logged.len()
    );
    assert!(kills >= 10, "{kills} transitions are too few to be true");
    assert!(again > 0, "no kill hit a running activity");
    let client = example.store.client().await;
    ended_once(&client, "undisturbed").await;
    for nth in 1..TRANSITIONS_MAX {
        for moment in ["after", "before"] {
            let instance = format!("{moment}-{nth}");
            if client.status(&instance).await.expect("a status").instance().is_some() {
                ended_once(&client, &instance).await;
            }
        }
    }
}

macro_rules! examples {
    ($($name:ident gives $expected:expr,)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn survives_every_kill_on_sqlite() {
                survives(stringify!($name), Store::sqlite(), $expected).await;
            }

            #[tokio::test]
            async fn survives_every_kill_on_postgres() {
                survives(stringify!($name), Store::postgres().await, $expected).await;
            }
        }
    )*};
}

examples! {
    function_chain gives r#""ticket 7, paid, confirmed""#,
    fan_out_fan_in gives "11",
    human_approval gives r#""120 euros, approved by the director""#,
    saga gives concat!(
        r#"["flight booked","hotel booked","no car is left","#,
        r#""hotel cancelled","flight cancelled"]"#
    ),
    eternal_loop gives "21",
    meter_readings gives "719400",
    sub_orchestrations gives r#"["parcel from north, shipped","parcel from south, shipped"]"#,
}
