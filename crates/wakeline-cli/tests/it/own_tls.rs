//! TLS of the server itself: handshakes, and certificates that change while it runs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{Server, Store, eventually, output_of, wakeline};

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(folder).stderr(Stdio::null());
    assert!(command.status().expect("openssl runs").success(), "openssl {arguments}");
}

/// Creates a self-signed certificate for `localhost` and its key in a folder.
fn certify(folder: &Path, name: &str) {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -subj /CN={name} -addext subjectAltName=DNS:localhost -addext \
             basicConstraints=critical,CA:FALSE -keyout {name}.key -out {name}.crt"
        ),
    );
}

/// Installs a certificate whose files seem to be this many seconds old.
fn put(folder: &Path, name: &str, age: u64) {
    for ending in ["crt", "key"] {
        let to = folder.join(format!("used.{ending}"));
        std::fs::copy(folder.join(format!("{name}.{ending}")), &to).expect("copied");
        let file = std::fs::File::options().write(true).open(&to).expect("there");
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("set");
    }
}

/// Returns the answer of a server that uses this certificate, or `None` if it uses another one.
async fn answer(server: &Server, certificate: &Path) -> Option<String> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
    roots.add(certificate).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.client.address).await.expect("connected");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    Some(text)
}

#[tokio::test]
async fn certificates_are_reloaded_and_kept_if_new_ones_are_invalid() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["one", "two", "three"] {
        certify(folder, name);
    }
    put(folder, "one", 100);
    let store = Store::sqlite();
    let mut command = wakeline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
    command.arg("--tls-cert-file").arg(folder.join("used.crt"));
    command.arg("--tls-key-file").arg(folder.join("used.key"));
    let server = Server::spawn(command).await;
    assert!(server.greeting.iter().any(|line| line.contains("https://")), "{:?}", server.greeting);
    let has = async |name: &str| {
        let answer = answer(&server, &folder.join(format!("{name}.crt"))).await;
        answer.is_some_and(|text| text.starts_with("HTTP/1.1 200"))
    };
    assert!(has("one").await && !has("two").await);
    // Connections without TLS are refused, and do not block others.
    let mut idle = TcpStream::connect(server.client.address).await.expect("connected");
    idle.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("sent");
    let _silent = TcpStream::connect(server.client.address).await.expect("connected");
    put(folder, "two", 50);
    eventually("the new certificate is used", || has("two")).await;
    std::fs::write(folder.join("used.crt"), "broken").expect("written");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(has("two").await, "the previous certificate stays");
    server.signal(Signal::HUP);
    assert!(has("two").await, "also after a signal");
    // After a signal the files are read again even if they seem to be unchanged.
    put(folder, "three", 25);
    server.signal(Signal::HUP);
    eventually("the third certificate is used", || has("three")).await;
    assert!(!has("one").await);
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    certify(folder.path(), "one");
    certify(folder.path(), "two");
    let store = Store::sqlite();
    for (cert, key, named) in [
        ("one.crt", "none.key", "none.key"),
        ("one.key", "one.key", "one.key"),
        ("one.crt", "two.key", "one.crt"),
    ] {
        let mut command = wakeline();
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
        command.arg("--tls-cert-file").arg(folder.path().join(cert));
        command.arg("--tls-key-file").arg(folder.path().join(key));
        let output = crate::support::output_of(command).await;
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[tokio::test]
async fn files_that_are_swapped_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    certify(folder.path(), "a");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (file("a.crt"), file("a.key"));
    for (cert, key, named) in [
        (&key, &cert, "there is no certificate in it"),
        (&cert, &cert, "there is no private key in it"),
    ] {
        let mut command = wakeline();
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &Store::sqlite().url()]);
        command.args(["--tls-cert-file", cert, "--tls-key-file", key]);
        let output = output_of(command).await;
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(named) && error.contains("swapped"), "{error}");
    }
}
