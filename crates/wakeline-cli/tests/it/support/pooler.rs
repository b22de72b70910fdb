//! A PgBouncer for one test, in front of the PostgreSQL that `cargo xtask test` runs.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wakeline_testkit::database::{APP_ROLE, TestDatabase};

/// A running PgBouncer in transaction mode, without support for prepared statements.
pub(crate) struct Pooler {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Pooler {
    /// Starts a pooler with this number of connections to the database, and additional lines in its
    /// configuration.
    pub(crate) fn start(database: &TestDatabase, connections: u32, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Another process may take the free port before the pooler binds it.
        for _ in 0..5 {
            let address = free_address();
            let config = configure(folder.path(), database, address);
            let text = std::fs::read_to_string(&config).expect("written");
            let text = format!("{text}default_pool_size = {connections}\n{more}\n");
            std::fs::write(&config, text).expect("written");
            let mut child = command(&config).spawn().expect("run `cargo xtask test`: no pgbouncer");
            if answers(&mut child, address) {
                return Self { child, address, _folder: folder };
            }
        }
        panic!("PgBouncer did not start");
    }

    /// The URL of a database through the pooler.
    pub(crate) fn url(&self, database: &TestDatabase) -> String {
        database.url_through(self.address)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the configuration so that the user of the pooler can read it. Returns its path.
fn configure(folder: &Path, database: &TestDatabase, at: SocketAddr) -> std::path::PathBuf {
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).expect("allowed");
    let (config, users) = (folder.join("pgbouncer.ini"), folder.join("users"));
    std::fs::write(&users, format!("\"{APP_ROLE}\" \"\"\n")).expect("written");
    let target = database.address();
    let (host, port) = target.rsplit_once(':').expect("a port");
    let text = format!(
        "[databases]\n* = host={host} port={port}\n[pgbouncer]\npool_mode = transaction\n\
         listen_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\nauth_type = trust\n\
         auth_file = {}\nmax_client_conn = 500\n",
        at.port(),
        users.display()
    );
    std::fs::write(&config, text).expect("written");
    config
}

/// Returns the command that starts PgBouncer. PgBouncer refuses to run as root; as root it runs as
/// the user of PostgreSQL.
fn command(config: &Path) -> Command {
    let installed = Path::new("/usr/sbin/pgbouncer");
    let program = if installed.exists() { installed } else { Path::new("pgbouncer") };
    let mut command = Command::new(program);
    let user = std::env::var("WAKELINE_TEST_PG_USER").ok();
    if let Some(user) = user.filter(|_| rustix::process::getuid().is_root()) {
        command.args(["-u", &user]);
    }
    command.arg("-q").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Waits until the pooler accepts connections. Returns false if it ended.
fn answers(child: &mut Child, address: SocketAddr) -> bool {
    let started = Instant::now();
    while child.try_wait().expect("waited").is_none() {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "PgBouncer does not answer");
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}
