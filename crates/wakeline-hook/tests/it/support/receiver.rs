//! A receiver of webhooks whose behaviour is controlled byte by byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use super::LONG;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("plain"))
    }
}

/// How a receiver responds.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Status(u16),
    /// Responds with an additional header.
    Header(u16, String),
    Body(u16, Vec<u8>),
    /// Never responds.
    Hang,
    /// Announces a long body, and sends one byte of it at intervals.
    Drip,
    /// Responds, then closes the connection without announcing it.
    Leave,
    /// Closes the connection without a response.
    Close,
    /// Announces a longer body than it sends.
    Break,
    /// Responds when it is released.
    Gate(Arc<Semaphore>),
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Request>,
    pub(crate) connections: Arc<AtomicUsize>,
    closed: mpsc::UnboundedReceiver<()>,
}

type Behaviour = Arc<dyn Fn(usize) -> Answer + Send + Sync>;

impl Receiver {
    /// Starts a receiver that responds to all requests in the same way.
    pub(crate) async fn always(answer: Answer) -> Self {
        Self::start(move |_| answer.clone()).await
    }

    /// Starts a receiver whose response depends on the number of the request, from 0.
    pub(crate) async fn start(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(None, Arc::new(answer)).await
    }

    pub(crate) async fn with(tls: Option<TlsAcceptor>, answer: Behaviour) -> Self {
        Self::stalling(tls, answer, usize::MAX).await
    }

    /// Starts a receiver that stalls all connections after the first `most`, even in the handshake.
    pub(crate) async fn stalling(tls: Option<TlsAcceptor>, answer: Behaviour, most: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (received, requests) = mpsc::unbounded_channel();
        let (ended, closed) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, served) = (Arc::clone(&connections), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if count.fetch_add(1, Ordering::SeqCst) >= most {
                    tokio::spawn(stall(socket, ended.clone()));
                    continue;
                }
                let (received, answer) = (received.clone(), Arc::clone(&answer));
                let (served, tls) = (Arc::clone(&served), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, received, answer, served).await,
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                serve(socket, received, answer, served).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, requests, connections, closed }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) async fn next(&mut self) -> Request {
        let next = tokio::time::timeout(LONG, self.requests.recv()).await;
        next.expect("a request comes").expect("the receiver runs")
    }

    /// The next request, if one has been received.
    pub(crate) fn came(&mut self) -> Option<Request> {
        self.requests.try_recv().ok()
    }

    /// Waits until the other side has closed a stalled connection.
    pub(crate) async fn closed(&mut self) {
        let closed = tokio::time::timeout(LONG, self.closed.recv()).await;
        closed.expect("it is closed").expect("the receiver runs");
    }

    /// The number of received requests that were not examined.
    pub(crate) fn left(&mut self) -> usize {
        std::iter::from_fn(|| self.came()).count()
    }
}

async fn stall(mut socket: TcpStream, ended: mpsc::UnboundedSender<()>) {
    let mut buffer = [0; 1024];
    while socket.read(&mut buffer).await.is_ok_and(|len| len > 0) {}
    ended.send(()).ok();
}

async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    received: mpsc::UnboundedSender<Request>,
    behaviour: Behaviour,
    served: Arc<AtomicUsize>,
) {
    let mut socket = BufReader::new(socket);
    while let Some(request) = read(&mut socket).await {
        let answer = behaviour(served.fetch_add(1, Ordering::SeqCst));
        received.send(request).ok();
        if !respond(&mut socket, answer).await {
            return;
        }
    }
}

async fn read(socket: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Request> {
    let mut line = String::new();
    socket.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HeaderMap::new();
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.append(name.parse::<HeaderName>().ok()?, value.parse().ok()?);
    }
    let len = headers.get("content-length")?.to_str().ok()?.parse().ok()?;
    let mut body = vec![0; len];
    socket.read_exact(&mut body).await.ok()?;
    Some(Request { path, headers, body })
}

/// Sends a response. Returns false if the connection is to be closed.
async fn respond(socket: &mut (impl AsyncWriteExt + Unpin), answer: Answer) -> bool {
    let (status, header, body) = match answer {
        Answer::Status(status) => (status, String::new(), Vec::new()),
        Answer::Header(status, header) => (status, header + "\r\n", Vec::new()),
        Answer::Body(status, body) => (status, String::new(), body),
        Answer::Hang => std::future::pending().await,
        Answer::Close => return false,
        Answer::Leave => {
            let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            socket.write_all(whole).await.ok();
            socket.flush().await.ok();
            return false;
        }
        Answer::Break => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort";
            socket.write_all(head).await.ok();
            socket.flush().await.ok();
            return false;
        }
        Answer::Drip => return drip(socket).await,
        Answer::Gate(gate) => {
            gate.acquire().await.expect("not closed").forget();
            (200, String::new(), Vec::new())
        }
    };
    let head = format!("HTTP/1.1 {status} X\r\n{header}content-length: {}\r\n\r\n", body.len());
    let whole = [head.into_bytes(), body].concat();
    socket.write_all(&whole).await.is_ok() && socket.flush().await.is_ok()
}

async fn drip(socket: &mut (impl AsyncWriteExt + Unpin)) -> bool {
    let mut bytes: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
    loop {
        let sent = socket.write_all(bytes).await.is_ok() && socket.flush().await.is_ok();
        if !sent {
            return false;
        }
        bytes = b".";
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
