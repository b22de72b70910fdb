//! An accepted socket with a limit on how long a write may be stuck.
//!
//! # Where it sits
//! The accept loop wraps every connection in it.
//!
//! # Invariants
//! * A write that makes no progress within the write timeout ends the connection, so that a client
//!   that never reads its response does not hold a descriptor and the response's memory for longer.
//! * No timer runs while nothing is being written: a waiting pop may take any time.
//! * The kernel's keepalive probes detect a client that disappeared without closing its connection,
//!   so that requests waiting for it are dropped.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// Idle time after which the kernel begins to probe whether the client still exists.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// The time between two probes.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// The number of unanswered probes after which the connection ends.
const PROBES_MAX: u32 = 3;

/// The socket of a client.
pub(crate) struct ClientSocket {
    stream: TcpStream,
    write_timeout: Duration,
    /// The timer of a stuck write. Boxed, because most connections never need one.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl ClientSocket {
    pub(crate) fn new(stream: TcpStream, write_timeout: Duration) -> Self {
        // The connection works without these options if the kernel refuses them.
        let _ = stream.set_nodelay(true);
        let _ = probe(&stream);
        Self { stream, write_timeout, stuck: None }
    }

    /// Returns the result of a write, or an error once the write has been stuck for the timeout.
    fn limit_time(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let until = Instant::now() + self.write_timeout;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

fn probe(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, PROBES_MAX)
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.limit_time(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.limit_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair(write_timeout: Duration) -> (TcpStream, ClientSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).await.expect("connected");
        let (stream, _) = listener.accept().await.expect("accepted");
        (client, ClientSocket::new(stream, write_timeout))
    }

    #[tokio::test]
    async fn silent_clients_are_probed() {
        let (_client, socket) = pair(Duration::from_secs(1)).await;
        assert!(sockopt::socket_keepalive(&socket.stream).expect("read"));
        assert_eq!(sockopt::tcp_keepidle(&socket.stream).expect("read"), PROBE_AFTER);
        assert_eq!(sockopt::tcp_keepcnt(&socket.stream).expect("read"), PROBES_MAX);
    }

    #[tokio::test]
    async fn only_a_write_without_progress_times_out() {
        let (mut client, mut socket) = pair(Duration::from_millis(200)).await;
        let much = vec![7; 32 << 20];
        let stuck = socket.write_all(&much).await.expect_err("the client does not read");
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
        let mut read = vec![0; 1 << 20];
        let pause = Duration::from_millis(100);
        while let Ok(Ok(1..)) = tokio::time::timeout(pause, client.read(&mut read)).await {}
        socket.write_all(b"more").await.expect("there is space in the buffers again");
    }
}
