//! A small HTTP client: one request per connection, over TLS if the URL begins with `https`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Maximum size of a response.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Sends requests to one server.
#[derive(Clone)]
pub(crate) struct HttpClient {
    scheme_tls: bool,
    host: String,
    port: u16,
    path: String,
    bearer: Option<String>,
}

/// A request to the server of a [`HttpClient`].
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    /// Appended to the path of the client's URL.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl HttpClient {
    /// Creates a client for a URL. Its path and query are prepended to the path of each request.
    pub(crate) fn new(url: &str, bearer: Option<String>) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| {
            format!("{url:?} is not a URL: write it like http://127.0.0.1:7632")
        })?;
        let scheme_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("{url:?} is not a URL: it must begin with http:// or https://"),
        };
        let host = uri.host().with_context(|| format!("{url:?} has no host"))?;
        let path = uri.path_and_query().map(|path| path.as_str()).unwrap_or_default();
        Ok(Self {
            scheme_tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if scheme_tls { 443 } else { 80 }),
            path: path.trim_end_matches('/').to_owned(),
            bearer,
        })
    }

    /// Sends a request and waits for the whole response. The timeout includes connecting.
    pub(crate) async fn send(&self, request: HttpRequest) -> anyhow::Result<HttpResponse> {
        let timeout = request.timeout;
        let place = format!("{}:{}", self.host, self.port);
        let exchange = Box::pin(self.exchange(request));
        let answer = tokio::time::timeout(timeout, exchange).await;
        answer
            .map_err(|_| anyhow::anyhow!("{place} did not answer within {} s", timeout.as_secs()))?
    }

    async fn exchange(&self, request: HttpRequest) -> anyhow::Result<HttpResponse> {
        let place = (self.host.as_str(), self.port);
        let shown = || format!("cannot reach {}:{}", self.host, self.port);
        let stream = TcpStream::connect(place).await.with_context(shown)?;
        stream.set_nodelay(true)?;
        let request = self.request(request)?;
        if !self.scheme_tls {
            return exchange(stream, request).await;
        }
        let name = ServerName::try_from(self.host.clone())?;
        let stream = tls()?.connect(name, stream).await.with_context(shown)?;
        exchange(stream, request).await
    }

    fn request(&self, from: HttpRequest) -> anyhow::Result<Request<Full<Bytes>>> {
        let path = format!("{}{}", self.path, from.path);
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        let mut request = Request::new(Full::new(from.body));
        *request.method_mut() = from.method;
        *request.uri_mut() = path.parse().with_context(|| format!("{path:?} is not a path"))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in from.headers {
            let name = HeaderName::try_from(name)?;
            headers.insert(name, HeaderValue::try_from(value)?);
        }
        let v6 = self.host.contains(':');
        let host = if v6 { format!("[{}]", self.host) } else { self.host.clone() };
        headers.insert(HOST, HeaderValue::try_from(format!("{host}:{}", self.port))?);
        if let Some(key) = &self.bearer {
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
            value.set_sensitive(true);
            headers.insert(hyper::header::AUTHORIZATION, value);
        }
        Ok(request)
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> anyhow::Result<HttpResponse>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("the response ended early: {error}"))?;
        Ok(HttpResponse { status: parts.status, body: body.to_bytes() })
    };
    let answer = answer.await;
    driver.abort();
    answer
}

fn tls() -> anyhow::Result<TlsConnector> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_their_ports_and_paths() {
        let client = HttpClient::new("http://localhost:3000/hooks/", None).expect("a URL");
        assert_eq!((client.host.as_str(), client.port), ("localhost", 3000));
        assert_eq!(client.path, "/hooks");
        let client = HttpClient::new("https://[::1]", None).expect("a URL");
        assert_eq!((client.host.as_str(), client.port, client.scheme_tls), ("::1", 443, true));
        for wrong in ["localhost:3000", "ftp://x", "", "http://"] {
            assert!(HttpClient::new(wrong, None).is_err(), "{wrong}");
        }
    }
}
