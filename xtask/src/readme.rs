//! Does what the README says: its commands and its example.
//!
//! # Where it sits
//! Last step of `cargo xtask test`. Speaks plain HTTP over a socket, so that it shares no code
//! with what it proves.
//!
//! # Invariants
//! * The commands are taken from README.md; none is written here.

mod http;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::guard::{ProcessGuard, Running, within};
use crate::postgres::Durability;
use crate::{XtaskOutcome, run, source};
use http::ReadmeClient;

/// Where the server listens by default.
const PORT: u16 = 7632;
const START_SECS: u64 = 30;
const DRAIN_SECS: u64 = 40;
const TEST_COMMAND: &str = "cargo xtask test";

const HELP: &str = "\
Runs the commands and the example of the README

Usage: cargo xtask readme

Starts the server with the README's command, pushes, pops and acks, runs the README's example with
curl, and ends the server by SIGTERM. This is a part of `cargo xtask test`. Port 7632 must be free.
";

/// The command.
pub(crate) fn main(args: &[&str]) -> Result<XtaskOutcome> {
    match args {
        [] => {
            let mut guard = ProcessGuard::start()?;
            let scratch = guard.make_folder(Durability::On)?;
            Ok(XtaskOutcome::from_success(prove(&mut guard, &scratch)?))
        }
        ["--help" | "-h", ..] => {
            print!("{HELP}");
            Ok(XtaskOutcome::Well)
        }
        [other, ..] => Ok(XtaskOutcome::misused(format!("readme takes no {other:?}"))),
    }
}

/// True if all holds; otherwise an error says what does not. The server runs in a new folder below
/// `scratch`, because the README's command makes its file in the current folder.
pub(crate) fn prove(guard: &mut ProcessGuard, scratch: &Path) -> Result<bool> {
    let root = source::root();
    let readme = fs::read_to_string(root.join("README.md")).context("reading README.md")?;
    let commands = commands(&readme)?;
    let ci = fs::read_to_string(root.join(".ci/run")).context("reading .ci/run")?;
    ensure!(ci.lines().any(|line| line == TEST_COMMAND), ".ci/run does not run `{TEST_COMMAND}`");
    ensure!(
        TcpListener::bind(("127.0.0.1", PORT)).is_ok(),
        "port {PORT} is busy, and the README's command needs it; stop what listens there"
    );

    let folder = scratch.join("readme");
    fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut build = cargo(&commands.run, &folder)?;
    ensure!(guard.run(build.arg("--help").stdout(Stdio::null()))?, "`{}` fails", commands.run);
    let server = guard.spawn(&mut cargo(&commands.run, &folder)?)?;
    let mut server = ReadmeServer { running: Some(server) };
    server.wait_until_ready()?;
    ensure!(folder.join("wakeline.db").exists(), "wakeline.db is not in the current folder");
    push_pop_ack()?;
    run_example(guard, &commands.example, &folder)?;
    server.stop(guard)?;
    Ok(true)
}

/// The commands of the README.
#[derive(Debug, PartialEq, Eq)]
struct Commands {
    run: String,
    example: String,
}

/// Exactly two cargo commands, the second of which runs the tests, and one example with curl.
fn commands(readme: &str) -> Result<Commands> {
    let blocks = shell_blocks(readme);
    let lines: Vec<&str> = blocks
        .iter()
        .flat_map(|block| block.lines())
        .map(|line| line.split(" #").next().unwrap_or(line).trim())
        .filter(|line| line.starts_with("cargo "))
        .collect();
    let [start, test] = lines[..] else { bail!("README.md must have two commands, not {lines:?}") };
    ensure!(test == TEST_COMMAND, "the README's second command is not `{TEST_COMMAND}`");
    let example = blocks.iter().find(|block| block.contains("curl "));
    let example = example.context("README.md has no example with curl")?;
    let len = example.lines().count();
    ensure!(len <= 20, "the README's example has {len} lines, 20 at most");
    Ok(Commands { run: start.to_owned(), example: example.clone() })
}

fn shell_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        match &mut block {
            None if line.trim() == "```sh" => block = Some(String::new()),
            Some(_) if line.trim() == "```" => blocks.extend(block.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
            None => (),
        }
    }
    blocks
}

