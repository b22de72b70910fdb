//! TLS: the server's certificate, and connections that begin with a handshake.
//!
//! # Where it sits
//! [`Server::with_tls`](crate::Server::with_tls) takes [`Certificates`]; the accept loop asks them
//! for what a new connection gets.
//!
//! # Invariants
//! * Files are looked at when somebody connects, at most once a second, and on demand; never by a
//!   timer.
//! * Files that cannot be used leave the certificate that is there.
//! * A handshake runs in its connection's own task and under its timeouts: it holds up nobody.

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

use crate::socket::Socket;

/// Files are looked at no more often than this.
const LOOK: Duration = Duration::from_secs(1);

const SWAPPED: &str = ", as PEM; are tls_cert_file and tls_key_file swapped?";

/// Where a certificate and its key are, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The server's certificate. Cheap to clone.
#[derive(Clone)]
pub struct Certificates {
    inner: Arc<Inner>,
}

struct Inner {
    files: TlsFiles,
    state: Mutex<State>,
}

struct State {
    config: Arc<ServerConfig>,
    /// When the files had changed that were read last.
    stamps: Stamps,
    looked: Instant,
}

type Stamps = [Option<SystemTime>; 2];

impl Certificates {
    /// Reads the files.
    pub fn read(files: TlsFiles) -> io::Result<Self> {
        let stamps = stamps(&files);
        let state = State { config: config(&files)?, stamps, looked: Instant::now() };
        Ok(Self { inner: Arc::new(Inner { files, state: Mutex::new(state) }) })
    }

    /// Reads the files again. If they cannot be used the certificate stays as it is.
    pub fn reload(&self) {
        let mut state = self.inner.state.lock();
        self.read_again(&mut state, stamps(&self.inner.files));
    }

    fn read_again(&self, state: &mut State, stamps: Stamps) {
        // Also after a failure: the same files would fail the same way.
        state.stamps = stamps;
        match config(&self.inner.files) {
            Ok(config) => {
                state.config = config;
                tracing::info!("the certificate was read again");
            }
            Err(error) => {
                tracing::error!(
                    error = error_chain(&error),
                    "kept the old certificate: the new files cannot be used"
                );
            }
        }
    }

    /// What a new connection gets.
    fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.inner.state.lock();
        if state.looked.elapsed() >= LOOK {
            state.looked = Instant::now();
            let stamps = stamps(&self.inner.files);
            if stamps != state.stamps {
                self.read_again(&mut state, stamps);
            }
        }
        Arc::clone(&state.config)
    }

    /// A connection that begins with a handshake.
    pub(crate) fn accept(&self, socket: Socket) -> Wire {
        Wire::Shaking(Box::new(TlsAcceptor::from(self.current()).accept(socket)))
    }
}

fn stamps(files: &TlsFiles) -> Stamps {
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

/// A connection, with or without TLS.
pub(crate) enum Wire {
    /// Without.
    Plain(Socket),
    /// On its way to being secured: reading and writing drive the handshake.
    Shaking(Box<Accept<Socket>>),
    /// With.
    Secured(Box<TlsStream<Socket>>),
}

impl Wire {
    /// Ready when there is no handshake to finish.
    fn poll_shaken(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Shaking(shaking) = self {
            let secured = ready!(Pin::new(shaking.as_mut()).poll(context))?;
            *self = Self::Secured(Box::new(secured));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_shaken(context))?;
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            Self::Shaking(_) => Poll::Pending,
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_shaken(context))?;
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
            Self::Shaking(_) => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            // Nothing was written yet.
            Self::Shaking(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Self::Shaking(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_shaken(context))?;
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
            Self::Shaking(_) => Poll::Pending,
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Secured(_) | Self::Shaking(_) => true,
        }
    }
}
