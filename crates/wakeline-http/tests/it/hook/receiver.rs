//! Somebody who receives webhooks.

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

/// What came.
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("text")
    }
}

/// A receiver with answers of its choice: 204 when it has no others left.
pub(crate) struct Receiver {
    address: SocketAddr,
    came: mpsc::UnboundedReceiver<Received>,
}

#[derive(Clone)]
struct Desk {
    answers: Arc<Mutex<VecDeque<u16>>>,
    tell: mpsc::UnboundedSender<Received>,
}

impl Receiver {
    pub(crate) async fn start(answers: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (tell, came) = mpsc::unbounded_channel();
        let answers = Arc::new(Mutex::new(answers.iter().copied().collect()));
        let app = Router::new().route("/hook", post(receive)).with_state(Desk { answers, tell });
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, came }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) async fn next(&mut self) -> Received {
        self.came.recv().await.expect("the receiver runs")
    }
}

async fn receive(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let answer = desk.answers.lock().await.pop_front().unwrap_or(204);
    let _ = desk.tell.send(Received { headers, body });
    StatusCode::from_u16(answer).expect("a status")
}
