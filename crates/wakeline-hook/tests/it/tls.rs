//! Receivers that use TLS.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use wakeline_core::EndpointOptions;
use wakeline_hook::{HookServiceOptions, SendOptions};

use crate::support::{Answer, Bench, Receiver, eventually, loopback, options, schedule};

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(folder).stderr(Stdio::null());
    assert!(command.status().expect("openssl runs").success(), "openssl {arguments}");
}

/// A certificate authority, and a server with a certificate of it for `localhost`.
fn certified() -> (CertificateDer<'static>, TlsAcceptor) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("names"), "subjectAltName = DNS:localhost\n").expect("written");
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        folder,
        &format!("req -x509 {new_key} -days 2 -subj /CN=authority -keyout ca.key -out ca.crt"),
    );
    openssl(folder, &format!("req {new_key} -subj /CN=server -keyout server.key -out server.csr"));
    openssl(
        folder,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names \
         -out server.crt",
    );
    let read =
        |file: &str| CertificateDer::from_pem_file(folder.join(file)).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![read("server.crt")], key)
        .expect("they belong together");
    (read("ca.crt"), TlsAcceptor::from(Arc::new(config)))
}

async fn attempt(host: &str, trusted: bool) -> (Option<u16>, Option<String>) {
    let (root, acceptor) = certified();
    let receiver = Receiver::with(Some(acceptor), Arc::new(|_| Answer::Status(200))).await;
    let roots = if trusted { vec![root] } else { Vec::new() };
    let send = SendOptions { guard: loopback(), roots, ..SendOptions::default() };
    let bench = Bench::with(HookServiceOptions { send, ..options() }).await;
    let url = format!("https://{host}:{}/", receiver.address.port());
    bench.endpoint(&url, EndpointOptions { ..schedule(&[]) }).await;
    bench.emit("{}").await;
    let attempt = bench.attempted(1).await.remove(0);
    bench.stop().await;
    (attempt.status, attempt.error)
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_accepted() {
    assert_eq!(attempt("localhost", true).await, (Some(200), None));
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let (status, error) = attempt("localhost", false).await;
    assert_eq!(status, None);
    assert!(error.expect("an error").contains("UnknownIssuer"));
}

#[tokio::test]
async fn an_abandoned_connection_is_not_kept_in_its_handshake() {
    let (root, acceptor) = certified();
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let answer = Arc::new(move |_| Answer::Gate(Arc::clone(&held)));
    let mut receiver = Receiver::stalling(Some(acceptor), answer, 1).await;
    let send = SendOptions { guard: loopback(), roots: vec![root], ..SendOptions::default() };
    let bench = Bench::with(HookServiceOptions { send, ..options() }).await;
    let url = format!("https://localhost:{}/", receiver.address.port());
    bench.endpoint(&url, EndpointOptions::default()).await;
    bench.emit("{}").await;
    receiver.next().await;
    // The second call begins to connect, and then gets the first one's connection.
    bench.emit("{}").await;
    eventually(async || receiver.connections.load(Ordering::SeqCst) == 2).await;
    gate.add_permits(2);
    receiver.next().await;
    bench.attempted(2).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(121)).await;
    tokio::time::resume();
    receiver.closed().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (status, error) = attempt("127.0.0.1", true).await;
    assert_eq!(status, None);
    assert!(error.expect("an error").to_lowercase().contains("not valid for name"));
}
