//! Dials endpoints: the one place where a socket to the outside is opened.
//!
//! # Invariants
//! * Every address is judged right before it is dialled, whether it was spelt in the URL or came
//!   from a name: there is no time between check and use in which a name could change its mind.
//! * Connecting ends by itself: the client goes on with it when the call that it was for has ended.
//! * A socket is counted from its dialling to its end, whoever holds it.
//! * A name is looked up for the application of the call that needs the connection ([`CALLER`]).

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

/// Most time for one address while there are others to try.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(5);

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// No address was let through.
    #[error("the URL {0}")]
    Refused(GuardError),
    /// The name has no address.
    #[error("the host name {name} could not be resolved: {source}")]
    Lookup {
        name: String,
        #[source]
        source: io::Error,
    },
    /// Nobody answered.
    #[error("cannot connect to {address}: {source}")]
    Dial {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The other side is not who it should be, or speaks no TLS.
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    /// The host cannot stand in a certificate.
    #[error("the host name is not valid in a TLS certificate")]
    ServerName,
    /// It took longer than any call may.
    #[error("no connection within the time limit")]
    Late,
}

tokio::task_local! {
    /// The application of the call under way. The client knows a connection by its host alone; it
    /// asks the connector within the call's own task.
    pub(super) static CALLER: ApplicationId;
}

/// Connects for the client's pool.
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

    /// How many sockets there are, in use and idle. It goes on counting.
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
        let open = Open::new(&self.open);
        let socket = dial(&addresses, port(&uri)).await?;
        // Requests are written whole; waiting for more of them gains nothing.
        socket.set_nodelay(true).ok();
        if !is_https(&uri) {
            return Ok(TokioIo::new(Stream { socket: Socket::Plain(socket), _open: open }));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ConnectError::ServerName)?;
        let secured = self.tls.connect(name, socket).await.map_err(ConnectError::Tls)?;
        Ok(TokioIo::new(Stream { socket: Socket::Tls(Box::new(secured)), _open: open }))
    }

    /// The addresses of a host that may be dialled; at least one.
    async fn addresses(
        &self,
        host: &str,
        caller: ApplicationId,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let found = match literal(host).map_err(ConnectError::Refused)? {
            Some(address) => vec![address],
            None => {
                let found = self.lookup.lookup(host, caller).await;
                found.map_err(|error| lost(host, error))?
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
            (true, None) => Err(lost(host, io::ErrorKind::NotFound.into())),
        }
    }
}

fn lost(host: &str, source: io::Error) -> ConnectError {
    ConnectError::Lookup { name: host.to_owned(), source }
}

/// Tries addresses one after the other.
async fn dial(addresses: &[IpAddr], port: u16) -> Result<TcpStream, ConnectError> {
    let mut failed = None;
    for (place, ip) in addresses.iter().enumerate() {
        let address = SocketAddr::new(*ip, port);
        let connect = TcpStream::connect(address);
        let connected = if place + 1 < addresses.len() {
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
    _open: Open,
}

/// A socket, with TLS or without.
enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// One of the sockets that there are.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
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
