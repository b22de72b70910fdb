//! A proxy in front of PostgreSQL that recognizes statements in the protocol, and makes the
//! database unavailable at one of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// When the database becomes unavailable, relative to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the server receives the statement.
    Before,
    /// After the server has executed the statement, and before the client receives the answer.
    Unanswered,
    /// After the client has received the answer: the next statement finds the database unavailable.
    Answered,
}

/// The statement at which the database becomes unavailable.
struct OutagePlan {
    /// Number of statements that still pass.
    passes: u64,
    when: When,
}

struct Shared {
    server: String,
    unavailable: watch::Sender<bool>,
    plan: Mutex<Option<OutagePlan>>,
}

/// Passes connections on until the database becomes unavailable.
pub(crate) struct StatementProxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl StatementProxy {
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let unavailable = watch::Sender::new(false);
        let shared = Arc::new(Shared { server, unavailable, plan: Mutex::new(None) });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !*accepting.unavailable.borrow() {
                    tokio::spawn(pass(client, Arc::clone(&accepting)));
                }
            }
        });
        Self { address, shared }
    }

    /// Makes the database unavailable at the nth statement from now on, counted from 1.
    pub(crate) fn interrupt(&self, nth: u64, when: When) {
        *self.shared.plan.lock() = Some(OutagePlan { passes: nth - 1, when });
    }

    /// Forgets the plan. Returns whether the database is unavailable.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.shared.plan.lock().take();
        *self.shared.unavailable.borrow()
    }

    /// Lets new connections through again.
    pub(crate) fn restore(&self) {
        self.shared.unavailable.send_replace(false);
    }
}

impl Shared {
    /// Counts a statement that is about to be sent. Returns whether and when the database becomes
    /// unavailable at it.
    fn count(&self) -> Option<When> {
        let mut plan = self.plan.lock();
        let passes = &mut plan.as_mut()?.passes;
        if *passes > 0 {
            *passes -= 1;
            return None;
        }
        plan.take().map(|plan| plan.when)
    }

    /// Closes all connections, and refuses new ones.
    fn disconnect(&self) {
        self.unavailable.send_replace(true);
    }
}

async fn pass(client: TcpStream, shared: Arc<Shared>) {
    let mut unavailable = shared.unavailable.subscribe();
    let Ok(server) = TcpStream::connect(&shared.server).await else { return };
    let (from_client, mut to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let link = Wire { shared: &shared, last: Mutex::new(None), last_answer: Mutex::default() };
    tokio::select! {
        // When requests end, the server notices it and closes the connection.
        _ = async { tokio::join!(link.requests(from_client, to_server),
                                 link.answers(from_server, &mut to_client)) } => {}
        _ = unavailable.wait_for(|unavailable| *unavailable) => {}
    }
    let last_answer = std::mem::take(&mut *link.last_answer.lock());
    if !last_answer.is_empty() {
        // The other connections end first, so that the client notices that.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let _ = to_client.write_all(&last_answer).await;
    }
}

/// Reads a message. Returns its type, and all of its bytes.
async fn message(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(u8, Vec<u8>)> {
    let kind = from.read_u8().await?;
    let mut bytes = vec![kind];
    let length = from.read_u32().await?;
    bytes.extend(length.to_be_bytes());
    let mut body = vec![0; length as usize - 4];
    from.read_exact(&mut body).await?;
    bytes.extend(body);
    Ok((kind, bytes))
}

/// Whether a query only sets up a session.
fn is_set_up(query: &[u8]) -> bool {
    query[5..].starts_with(b"SET statement_timeout")
}

/// One connection through the proxy.
struct Wire<'a> {
    shared: &'a Shared,
    /// The number of the last request, and when the database becomes unavailable at it.
    last: Mutex<Option<(u64, When)>>,
    /// The last answer, which is passed on when the database has become unavailable.
    last_answer: Mutex<Vec<u8>>,
}

impl Wire<'_> {
    /// Passes requests on, each with all of its messages.
    async fn requests(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
    ) -> std::io::Result<()> {
        // The first message has no type.
        let length = from.read_u32().await?;
        let mut request = vec![0; length as usize - 4];
        from.read_exact(&mut request).await?;
        to.write_all(&length.to_be_bytes()).await?;
        to.write_all(&request).await?;
        let mut number = 1;
        loop {
            let (mut request, mut executes) = (Vec::new(), false);
            let last = loop {
                let (kind, bytes) = message(&mut from).await?;
                executes |= kind == b'E' || (kind == b'Q' && !is_set_up(&bytes));
                request.extend(bytes);
                if matches!(kind, b'S' | b'Q' | b'X') {
                    break kind;
                }
            };
            match if executes { self.shared.count() } else { None } {
                None => {}
                Some(When::Before) => {
                    self.shared.disconnect();
                    return Ok(());
                }
                Some(when) => *self.last.lock() = Some((number, when)),
            }
            to.write_all(&request).await?;
            number += u64::from(last != b'X');
        }
    }

    /// Passes answers on. When the answer to the last request is complete, the database becomes
    /// unavailable.
    async fn answers(
        &self,
        mut from: OwnedReadHalf,
        to: &mut OwnedWriteHalf,
    ) -> std::io::Result<()> {
        let mut number = 0;
        loop {
            let (kind, bytes) = message(&mut from).await?;
            let last = self.last.lock().filter(|(last, _)| number >= *last);
            match last {
                None => to.write_all(&bytes).await?,
                Some((_, When::Answered)) => self.last_answer.lock().extend(bytes),
                Some(_) => {}
            }
            // The server is ready for the next request.
            if kind == b'Z' {
                number += 1;
                if last.is_some() {
                    self.shared.disconnect();
                }
            }
        }
    }
}
