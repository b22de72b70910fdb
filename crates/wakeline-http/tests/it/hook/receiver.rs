//! A server that receives webhooks.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};

/// A request that was received.
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("text")
    }
}

/// A receiver that responds with the given statuses in order, and then with 204.
pub(crate) struct Receiver {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<Received>,
}

#[derive(Clone)]
struct ReceiverState {
    statuses: Arc<Mutex<VecDeque<u16>>>,
    received: mpsc::UnboundedSender<Received>,
}

impl Receiver {
    pub(crate) async fn start(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (sender, received) = mpsc::unbounded_channel();
        let statuses = Arc::new(Mutex::new(statuses.iter().copied().collect()));
        let state = ReceiverState { statuses, received: sender };
        let app = Router::new().route("/hook", post(receive)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) async fn next(&mut self) -> Received {
        self.received.recv().await.expect("the receiver runs")
    }
}

async fn receive(
    State(state): State<ReceiverState>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let status = state.statuses.lock().await.pop_front().unwrap_or(204);
    let _ = state.received.send(Received { headers, body });
    StatusCode::from_u16(status).expect("a status")
}
