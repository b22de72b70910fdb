//! TLS: the server's certificate, and connections that begin with a handshake.
//!
//! # Where it sits
//! [`Server::with_tls`](crate::Server::with_tls) takes [`Certificates`]; for each connection, the
//! accept loop takes the current configuration from them.
//!
//! # Invariants
//! * The files are checked for changes when a client connects, at most once a second, and on
//!   demand; never by a timer.
//! * If the new files cannot be used, the previous certificate stays in use.
//! * A handshake runs in its connection's own task and under its timeouts, so that it delays no
//!   other connection.

use std::future::Future as _;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};
use wakeline_core::error_chain;

use crate::socket::ClientSocket;

/// The minimum time between two checks of the files for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const SWAPPED: &str = ", as PEM; are tls_cert_file and tls_key_file swapped?";

/// The PEM files of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain; the server's own certificate comes first.
    pub cert: PathBuf,
    /// The file of the private key.
    pub key: PathBuf,
}

/// The server's certificate. Cheap to clone.
#[derive(Clone)]
pub struct Certificates {
    inner: Arc<CertificateCache>,
}

struct CertificateCache {
    files: TlsFiles,
    state: Mutex<LoadedCertificate>,
}

struct LoadedCertificate {
    config: Arc<ServerConfig>,
    /// The modification times of the files when they were last read.
    modified: ModifiedTimes,
    checked_at: Instant,
}

type ModifiedTimes = [Option<SystemTime>; 2];

impl Certificates {
    /// Reads the certificate and the key.
    pub fn read(files: TlsFiles) -> io::Result<Self> {
        let modified = modified(&files);
        let state =
            LoadedCertificate { config: config(&files)?, modified, checked_at: Instant::now() };
        Ok(Self { inner: Arc::new(CertificateCache { files, state: Mutex::new(state) }) })
    }

    /// Reads the files again. If they cannot be used, the current certificate stays in use.
    pub fn reload(&self) {
        let mut state = self.inner.state.lock();
        self.read_again(&mut state, modified(&self.inner.files));
    }

    fn read_again(&self, state: &mut LoadedCertificate, modified: ModifiedTimes) {
        // The times are stored after a failure too, because the same files would fail again.
        state.modified = modified;
        match config(&self.inner.files) {
            Ok(config) => {
                state.config = config;
                tracing::info!("the certificate was reloaded");
            }
            Err(error) => {
                tracing::error!(
                    error = error_chain(&error),
                    "the certificate was not reloaded, because the new files cannot be used"
                );
            }
        }
    }

    /// The configuration for a new connection.
    fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.inner.state.lock();
        if state.checked_at.elapsed() >= CHECK_INTERVAL {
            state.checked_at = Instant::now();
            let modified = modified(&self.inner.files);
            if modified != state.modified {
                self.read_again(&mut state, modified);
            }
        }
        Arc::clone(&state.config)
    }

    /// Creates a stream that begins with a TLS handshake.
    pub(crate) fn accept(&self, socket: ClientSocket) -> ServerStream {
        ServerStream::Handshaking(Box::new(TlsAcceptor::from(self.current()).accept(socket)))
    }
}

fn modified(files: &TlsFiles) -> ModifiedTimes {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    [changed(&files.cert), changed(&files.key)]
}

fn config(files: &TlsFiles) -> io::Result<Arc<ServerConfig>> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: {error}", path.display()))
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&files.cert).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(&files.cert, &error))?;
    if chain.is_empty() {
        return Err(wrong(&files.cert, &format!("there is no certificate in it{SWAPPED}")));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            wrong(&files.key, &format!("there is no private key in it{SWAPPED}"))
        }
        other => wrong(&files.key, &other),
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.cert, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A client's connection, with or without TLS.
pub(crate) enum ServerStream {
    /// A connection without TLS.
    Plain(ClientSocket),
    /// A connection whose handshake is in progress. Reading and writing drive the handshake.
    Handshaking(Box<Accept<ClientSocket>>),
    /// A connection with TLS.
    Secured(Box<TlsStream<ClientSocket>>),
}

impl ServerStream {
    /// Drives the handshake, if there is one; ready when it is complete.
    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Handshaking(handshake) = self {
            let secured = ready!(Pin::new(handshake.as_mut()).poll(context))?;
            *self = Self::Secured(Box::new(secured));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_handshake(context))?;
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            Self::Handshaking(_) => Poll::Pending,
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(context))?;
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
            Self::Handshaking(_) => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            // Nothing was written yet.
            Self::Handshaking(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Self::Handshaking(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(context))?;
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
            Self::Handshaking(_) => Poll::Pending,
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Secured(_) | Self::Handshaking(_) => true,
        }
    }
}
