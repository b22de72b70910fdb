//! Fetches a key set: one bounded request, no redirects.

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

use super::JwtMistake;

/// Longest fetch, connecting included.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest key set.
const BYTES_MAX: usize = 1024 * 1024;

/// Where a URL leads.
struct Place {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

fn place(url: &str) -> Result<Place, JwtMistake> {
    let uri: Uri = url.parse().map_err(|_| {
        JwtMistake("jwks_url is not a URL: write it like https://id.example.org/jwks.json")
    })?;
    let host =
        uri.host().ok_or(JwtMistake("jwks_url names no host"))?.trim_matches(['[', ']']).to_owned();
    let tls = match uri.scheme_str() {
        Some("https") => true,
        // Whoever can change what comes over the wire could sign tokens.
        Some("http") if is_loopback(&host) => false,
        _ => {
            return Err(JwtMistake(
                "jwks_url must begin with https://; http:// is allowed on this machine only",
            ));
        }
    };
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    Ok(Place { uri, host, port, tls })
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// Whether a URL can be fetched from at all.
pub(super) fn check(url: &str) -> Result<(), JwtMistake> {
    place(url).map(|_| ())
}

/// What is there.
pub(super) async fn get(url: &str) -> Result<Bytes, BoxError> {
    let place = place(url)?;
    let got = timeout(PATIENCE, Box::pin(exchange(place))).await;
    got.map_err(|_| format!("the server did not answer within {} s", PATIENCE.as_secs()))?
}

async fn exchange(place: Place) -> Result<Bytes, BoxError> {
    let reached = TcpStream::connect((place.host.as_str(), place.port)).await;
    let stream = reached
        .map_err(|error| format!("cannot connect to {}:{}: {error}", place.host, place.port))?;
    if !place.tls {
        return ask(stream, &place).await;
    }
    let name = ServerName::try_from(place.host.clone())?;
    let secured = connector()?.connect(name, stream).await;
    ask(secured.map_err(|error| format!("TLS failed: {error}"))?, &place).await
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

async fn ask<S>(stream: S, place: &Place) -> Result<Bytes, BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("the response ended early: {}", error_chain(&error));
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    let driver = tokio::spawn(connection);
    let answer = async {
        let mut request = Request::new(Empty::<Bytes>::new());
        let path = place.uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse()?;
        let authority = place.uri.authority().map_or(place.host.as_str(), |one| one.as_str());
        let host = HeaderValue::try_from(authority)?;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (parts, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        if !parts.status.is_success() {
            return Err(format!("the server answered {}", parts.status).into());
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
