//! A TCP proxy that can close connections, or drop all bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Passes bytes on.
    Pass,
    /// Closes connections, and closes new ones at once.
    Cut,
    /// Keeps connections open and passes nothing on. These connections never work again.
    Swallow,
}

/// Passes connections on to a server until its mode changes.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
}

impl Proxy {
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mode = Arc::new(watch::Sender::new(Mode::Pass));
        let watched = Arc::clone(&mode);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *watched.borrow() != Mode::Cut {
                    tokio::spawn(pass(client, server.clone(), watched.subscribe()));
                }
            }
        });
        Self { address, mode }
    }

    /// Closes all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Drops all bytes on open and new connections, and answers nothing.
    pub(crate) fn swallow(&self) {
        self.mode.send_replace(Mode::Swallow);
    }

    /// Lets new connections through again.
    pub(crate) fn restore(&self) {
        self.mode.send_replace(Mode::Pass);
    }
}

async fn pass(mut client: TcpStream, server: String, mut mode: watch::Receiver<Mode>) {
    if *mode.borrow_and_update() == Mode::Pass {
        let Ok(mut server) = TcpStream::connect(server).await else { return };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
            _ = mode.wait_for(|mode| *mode != Mode::Pass) => {}
        }
    }
    if *mode.borrow() == Mode::Swallow {
        let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
    }
}
