//! Starts programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A cargo command in `folder`, without what `cargo run` set for xtask itself: build scripts
/// that look at those variables would run again at every change between a user's and our cargo.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if ours.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a short command and returns what it printed; an error if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = describe(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting `{name}`"))?;
    if !output.status.success() {
        bail!("`{name}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of `{name}`"))
}

/// Whether a short command succeeds; what it says does not matter.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether a program of this name can be started.
pub(crate) fn exists(program: &str) -> bool {
    search_path().iter().any(|folder| folder.join(program).is_file())
}

/// The folders in which programs are looked for.
pub(crate) fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default()
}

/// Sends a signal to a process, or to a process group if the number is negative. False if there
/// is none.
pub(crate) fn signal(name: &str, process: i64) -> bool {
    succeeds(
        Command::new("sh").args(["-c", "kill -s \"$0\" -- \"$1\"", name]).arg(process.to_string()),
    )
}

/// The command as a user would type it.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = output(Command::new("sh").args(["-c", "exit 3"])).expect_err("fails");
        assert!(error.to_string().starts_with("`sh -c exit 3` failed"), "{error}");
    }

    #[test]
    fn a_signal_to_a_process_that_is_gone_reports_that() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("starts");
        let process = i64::from(child.id());
        assert!(signal("TERM", process));
        assert!(!child.wait().expect("ends").success());
        assert!(!signal("TERM", process));
    }
}
