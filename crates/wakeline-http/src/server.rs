//! The accept loop: connections in, with limits of number and time; a drain on the way out.
//!
//! # Where it sits
//! The binary and the tests hand it a bound listener and an app.
//!
//! # Invariants
//! * Headers that do not arrive in time end the connection (`axum::serve` has no timer for that),
//!   and so do answers that nobody reads.
//! * Near the descriptor limit a connection is answered 503, not left hanging.
//! * After shutdown parked pops are answered at once and what is in flight finishes, bounded by
//!   the drain time. Meanwhile new connections are still taken, so that probes see `/readyz` say
//!   503, but serve one request each.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wakeline_core::error_chain;

use crate::socket::Socket;
use crate::state::AppState;
use crate::tls::{Certificates, Wire};

/// Limits of the accept loop.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Most connections at a time.
    pub connections_max: usize,
    /// Time in which a request's headers must have arrived; also how long a connection may idle.
    pub header_timeout: Duration,
    /// Time in which a client must take in some of its answer.
    pub write_timeout: Duration,
    /// Time that requests in flight have to finish after shutdown.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: 16_000,
            header_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(25),
        }
    }
}

/// The server over a bound listener.
pub struct Server {
    listener: TcpListener,
    state: AppState,
    options: ServerOptions,
    tls: Option<Certificates>,
}

/// Connections that may wait to be accepted. A herd of consumers that comes back at once must not
/// be told to try again a second later, as the kernel does when its queue is full.
const BACKLOG: u32 = 4096;

impl Server {
    /// A listener on an address, with room for a herd.
    pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }

    /// A server that has not begun to accept.
    pub fn new(listener: TcpListener, state: AppState, options: ServerOptions) -> Self {
        Self { listener, state, options, tls: None }
    }

    /// The same with TLS, if there is a certificate.
    pub fn with_tls(self, tls: Option<Certificates>) -> Self {
        Self { tls, ..self }
    }

    /// Serves until `shutdown`, then drains. True if everything in flight finished in time.
    pub async fn run(self, shutdown: CancellationToken) -> bool {
        let app = crate::app(self.state.clone());
        let slots = Arc::new(Semaphore::new(self.options.connections_max));
        let ServerOptions { header_timeout, write_timeout, .. } = self.options;
        let tls = self.tls.clone();
        let door = Door { app, slots, header_timeout, write_timeout, tls, one_request: false };
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&door, |connection| {
                tokio::spawn(ended(graceful.watch(connection)))
            }) => {}
            () = shutdown.cancelled() => {}
        }
        self.state.drain();
        let drained = tokio::time::timeout(self.options.drain_timeout, graceful.shutdown());
        let (late, brief) = (TaskTracker::new(), door.brief());
        let clean = tokio::select! {
            () = self.accept(&brief, |connection| late.spawn(ended(connection))) => false,
            drained = drained => drained.is_ok(),
        };
        drop(self.listener);
        late.close();
        // What came during the drain gets a moment, not another drain time.
        let _ = tokio::time::timeout(Duration::from_secs(1), late.wait()).await;
        clean
    }

    /// Takes connections for ever.
    async fn accept(&self, door: &Door, serve: impl Fn(Connection) -> JoinHandle<()>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => match Arc::clone(&door.slots).try_acquire_owned() {
                    Ok(slot) => drop(serve(door.connection(stream, slot))),
                    // Over TLS there is no telling why without the very cost that is saved.
                    Err(_) if door.tls.is_some() => drop(stream),
                    Err(_) => refuse(stream),
                },
                Err(error) => pause_after(&error).await,
            }
        }
    }
}

type Connection = http1::Connection<TokioIo<Wire>, Service>;

/// What every connection gets.
#[derive(Clone)]
struct Door {
    app: Router,
    slots: Arc<Semaphore>,
    header_timeout: Duration,
    write_timeout: Duration,
    tls: Option<Certificates>,
    one_request: bool,
}

impl Door {
    /// The same for connections that serve one request.
    fn brief(&self) -> Self {
        Self { one_request: true, ..self.clone() }
    }

    fn connection(&self, stream: TcpStream, slot: OwnedSemaphorePermit) -> Connection {
        let socket = Socket::new(stream, self.write_timeout);
        let wire = match &self.tls {
            Some(certificates) => certificates.accept(socket),
            None => Wire::Plain(socket),
        };
        http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(!self.one_request)
            .header_read_timeout(self.header_timeout)
            .serve_connection(TokioIo::new(wire), Service { app: self.app.clone(), _slot: slot })
    }
}

/// The app, as one connection calls it. Holds the connection's slot.
struct Service {
    app: Router,
    _slot: OwnedSemaphorePermit,
}

impl hyper::service::Service<hyper::Request<Incoming>> for Service {
    type Response = axum::response::Response;
    type Error = Infallible;
    type Future = axum::routing::future::RouteFuture<Infallible>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        // A router is always ready.
        tower::Service::call(&mut self.app.clone(), request.map(Body::new))
    }
}

/// Waits for a connection's end. How it ends is the client's business: resets are ordinary.
async fn ended(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(error = error_chain(&error), "connection ended");
    }
}

/// Answers that this node is at its limit of connections, without spending a connection's memory on
/// it.
fn refuse(mut stream: TcpStream) {
    metrics::counter!("wakeline_http_connections_refused_total").increment(1);
    tokio::spawn(async move {
        let body = concat!(
            r#"{"error":"this node is at its limit of connections: try again later","#,
            r#""code":"too_many_connections"}"#
        );
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
             retry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let send = async {
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), send).await;
    });
}

/// Out of descriptors: accepting again at once would spin.
async fn pause_after(error: &io::Error) {
    let harmless = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !harmless.contains(&error.kind()) {
        tracing::warn!(error = error_chain(&error), "cannot accept a connection");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
