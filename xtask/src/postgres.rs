//! A PostgreSQL of our own, for one run.
//!
//! # Where it sits
//! Started by `test` and `bench`; stopped by the guardian ([`crate::guard`]).
//!
//! # Invariants
//! * It runs under an unprivileged user, listens on loopback only, and has PostgreSQL's defaults
//!   but for what is listed in [`SETTINGS`] and, for tests, in [`VOLATILE`].

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::embedded::PostgresPackage;
use crate::guard::ProcessGuard;
use crate::{provision, run};

/// What differs from PostgreSQL's defaults.
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
max_connections = 300
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.max = 50000
";

/// Settings of a server whose data need not survive a crash of the machine. Each test creates and
/// drops a database, which checkpoints: without fsync that takes milliseconds.
const VOLATILE: &str = "\
fsync = off
full_page_writes = off
shared_buffers = 256MB
checkpoint_timeout = 1h
";

const STARTS_MAX: u32 = 5;

/// Whose programs run.
#[derive(Debug)]
pub(crate) struct Programs {
    /// A PostgreSQL that is installed: its folder of programs, `psql` among them.
    pub(crate) installed: PathBuf,
    /// Another one for the server, to be unfolded first.
    pub(crate) package: Option<PostgresPackage>,
}

/// Whether a commit is on disk when the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is: for benchmarks.
    On,
    /// It need not be: for tests. Those that test durability start servers of their own.
    Off,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Postgres {
    /// The server's programs.
    bin: PathBuf,
    psql: PathBuf,
    account: Account,
    port: u16,
    folder: PathBuf,
}

/// Who owns the server's files and processes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    name: String,
    /// To change to, if we are root.
    ids: Option<(u32, u32)>,
}

impl Postgres {
    /// Makes a cluster in a temporary folder and starts it on a free port.
    pub(crate) fn start(
        guard: &mut ProcessGuard,
        programs: Programs,
        durability: Durability,
    ) -> Result<Self> {
        let folder = guard.make_folder(durability)?;
        let psql = programs.installed.join("psql");
        let bin = match programs.package {
            Some(package) => package.unfold(guard, &folder)?,
            None => programs.installed,
        };
        let account = account()?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let scratch = folder.join("tmp");
        fs::create_dir(&scratch)?;
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o1777))?;
        if let Some((user, group)) = account.ids {
            std::os::unix::fs::chown(&folder, Some(user), Some(group))?;
        }
        let mut server = Self { bin, psql, account, port: 0, folder };
        server.initialise(guard, durability)?;
        for _ in 0..STARTS_MAX {
            server.port = free_port()?;
            if server.try_start(guard)? {
                return Ok(server);
            }
        }
        let log = fs::read_to_string(server.folder.join("log")).unwrap_or_default();
        bail!("PostgreSQL does not start; its log says:\n{log}");
    }

    /// Sets the variables with the URL of the server, and with a folder for temporary files that is
    /// removed at the end.
    pub(crate) fn lend<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("WAKELINE_TEST_POSTGRES", self.url())
            .env("WAKELINE_TEST_PG_BIN", &self.bin)
            .env("WAKELINE_TEST_PSQL", &self.psql)
            .env("WAKELINE_TEST_PG_USER", &self.account.name)
            .env("TMPDIR", self.scratch())
    }

    /// A folder for temporary files, removed when the run is over.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// What the server's program calls itself, as `18.4`.
    pub(crate) fn version(&self) -> Result<String> {
        let text = run::output(Command::new(self.bin.join("postgres")).arg("--version"))?;
        Ok(text.split_whitespace().nth(2).unwrap_or_default().to_owned())
    }

    /// Where clients connect, as a superuser.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(&self.folder).arg("-D").arg(self.data());
        if let Some((user, group)) = self.account.ids {
            command.uid(user).gid(group);
        }
        command
    }

    fn initialise(&self, guard: &mut ProcessGuard, durability: Durability) -> Result<()> {
        let mut initdb = self.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        // The server itself syncs; the files of an empty cluster need not be.
        initdb.arg("--no-sync").stdout(Stdio::null());
        if !guard.run(&mut initdb)? {
            bail!("initdb failed");
        }
        let path = self.data().join("postgresql.conf");
        let mut settings = fs::OpenOptions::new().append(true).open(&path)?;
        let volatile = if durability == Durability::Off { VOLATILE } else { "" };
        let socket_folder = self.socket_folder();
        writeln!(settings, "{SETTINGS}{volatile}unix_socket_directories = '{socket_folder}'")?;
        self.create_extension_and_role()
    }

    /// Connections go over TCP; the socket is for people, if the path is not too long for one.
    fn socket_folder(&self) -> String {
        let folder = self.folder.to_string_lossy();
        let fits = folder.len() < 80 && !folder.contains('\'');
        if fits { folder.into_owned() } else { String::new() }
    }

    /// The extension counts statements; the role is the ordinary one that tests connect as.
    fn create_extension_and_role(&self) -> Result<()> {
        let mut single = Command::new(self.bin.join("postgres"));
        single.current_dir(&self.folder).arg("--single").arg("-D").arg(self.data());
        if let Some((user, group)) = self.account.ids {
            single.uid(user).gid(group);
        }
        single.arg("postgres").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = single.spawn().context("starting PostgreSQL in single-user mode")?;
        let mut input = child.stdin.take().expect("asked for a pipe");
        input
            .write_all(b"CREATE EXTENSION pg_stat_statements\nCREATE ROLE wakeline_app LOGIN\n")?;
        drop(input);
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || said.contains("ERROR:") || said.contains("FATAL:") {
            bail!("pg_stat_statements (of PostgreSQL's contrib modules) is needed:\n{said}");
        }
        Ok(())
    }

    fn try_start(&self, guard: &mut ProcessGuard) -> Result<bool> {
        let mut start = self.command("pg_ctl");
        start.arg("-l").arg(self.folder.join("log")).args(["-w", "-t", "60"]);
        start.args(["-o", &format!("-p {}", self.port), "start"]);
        guard.run(start.stdout(Stdio::null()))
    }
}

fn free_port() -> Result<u16> {
    let probe = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(probe.local_addr()?.port())
}

/// PostgreSQL refuses to run as root. As root, this is the user of its package, or the unprivileged
/// user that every system has.
fn account() -> Result<Account> {
    if !provision::is_root()? {
        let name = run::output(Command::new("id").arg("-un"))?.trim().to_owned();
        return Ok(Account { name, ids: None });
    }
    let users = fs::read_to_string(Path::new("/etc/passwd")).context("reading /etc/passwd")?;
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| lookup(&users, name))
        .context("PostgreSQL refuses to run as root, and there is no user `postgres` to run it as")
}

fn lookup(users: &str, name: &str) -> Option<Account> {
    let fields: Vec<&str> =
        users.lines().map(|line| line.split(':').collect()).find(|f: &Vec<&str>| f[0] == name)?;
    let ids = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
    Some(Account { name: name.to_owned(), ids: Some(ids) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_looked_up_by_their_whole_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgresql:x:9:9::/:\npostgres:x:101:104::/:\n";
        let account = lookup(users, "postgres").expect("listed");
        assert_eq!(account.ids, Some((101, 104)));
        assert_eq!(lookup(users, "nobody"), None);
    }
}
