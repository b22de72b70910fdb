//! Databases on the PostgreSQL that `cargo xtask test` runs, one for each test, and separate
//! PostgreSQL servers for tests that restart one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wakeline_postgres::{PostgresOptions, migrate_up};
use wakeline_testkit::database::{APP_ROLE, TestDatabase};

/// Creates a migrated database for one test.
pub(crate) async fn database() -> TestDatabase {
    TestDatabase::copy_of("wl_migrated", async |url| {
        migrate_up(&PostgresOptions::new(url)).await.expect("migrated");
    })
    .await
}

/// A PostgreSQL server for one test.
pub(crate) struct OwnPostgres {
    folder: tempfile::TempDir,
    port: u16,
}

impl OwnPostgres {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// Starts a server whose data folder is modified by `set_up` before the start.
    pub(crate) fn start_with(set_up: impl FnOnce(&Path)) -> Self {
        let mut own = Self { folder: tempfile::tempdir().expect("a folder"), port: 0 };
        if let Some(user) = own.user() {
            let owned = Command::new("chown").arg(&user).arg(own.folder.path()).status();
            assert!(owned.expect("chown runs").success());
        }
        let data = own.data();
        let made = own.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync"]);
        assert!(made, "initdb failed");
        own.create_role();
        set_up(Path::new(&data));
        if let Some(user) = own.user() {
            let owned = Command::new("chown").args(["-R", &user, &data]).status();
            assert!(owned.expect("chown runs").success());
        }
        // Another process may take the free port before the server binds it.
        let started = (0..5).any(|_| {
            own.port = free_port();
            own.start_again()
        });
        assert!(started, "{}", own.log());
        own
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://{APP_ROLE}@127.0.0.1:{}/postgres", self.port)
    }

    /// The URL with a host name and parameters.
    pub(crate) fn url_at(&self, host: &str, parameters: &str) -> String {
        format!("postgres://{APP_ROLE}@{host}:{}/postgres?{parameters}", self.port)
    }

    /// Stops the server at once, like a crash.
    pub(crate) fn stop(&self) {
        let stopped = self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
        assert!(stopped, "{}", self.log());
    }

    /// Starts the server again on the same port.
    pub(crate) fn restart(&self) {
        assert!(self.start_again(), "{}", self.log());
    }

    fn start_again(&self) -> bool {
        let settings = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={}",
            self.port,
            self.folder.path().display()
        );
        let (data, log) = (self.data(), self.log_path());
        self.run("pg_ctl", &["-D", &data, "-l", &log, "-o", &settings, "-w", "start"])
    }

    fn log_path(&self) -> String {
        self.folder.path().join("log").display().to_string()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// The unprivileged user that PostgreSQL runs as if this process runs as root.
    fn user(&self) -> Option<String> {
        let user = std::env::var("WAKELINE_TEST_PG_USER").ok();
        user.filter(|_| rustix::process::getuid().is_root())
    }

    /// Creates the ordinary role that servers connect as.
    fn create_role(&self) {
        let mut single = self.command("postgres");
        single.args(["--single", "-D", &self.data(), "postgres"]).stdin(Stdio::piped());
        let mut child = single.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        let sql = format!(
            "CREATE ROLE {APP_ROLE} LOGIN\nGRANT CREATE ON DATABASE postgres TO {APP_ROLE}\n"
        );
        child.stdin.take().expect("piped").write_all(sql.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success(), "the role was not created");
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let mut command = self.command(program);
        command.args(args);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.expect("it runs").success()
    }

    fn command(&self, program: &str) -> Command {
        let bin = std::env::var("WAKELINE_TEST_PG_BIN");
        let bin: PathBuf = bin.expect("run `cargo xtask test`, which finds PostgreSQL").into();
        let program = bin.join(program);
        let mut command = match self.user() {
            Some(user) => as_user(&user, &program),
            None => Command::new(program),
        };
        command.current_dir(self.folder.path());
        command
    }
}

fn as_user(user: &str, program: &Path) -> Command {
    let mut command = Command::new("runuser");
    command.args(["-u", user, "--"]).arg(program);
    command
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }
}
