//! TLS to a PostgreSQL that accepts only encrypted connections.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{OwnPostgres, Server, eventually, wakeline};

/// A certificate authority, and its folder.
struct Authority(tempfile::TempDir);

impl Authority {
    fn create() -> Self {
        let authority = Self(tempfile::tempdir().expect("a folder"));
        openssl(
            authority.0.path(),
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -subj /CN=authority -keyout ca.key -out ca.crt",
        );
        authority
    }

    fn certificate(&self) -> PathBuf {
        self.0.path().join("ca.crt")
    }

    /// Creates a key and a certificate for `localhost` in a folder.
    fn certify(&self, folder: &Path) {
        let work = self.0.path();
        std::fs::write(work.join("names"), "subjectAltName = DNS:localhost\n").expect("written");
        openssl(
            work,
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server \
             -keyout server.key -out server.csr",
        );
        openssl(
            work,
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
             -extfile names -out server.crt",
        );
        for file in ["server.key", "server.crt"] {
            std::fs::copy(work.join(file), folder.join(file)).expect("copied");
        }
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(folder).stderr(Stdio::null());
    assert!(command.status().expect("openssl runs").success(), "openssl {arguments}");
}

/// Starts a PostgreSQL with a certificate for `localhost` that refuses unencrypted connections.
fn encrypted(authority: &Authority) -> OwnPostgres {
    OwnPostgres::start_with(|data| {
        authority.certify(data);
        let append = |file: &str, text: &str| {
            let path = data.join(file);
            let old = std::fs::read_to_string(&path).expect("readable");
            std::fs::write(path, old + text).expect("written");
        };
        append("postgresql.conf", "ssl = on\n");
        let rules = "hostssl all all 127.0.0.1/32 trust\nhostnossl all all 127.0.0.1/32 reject\n";
        std::fs::write(data.join("pg_hba.conf"), rules).expect("written");
    })
}

/// Returns the error of `wakeline migrate up`, or `None` if it succeeds.
async fn refusal(url: &str) -> Option<String> {
    let mut command = wakeline();
    let output = command.args(["migrate", "up", "--store", url]).output().await.expect("it runs");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_server_and_its_listener_work_over_tls() {
    let authority = Authority::create();
    let postgres = encrypted(&authority);
    let roots = authority.certificate().display().to_string();
    for mode in ["require", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert={roots}");
        let url = postgres.url_at("localhost", &parameters);
        let server = Server::start_url(&url, &["--fallback-poll-interval-ms", "3600000"]).await;
        let other = Server::start_url(&url, &[]).await;
        eventually("the server listens", || async { server.wake().await["link"] == "up" }).await;
        let parked = server.client.park("/api/v1/pop/queue/q?wait=true&autoAck=true").await;
        server.parked(1).await;
        other.client.push("q", &[("p", mode)]).await;
        assert_eq!(parked.answer().await.expect("an answer").ids(), [mode]);
    }
}

#[tokio::test]
async fn a_server_without_a_trusted_certificate_is_refused() {
    let (authority, stranger) = (Authority::create(), Authority::create());
    let postgres = encrypted(&authority);
    let url = |host: &str, mode: &str, roots: Option<&Authority>| {
        let roots = roots.map(|roots| format!("&sslrootcert={}", roots.certificate().display()));
        postgres.url_at(host, &format!("sslmode={mode}{}", roots.unwrap_or_default()))
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        for (host, roots, why) in [
            ("localhost", Some(&stranger), "another authority"),
            ("localhost", None, "no public authority"),
            ("127.0.0.1", Some(&authority), "another name"),
        ] {
            let said = refusal(&url(host, mode, roots)).await;
            assert!(said.is_some_and(|text| text.contains("certificate")), "{mode}: {why}");
        }
    }
    assert!(
        refusal(&url("localhost", "disable", None)).await.is_some(),
        "PostgreSQL accepts only TLS"
    );
    assert_eq!(
        refusal(&url("localhost", "prefer", None)).await,
        None,
        "encrypted without verification"
    );
    assert_eq!(refusal(&url("localhost", "verify-full", Some(&authority))).await, None);
}
