//! Connects to endpoints. This is the only code that opens a socket to an endpoint.
//!
//! # Invariants
//! * Every address is checked right before the connection is made, whether it is in the URL or was
//!   resolved from a name, so that a name cannot resolve differently between check and use.
//! * Connecting has a time limit of its own, because the client continues with it after the call
//!   that it was for has ended.
//! * A socket is counted from the start of connecting until it is closed, whoever holds it.
//! * A name is resolved on behalf of the application of the call that needs the connection
//!   ([`CALLER`]).

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;
use uuid::Uuid;
use wakeline_core::ApplicationId;

use super::TIMEOUT_MAX;
use super::lookup::SharedLookup;
use super::options::SendOptions;
use crate::guard::{Guard, GuardError, host, is_https, literal, port};

/// The time limit for one address while there are others to try.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(5);

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// The guard refused all addresses.
    #[error("the URL {0}")]
    Refused(GuardError),
    /// The name could not be resolved.
    #[error("the host name {name} could not be resolved: {source}")]
    Lookup {
        name: String,
        #[source]
        source: io::Error,
    },
    /// No address accepted the connection.
    #[error("cannot connect to {address}: {source}")]
    Dial {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The TLS handshake failed, or the certificate is not valid for the host.
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    /// The host name is not valid in a certificate.
    #[error("the host name is not valid in a TLS certificate")]
    ServerName,
    /// Connecting took longer than any call may take.
    #[error("the connection could not be opened within the time limit")]
    Late,
}

tokio::task_local! {
    /// The application of the call in progress. The client identifies a connection only by its
    /// host, but it calls the connector within the task of the call.
    pub(super) static CALLER: ApplicationId;
}

/// The connector of the client's pool.
#[derive(Clone)]
pub(super) struct Connector {
    guard: Arc<Guard>,
    lookup: SharedLookup,
    tls: TlsConnector,
    open: Arc<AtomicUsize>,
}

impl Connector {
    pub(super) fn new(guard: Arc<Guard>, options: &SendOptions) -> Self {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(options.roots.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let lookup = SharedLookup::new(Arc::clone(&options.lookup));
        Self { guard, lookup, tls: TlsConnector::from(Arc::new(config)), open: Arc::default() }
    }

    /// The live count of open sockets, in use and idle.
    pub(super) fn open(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.open)
    }

    async fn connect(
        self,
        uri: Uri,
        caller: ApplicationId,
    ) -> Result<TokioIo<Stream>, ConnectError> {
        let host = host(&uri);
        let addresses = self.addresses(host, caller).await?;
        let open = CountedConnection::new(&self.open);
        let socket = dial(&addresses, port(&uri)).await?;
        // Requests are written in one piece, so waiting for more data gains nothing.
        socket.set_nodelay(true).ok();
        if !is_https(&uri) {
            return Ok(TokioIo::new(Stream { socket: Socket::Plain(socket), _open: open }));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ConnectError::ServerName)?;
        let secured = self.tls.connect(name, socket).await.map_err(ConnectError::Tls)?;
        Ok(TokioIo::new(Stream { socket: Socket::Tls(Box::new(secured)), _open: open }))
    }

    /// The addresses of a host that may be called; at least one.
    async fn addresses(
        &self,
        host: &str,
        caller: ApplicationId,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let found = match literal(host).map_err(ConnectError::Refused)? {
            Some(address) => vec![address],
            None => {
                let found = self.lookup.lookup(host, caller).await;
                found.map_err(|error| lookup_error(host, error))?
            }
        };
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.guard.check_address(address) {
                Ok(()) => allowed.push(address),
                Err(error) => refused = Some(error),
            }
        }
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some(error)) => Err(ConnectError::Refused(error)),
            (true, None) => Err(lookup_error(host, io::ErrorKind::NotFound.into())),
        }
    }
}

fn lookup_error(host: &str, source: io::Error) -> ConnectError {
    ConnectError::Lookup { name: host.to_owned(), source }
}

/// Tries the addresses one after the other.
async fn dial(addresses: &[IpAddr], port: u16) -> Result<TcpStream, ConnectError> {
    let mut failed = None;
    for (index, ip) in addresses.iter().enumerate() {
        let address = SocketAddr::new(*ip, port);
        let connect = TcpStream::connect(address);
        let connected = if index + 1 < addresses.len() {
            let late = |_| Err(io::ErrorKind::TimedOut.into());
            tokio::time::timeout(ADDRESS_TIMEOUT, connect).await.unwrap_or_else(late)
        } else {
            connect.await
        };
        match connected {
            Ok(socket) => return Ok(socket),
            Err(source) => failed = Some(ConnectError::Dial { address, source }),
        }
    }
    Err(failed.expect("there is at least one address"))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let caller = CALLER.try_with(|caller| *caller).unwrap_or(ApplicationId(Uuid::nil()));
        let connect = self.clone().connect(uri, caller);
        let late = |_| Err(ConnectError::Late);
        Box::pin(
            async move { tokio::time::timeout(TIMEOUT_MAX, connect).await.unwrap_or_else(late) },
        )
    }
}

/// A connection that is counted.
pub(super) struct Stream {
    socket: Socket,
    _open: CountedConnection,
}

/// A socket, with TLS or without.
enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Counts a socket as open until it is dropped.
struct CountedConnection(Arc<AtomicUsize>);

impl CountedConnection {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Socket::Tls(socket) => Pin::new(socket).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Socket::Tls(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Plain(socket) => Pin::new(socket).poll_flush(context),
            Socket::Tls(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Socket::Tls(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}