/// A cargo command of the README, for this tree but in another folder.
fn cargo(line: &str, folder: &Path) -> Result<Command> {
    let mut arguments = line.split_whitespace();
    ensure!(arguments.next() == Some("cargo"), "not a cargo command: {line}");
    let mut command = run::cargo(folder);
    command.args(arguments.next()).arg("--manifest-path").arg(source::root().join("Cargo.toml"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WAKELINE_") {
            command.env_remove(&name);
        }
    }
    Ok(command)
}

struct ReadmeServer {
    running: Option<Running>,
}

impl ReadmeServer {
    fn wait_until_ready(&mut self) -> Result<()> {
        let running = self.running.as_mut().expect("stopped only once");
        let mut ended = None;
        let ready = within(START_SECS, || {
            ended = running.child.try_wait().ok().flatten();
            ended.is_some() || ReadmeClient::new(PORT).get("/readyz").is_ok_and(|r| r.status == 200)
        });
        if let Some(status) = ended {
            bail!("the server ended by itself ({status})");
        }
        ensure!(ready, "the server is not ready after {START_SECS} s");
        Ok(())
    }

    /// Asks the server to end; it must drain and say that all is well.
    fn stop(&mut self, guard: &mut ProcessGuard) -> Result<()> {
        let mut running = self.running.take().expect("stopped only once");
        running.terminate();
        let ended = within(DRAIN_SECS, || !matches!(running.child.try_wait(), Ok(None)));
        ensure!(ended, "the server has not ended {DRAIN_SECS} s after SIGTERM");
        let status = guard.wait(running)?;
        ensure!(status.success(), "after SIGTERM the server ended with {status}");
        Ok(())
    }
}

impl Drop for ReadmeServer {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.terminate();
        }
    }
}

/// A parked pop is answered by a push, and the message can be acknowledged.
fn push_pop_ack() -> Result<()> {
    let client = ReadmeClient::new(PORT);
    let parked = std::thread::spawn(move || {
        ReadmeClient::new(PORT).get("/api/v1/pop/queue/readme-proof?wait=true&timeout=20000")
    });
    // Parked or not yet: the message must arrive either way. Mostly it will be.
    std::thread::sleep(Duration::from_millis(300));
    let pushed = client
        .post("/api/v1/push", r#"{"items":[{"queue":"readme-proof","payload":{"proof":42}}]}"#)?;
    ensure!(pushed.status == 201, "push answered {pushed:?}");
    let popped = parked.join().ok().context("the parked pop panicked")??;
    ensure!(popped.status == 200, "the parked pop answered {popped:?}");
    let popped: Value = serde_json::from_str(&popped.body).context("reading the pop's answer")?;
    let message = &popped["messages"][0];
    ensure!(message["data"]["proof"] == 42, "the pop's answer holds no message: {popped}");
    let ack = serde_json::json!({
        "transactionId": message["transactionId"],
        "partitionId": message["partitionId"],
        "leaseId": message["leaseId"],
        "status": "completed",
    });
    let acked = client.post("/api/v1/ack", &ack.to_string())?;
    ensure!(acked.status == 200, "ack answered {acked:?}");
    let after = client.get("/api/v1/pop/queue/readme-proof")?;
    ensure!(after.status == 204, "a pop after the ack answered {after:?}");
    Ok(())
}

/// The example's commands succeed as they stand there.
fn run_example(guard: &mut ProcessGuard, example: &str, folder: &Path) -> Result<()> {
    if !run::exists("curl") {
        eprintln!("xtask: curl is not installed; the README's example was not run");
        return Ok(());
    }
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", example]).current_dir(folder);
    let printed = guard.output(&mut shell).context("the README's example")?;
    ensure!(printed.contains("\"success\":true"), "the README's example printed:\n{printed}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# W\n```sh\ncargo run -- serve   # starts\ncargo xtask test\n```\n\
                          text\n```sh\ncurl -d '{}' x\n```\n```json\ncargo none\n```\n";

    #[test]
    fn the_commands_are_taken_from_the_readme() {
        let found = commands(README).expect("valid");
        assert_eq!(found.run, "cargo run -- serve");
        assert_eq!(found.example, "curl -d '{}' x\n");
    }

    #[test]
    fn a_third_command_or_a_missing_one_fails() {
        for bad in [
            README.replace("cargo xtask test\n", ""),
            README.replace("curl", "cargo curl; curl"),
            README.replace("xtask test", "test"),
            README.replace("curl ", "wget "),
            README.replace("curl -d '{}' x\n", &"curl x\n".repeat(21)),
        ] {
            assert!(commands(&bad).is_err(), "{bad}");
        }
    }
}
