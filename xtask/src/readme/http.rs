//! One HTTP request per connection, by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

const ANSWER_SECS_MAX: u64 = 40;

/// Talks to a server on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadmeClient {
    port: u16,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl ReadmeClient {
    pub(crate) fn new(port: u16) -> Self {
        Self { port }
    }

    pub(crate) fn get(self, path: &str) -> Result<Response> {
        self.send(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    pub(crate) fn post(self, path: &str, json: &str) -> Result<Response> {
        let length = json.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
        );
        self.send(&head, json)
    }

    fn send(self, head: &str, body: &str) -> Result<Response> {
        let address = ("127.0.0.1", self.port);
        let mut stream = TcpStream::connect(address).context("connecting to the server")?;
        stream.set_read_timeout(Some(Duration::from_secs(ANSWER_SECS_MAX)))?;
        let request = format!("{head}Host: 127.0.0.1\r\nConnection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).context("waiting for the server's answer")?;
        parse(&String::from_utf8_lossy(&answer)).context("the server's answer is not HTTP")
    }
}

/// Reads an answer whose body ends with the connection, chunked or not.
fn parse(answer: &str) -> Option<Response> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked");
    let body = if chunked { unchunk(body)? } else { body.to_owned() };
    Some(Response { status, body })
}

fn unchunk(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size..)?.strip_prefix("\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_with_and_without_chunks() {
        let plain = parse("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n[]").expect("valid");
        assert_eq!(plain, Response { status: 201, body: "[]".to_owned() });
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n";
        assert_eq!(parse(chunked).expect("valid").body, "[1]");
        assert_eq!(parse("nonsense"), None);
    }
}
