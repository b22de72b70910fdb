//! A minimal HTTP/1.1 client: one keep-alive connection, with requests prepared as bytes.
//!
//! # Where it sits
//! All benchmarks use this client. It shares the machine with the servers, so that it parses only
//! the status and the length of an answer, and allocates nothing per request.
//!
//! # Invariants
//! * One request is in flight per connection; the buffer holds exactly one answer.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Size of the buffer, which is enough to read an ordinary answer in one call.
const BUFFER_LEN: usize = 32 * 1024;

/// A keep-alive connection.
pub(crate) struct BenchConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer, which is stored in the buffer of the connection.
pub(crate) struct Answer<'a> {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// Returns the body if the status is the expected one.
    pub(crate) fn expect(&self, status: u16) -> Result<&[u8]> {
        let text = || String::from_utf8_lossy(self.body).into_owned();
        ensure!(self.status == status, "answered {} instead of {status}: {}", self.status, text());
        Ok(self.body)
    }
}

impl BenchConnection {
    /// Opens a connection.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(BUFFER_LEN) })
    }

    /// Opens a connection whose buffer is small until answers need more. This is meant for
    /// thousands of connections.
    pub(crate) async fn open_small(address: SocketAddr) -> Result<Self> {
        Ok(Self { buffer: Vec::new(), ..Self::open(address).await? })
    }

    /// Opens several connections.
    pub(crate) async fn open_all(address: SocketAddr, count: usize) -> Result<Vec<Self>> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Self::open(address).await?);
        }
        Ok(connections)
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.send(request).await?;
        self.receive().await
    }

    /// Sends a request.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await.context("cannot send a request")
    }

    /// Reads the answer to the request that was sent.
    pub(crate) async fn receive(&mut self) -> Result<Answer<'_>> {
        self.buffer.clear();
        let mut head = None;
        loop {
            let wanted = head.as_ref().map_or(1, |head: &Head| head.missing(self.buffer.len()));
            if wanted == 0 {
                break;
            }
            self.buffer.reserve(wanted);
            let read = self.stream.read_buf(&mut self.buffer).await.context("no answer")?;
            if read == 0 {
                bail!("the server closed the connection");
            }
            if head.is_none() {
                head = Head::parse(&self.buffer)?;
            }
        }
        let head = head.expect("the loop ends when the head and its body are there");
        Ok(Answer { status: head.status, body: &self.buffer[head.len..] })
    }
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    len: usize,
    body_len: usize,
}

impl Head {
    /// Parses the head. Returns `None` if it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes[..end]).context("the head is not text")?;
        let status = text.get(9..12).context("no status line")?;
        let status = status.parse().context("no status")?;
        let mut body_len = 0;
        for line in text.split("\r\n").skip(1) {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                body_len = value.trim().parse().context("content-length is not a number")?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                bail!("chunked answers are not supported");
            }
        }
        Ok(Some(Self { status, len: end + 4, body_len }))
    }

    fn missing(&self, have: usize) -> usize {
        (self.len + self.body_len).saturating_sub(have)
    }
}

/// The bytes of a GET request.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// The bytes of a POST request with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let mut request = String::with_capacity(body.len() + 128);
    let _ = write!(
        request,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    request.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_when_it_is_complete() {
        let bytes = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\n[1]";
        assert_eq!(Head::parse(&bytes[..30]).expect("no error"), None);
        let head = Head::parse(bytes).expect("no error").expect("complete");
        assert_eq!((head.status, head.body_len, head.missing(bytes.len())), (201, 3, 0));
        assert_eq!(head.missing(bytes.len() - 2), 2);
    }

    #[test]
    fn an_answer_without_a_length_has_no_body() {
        let head = Head::parse(b"HTTP/1.1 204 No Content\r\n\r\n").expect("no error");
        assert_eq!(head, Some(Head { status: 204, len: 27, body_len: 0 }));
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
