//! Databases of their own on the PostgreSQL that `cargo xtask test` runs, and PostgreSQL servers
//! of their own for tests that restart one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio_postgres::{Client, NoTls};

/// The PostgreSQL that the tests share.
fn shared_url() -> String {
    std::env::var("WAKELINE_TEST_POSTGRES")
        .expect("run `cargo xtask test`, which starts a PostgreSQL")
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// A database of its own, dropped at the end.
pub(crate) struct Database {
    name: String,
    base: String,
}

impl Database {
    pub(crate) async fn create() -> Self {
        let url = shared_url();
        let (base, _) = url.rsplit_once('/').expect("a database in the URL");
        let database =
            Self { name: format!("wl_{}", uuid::Uuid::new_v4().simple()), base: base.to_owned() };
        let admin = connect(&url).await;
        let create = format!("CREATE DATABASE {}", database.name);
        admin.batch_execute(&create).await.expect("a database");
        database
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.base, self.name)
    }

    /// Host and port, for a proxy.
    pub(crate) fn address(&self) -> String {
        let (_, host) = self.base.rsplit_once('@').expect("a user in the URL");
        host.to_owned()
    }

    /// The same database, reached through another address.
    pub(crate) fn url_through(&self, address: std::net::SocketAddr) -> String {
        let (user, _) = self.base.rsplit_once('@').expect("a user in the URL");
        format!("{user}@{address}/{}", self.name)
    }

    /// A session of a user's own.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// Forgets all statements counted so far.
    pub(crate) async fn reset_statements(&self) {
        let sql = "SELECT pg_stat_statements_reset(0, oid, 0) FROM pg_database WHERE datname = $1";
        self.statistics().await.execute(sql, &[&self.name]).await.expect("reset");
    }

    /// Statements run in this database since the last reset, with their calls.
    pub(crate) async fn statements(&self) -> Vec<(String, i64)> {
        let sql =
            "SELECT query, calls FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
                   WHERE d.datname = $1 AND s.toplevel";
        let rows = self.statistics().await.query(sql, &[&self.name]).await.expect("counted");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Calls of statements that speak of a word.
    pub(crate) async fn calls(&self, word: &str) -> i64 {
        let statements = self.statements().await;
        statements.iter().filter(|(sql, _)| sql.contains(word)).map(|(_, calls)| calls).sum()
    }

    /// Calls of statements that speak of a word, and the buffers that they touched.
    pub(crate) async fn buffers(&self, word: &str) -> (i64, i64) {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint,
                coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint
            FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
            WHERE d.datname = $1 AND s.toplevel AND s.query LIKE '%' || $2 || '%'";
        let row = self.statistics().await.query_one(sql, &[&self.name, &word]).await;
        let row = row.expect("counted");
        (row.get(0), row.get(1))
    }

    /// A connection to another database, so that looking is not counted here.
    async fn statistics(&self) -> Client {
        let client = connect(&shared_url()).await;
        let make = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
        // Several tests may make it at the same moment; one of them succeeds.
        let _ = client.batch_execute(make).await;
        client
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (url, name) = (shared_url(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let client = connect(&url).await;
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                client.batch_execute(&sql).await
            })
        });
        let _ = dropping.join();
    }
}

/// A PostgreSQL server of its own.
pub(crate) struct OwnPostgres {
    folder: tempfile::TempDir,
    port: u16,
}

impl OwnPostgres {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// One that is set up in its data folder before it starts.
    pub(crate) fn start_with(set_up: impl FnOnce(&Path)) -> Self {
        let mut own = Self { folder: tempfile::tempdir().expect("a folder"), port: 0 };
        if let Some(user) = own.user() {
            let owned = Command::new("chown").arg(&user).arg(own.folder.path()).status();
            assert!(owned.expect("chown runs").success());
        }
        let data = own.data();
        let made = own.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync"]);
        assert!(made, "initdb failed");
        set_up(Path::new(&data));
        if let Some(user) = own.user() {
            let owned = Command::new("chown").args(["-R", &user, &data]).status();
            assert!(owned.expect("chown runs").success());
        }
        // A port that was free a moment ago may have been taken meanwhile.
        let started = (0..5).any(|_| {
            own.port = free_port();
            own.start_again()
        });
        assert!(started, "{}", own.log());
        own
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The same, by a host name and with parameters.
    pub(crate) fn url_at(&self, host: &str, parameters: &str) -> String {
        format!("postgres://postgres@{host}:{}/postgres?{parameters}", self.port)
    }

    /// Stops it at once, as a crash would.
    pub(crate) fn stop(&self) {
        let stopped = self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
        assert!(stopped, "{}", self.log());
    }

    /// Starts it where it was.
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

    /// The unprivileged user that PostgreSQL runs as when this is root.
    fn user(&self) -> Option<String> {
        let user = std::env::var("WAKELINE_TEST_PG_USER").ok();
        user.filter(|_| rustix::process::getuid().is_root())
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let bin = std::env::var("WAKELINE_TEST_PG_BIN");
        let bin: PathBuf = bin.expect("run `cargo xtask test`, which finds PostgreSQL").into();
        let program = bin.join(program);
        let mut command = match self.user() {
            Some(user) => as_user(&user, &program),
            None => Command::new(program),
        };
        command.args(args).current_dir(self.folder.path());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.expect("it runs").success()
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
