//! The accept loop: connections in, with limits of number and time; a drain on the way out.
//!
//! # Where it sits
//! The binary and the tests hand it a bound listener and an app.
//!
//! # Invariants
//! * Headers that do not arrive in time end the connection (`axum::serve` has no timer for that).
//! * Near the descriptor limit a connection is answered 503, not left hanging.
//! * After shutdown no new connection is taken, parked pops are answered at once, and what is in
//!   flight finishes, bounded by the drain time.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::state::AppState;

/// Limits of the accept loop.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Most connections at a time.
    pub connections_max: usize,
    /// Time in which a request's headers must have arrived; also how long a connection may idle.
    pub header_timeout: Duration,
    /// Time that requests in flight have to finish after shutdown.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: 16_000,
            header_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(25),
        }
    }
}

/// The server over a bound listener.
pub struct Server {
    listener: TcpListener,
    state: AppState,
    options: ServerOptions,
}

impl Server {
    /// A server that has not begun to accept.
    pub fn new(listener: TcpListener, state: AppState, options: ServerOptions) -> Self {
        Self { listener, state, options }
    }

    /// Serves until `shutdown`, then drains. True if everything in flight finished in time.
    pub async fn run(self, shutdown: CancellationToken) -> bool {
        let app = crate::app(self.state.clone());
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(self.options.connections_max));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = shutdown.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => match Arc::clone(&slots).try_acquire_owned() {
                    Ok(slot) => self.serve(stream, slot, &app, &graceful),
                    Err(_) => refuse(stream),
                },
                Err(error) => pause_after(&error).await,
            }
        }
        drop(self.listener);
        self.state.drain();
        tokio::time::timeout(self.options.drain_timeout, graceful.shutdown()).await.is_ok()
    }

    fn serve(
        &self,
        stream: TcpStream,
        slot: OwnedSemaphorePermit,
        app: &Router,
        graceful: &GracefulShutdown,
    ) {
        let _ = stream.set_nodelay(true);
        let app = app.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let app = app.clone();
            async move {
                let answer = app.oneshot(request.map(Body::new)).await;
                Ok::<_, Infallible>(answer.unwrap_or_else(|never| match never {}))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.header_timeout)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // How a connection ends is the client's business: resets are ordinary.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
            drop(slot);
        });
    }
}

/// Tells a client that this node has no room, without spending a connection's memory on it.
fn refuse(mut stream: TcpStream) {
    metrics::counter!("wakeline_http_connections_refused_total").increment(1);
    tokio::spawn(async move {
        let body = r#"{"error":"this node has no room for another connection","code":"too_many_connections"}"#;
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
        tracing::warn!(%error, "cannot accept a connection");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
