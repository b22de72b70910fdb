//! The accept loop: accepts connections within limits of number and time, and drains them on
//! shutdown.
//!
//! # Where it sits
//! The binary and the tests pass a bound listener and the state of the routes.
//!
//! # Invariants
//! * A connection is closed if request headers do not arrive in time (`axum::serve` has no timer
//!   for that), or if its client does not read a response.
//! * At the limit of connections a new connection is answered 503 instead of being left waiting.
//! * After shutdown, waiting pops are answered immediately and requests in flight finish, bounded
//!   by the drain time. Meanwhile new connections are still accepted, so that probes receive 503
//!   from `/readyz`, but each serves only one request.

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

use crate::socket::ClientSocket;
use crate::state::AppState;
use crate::tls::{Certificates, ServerStream};

/// Limits of the accept loop.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The maximum number of concurrent connections.
    pub connections_max: usize,
    /// The time within which a request's headers must arrive; also how long a connection may idle.
    pub header_timeout: Duration,
    /// The time within which a client must read some of a pending response.
    pub write_timeout: Duration,
    /// How long requests in flight may take to finish after shutdown.
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

/// The number of connections that may wait to be accepted. It is large because many consumers may
/// reconnect at the same moment; when the kernel's queue is full, they retry only a second later.
const BACKLOG: u32 = 4096;

impl Server {
    /// Binds a listener whose backlog is large enough for many clients that connect at once.
    pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }

    /// Creates a server, which accepts connections once [`run`](Self::run) is called.
    pub fn new(listener: TcpListener, state: AppState, options: ServerOptions) -> Self {
        Self { listener, state, options, tls: None }
    }

    /// Uses TLS, if there is a certificate.
    pub fn with_tls(self, tls: Option<Certificates>) -> Self {
        Self { tls, ..self }
    }

    /// Serves until `shutdown`, then drains. Returns whether all requests in flight finished in
    /// time.
    pub async fn run(self, shutdown: CancellationToken) -> bool {
        let app = crate::app(self.state.clone());
        let slots = Arc::new(Semaphore::new(self.options.connections_max));
        let ServerOptions { header_timeout, write_timeout, .. } = self.options;
        let tls = self.tls.clone();
        let context = ConnectionContext {
            app,
            slots,
            header_timeout,
            write_timeout,
            tls,
            one_request: false,
        };
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&context, |connection| {
                tokio::spawn(ended(graceful.watch(connection)))
            }) => {}
            () = shutdown.cancelled() => {}
        }
        self.state.drain();
        let drained = tokio::time::timeout(self.options.drain_timeout, graceful.shutdown());
        let (late, one_request) = (TaskTracker::new(), context.with_one_request());
        let clean = tokio::select! {
            () = self.accept(&one_request, |connection| late.spawn(ended(connection))) => false,
            drained = drained => drained.is_ok(),
        };
        drop(self.listener);
        late.close();
        // Connections accepted during the drain get a second, not another drain time.
        let _ = tokio::time::timeout(Duration::from_secs(1), late.wait()).await;
        clean
    }

    /// Accepts connections until the future is dropped.
    async fn accept(
        &self,
        context: &ConnectionContext,
        serve: impl Fn(Connection) -> JoinHandle<()>,
    ) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => match Arc::clone(&context.slots).try_acquire_owned() {
                    Ok(slot) => drop(serve(context.connection(stream, slot))),
                    // Sending a response over TLS would need a handshake, which is the cost that
                    // the limit avoids.
                    Err(_) if context.tls.is_some() => drop(stream),
                    Err(_) => refuse(stream),
                },
                Err(error) => pause_after(&error).await,
            }
        }
    }
}

type Connection = http1::Connection<TokioIo<ServerStream>, ConnectionService>;

/// What a connection needs to be served.
#[derive(Clone)]
struct ConnectionContext {
    app: Router,
    slots: Arc<Semaphore>,
    header_timeout: Duration,
    write_timeout: Duration,
    tls: Option<Certificates>,
    one_request: bool,
}

impl ConnectionContext {
    /// The same context for connections that serve only one request.
    fn with_one_request(&self) -> Self {
        Self { one_request: true, ..self.clone() }
    }

    fn connection(&self, stream: TcpStream, slot: OwnedSemaphorePermit) -> Connection {
        let socket = ClientSocket::new(stream, self.write_timeout);
        let stream = match &self.tls {
            Some(certificates) => certificates.accept(socket),
            None => ServerStream::Plain(socket),
        };
        http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(!self.one_request)
            .header_read_timeout(self.header_timeout)
            .serve_connection(
                TokioIo::new(stream),
                ConnectionService { app: self.app.clone(), _slot: slot },
            )
    }
}

/// The routes, as one connection calls them. Holds the connection's slot until it ends.
struct ConnectionService {
    app: Router,
    _slot: OwnedSemaphorePermit,
}

impl hyper::service::Service<hyper::Request<Incoming>> for ConnectionService {
    type Response = axum::response::Response;
    type Error = Infallible;
    type Future = axum::routing::future::RouteFuture<Infallible>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        // A router is always ready.
        tower::Service::call(&mut self.app.clone(), request.map(Body::new))
    }
}

/// Waits for a connection's end. Errors are logged at debug level only, because clients may reset
/// connections at any time.
async fn ended(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(error = error_chain(&error), "a connection ended with an error");
    }
}

/// Answers 503 because this node is at its limit of connections, without the memory of a full
/// connection.
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

/// Waits after a failed accept. Without file descriptors, for example, accepting again immediately
/// would spin.
async fn pause_after(error: &io::Error) {
    let harmless = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !harmless.contains(&error.kind()) {
        tracing::warn!(error = error_chain(&error), "cannot accept a connection");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
