//! Fetches a key set: one request with limits, without redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header::{ACCEPT, HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wakeline_core::error_chain;
use wakeline_store::BoxError;

use super::JwtError;

/// The maximum duration of a fetch, including the connection.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a key set in bytes.
const BYTES_MAX: usize = 1024 * 1024;

/// The parsed URL of a key set.
struct KeySetUrl {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

fn parse(url: &str) -> Result<KeySetUrl, JwtError> {
    let uri: Uri = url.parse().map_err(|_| {
        JwtError("jwks_url is not a URL: write it like https://id.example.org/jwks.json")
    })?;
    let host =
        uri.host().ok_or(JwtError("jwks_url names no host"))?.trim_matches(['[', ']']).to_owned();
    let tls = match uri.scheme_str() {
        Some("https") => true,
        // Whoever can change the response could sign tokens.
        Some("http") if is_loopback(&host) => false,
        _ => {
            return Err(JwtError(
                "jwks_url must begin with https://; http:// is allowed on this machine only",
            ));
        }
    };
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    Ok(KeySetUrl { uri, host, port, tls })
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// Checks whether a URL can be fetched from.
pub(super) fn check(url: &str) -> Result<(), JwtError> {
    parse(url).map(|_| ())
}

/// Fetches the content of a URL.
pub(super) async fn get(url: &str) -> Result<Bytes, BoxError> {
    let url = parse(url)?;
    let got = timeout(FETCH_TIMEOUT, Box::pin(exchange(url))).await;
    got.map_err(|_| format!("the server did not respond within {} s", FETCH_TIMEOUT.as_secs()))?
}

async fn exchange(url: KeySetUrl) -> Result<Bytes, BoxError> {
    let reached = TcpStream::connect((url.host.as_str(), url.port)).await;
    let stream =
        reached.map_err(|error| format!("cannot connect to {}:{}: {error}", url.host, url.port))?;
    if !url.tls {
        return send_request(stream, &url).await;
    }
    let name = ServerName::try_from(url.host.clone())?;
    let secured = connector()?.connect(name, stream).await;
    send_request(secured.map_err(|error| format!("TLS failed: {error}"))?, &url).await
}

fn connector() -> Result<TlsConnector, BoxError> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn send_request<S>(stream: S, url: &KeySetUrl) -> Result<Bytes, BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("the response ended early: {}", error_chain(&error));
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    let driver = tokio::spawn(connection);
    let answer = async {
        let mut request = Request::new(Empty::<Bytes>::new());
        let path = url.uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse()?;
        let authority = url.uri.authority().map_or(url.host.as_str(), |one| one.as_str());
        let host = HeaderValue::try_from(authority)?;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (parts, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        if !parts.status.is_success() {
            return Err(format!("the server responded with status {}", parts.status).into());
        }
        let whole = Limited::new(body, BYTES_MAX).collect().await;
        Ok(whole.map_err(|error| format!("the response is incomplete: {error}"))?.to_bytes())
    };
    let answer = answer.await;
    driver.abort();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_sets_come_over_tls_or_from_this_machine() {
        for fine in ["https://id.example.org/keys", "http://127.0.0.1:1/k", "http://[::1]/k"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for wrong in ["http://id.example.org/keys", "ftp://localhost/k", "keys", "https://"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
