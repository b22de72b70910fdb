//! A TCP proxy that can cut what goes through it.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to a server until it is cut.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let open = Arc::new(watch::Sender::new(true));
        let watched = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *watched.borrow() {
                    tokio::spawn(pass(client, server.clone(), watched.subscribe()));
                }
            }
        });
        Self { address, open }
    }

    /// Ends all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn pass(mut client: TcpStream, server: String, mut open: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = open.wait_for(|open| !open) => {}
    }
}
