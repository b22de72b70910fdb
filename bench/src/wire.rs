//! The requests that the benchmarks send, and the parts of the answers that they read.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::client::{get, post};

/// A payload of 130 bytes, as in the measurements of the peers.
pub(crate) const PAYLOAD: &str = concat!(
    r#"{"order":123456,"customer":"c-000042","items":[1,2,3],"note":""#,
    r#"012345678901234567890123456789012345678901234567890123456789012345"}"#,
);

/// A push of `batch` messages to one partition of a queue.
pub(crate) fn push(queue: &str, partition: usize, batch: usize) -> Vec<u8> {
    push_items(queue, std::iter::repeat_n(partition, batch))
}

/// A push of `batch` messages to as many partitions of a queue, beginning with `first`.
pub(crate) fn push_spread(queue: &str, first: usize, batch: usize, partitions: usize) -> Vec<u8> {
    push_items(queue, (first..first + batch).map(|partition| partition % partitions))
}

fn push_items(queue: &str, partitions: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut body = String::from("{\"items\":[");
    for (index, partition) in partitions.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(
            body,
            "{comma}{{\"queue\":\"{queue}\",\"partition\":\"p{partition}\",\"payload\":{PAYLOAD}}}"
        );
    }
    body.push_str("]}");
    post("/api/v1/push", &body)
}

/// A pop that does not wait.
pub(crate) fn pop(queue: &str, batch: usize) -> Vec<u8> {
    get(&format!("/api/v1/pop/queue/{queue}?batch={batch}"))
}

/// A pop for a consumer group, or from several partitions.
pub(crate) fn pop_of(queue: &str, batch: usize, partitions: usize, group: Option<&str>) -> Vec<u8> {
    let group = group.map_or_else(String::new, |group| format!("&consumerGroup={group}"));
    get(&format!("/api/v1/pop/queue/{queue}?batch={batch}&partitions={partitions}{group}"))
}

/// A pop that waits.
pub(crate) fn pop_waiting(queue: &str) -> Vec<u8> {
    get(&format!("/api/v1/pop/queue/{queue}?wait=true&timeout=30000"))
}

/// The parts of a pop answer that a consumer needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Popped<'a> {
    lease_id: &'a str,
    partition_id: &'a str,
    messages: Vec<Message<'a>>,
}

/// A popped message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    transaction_id: &'a str,
    /// The partition of the message, if the answer contains several partitions.
    partition_id: Option<&'a str>,
}

impl<'a> Popped<'a> {
    /// Parses the answer to a pop.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self> {
        serde_json::from_slice(body).context("the answer to a pop cannot be parsed")
    }

    /// Number of messages.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the request that acknowledges all messages.
    pub(crate) fn ack(&self) -> Vec<u8> {
        self.ack_for(None)
    }

    /// The same for a consumer group.
    pub(crate) fn ack_for(&self, group: Option<&str>) -> Vec<u8> {
        let mut body = String::with_capacity(self.messages.len() * 200 + 64);
        if let ([message], None) = (&self.messages[..], group) {
            self.ack_one(message, &mut body);
            return post("/api/v1/ack", &body);
        }
        body.push_str("{\"acknowledgments\":[");
        for (index, message) in self.messages.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            self.ack_one(message, &mut body);
        }
        body.push(']');
        if let Some(group) = group {
            let _ = write!(body, ",\"consumerGroup\":\"{group}\"");
        }
        body.push('}');
        post("/api/v1/ack/batch", &body)
    }

    fn ack_one(&self, message: &Message<'_>, body: &mut String) {
        let _ = write!(
            body,
            "{{\"transactionId\":\"{}\",\"partitionId\":\"{}\",\"leaseId\":\"{}\",\
             \"status\":\"completed\"}}",
            message.transaction_id,
            message.partition_id.unwrap_or(self.partition_id),
            self.lease_id
        );
    }
}

/// Whether the answer to an acknowledgment reports success for all messages.
pub(crate) fn all_acked(body: &[u8]) -> bool {
    let refused = b"\"success\":false";
    !body.windows(refused.len()).any(|window| window == refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_documented_size() {
        assert_eq!(PAYLOAD.len(), 130);
        assert!(serde_json::from_str::<serde_json::Value>(PAYLOAD).is_ok());
    }

    #[test]
    fn one_message_is_acked_alone_and_several_together() {
        let message = "{\"transactionId\":\"t\",\"data\":1}";
        let popped = |messages: &str| {
            format!("{{\"leaseId\":\"l\",\"partitionId\":\"p\",\"messages\":[{messages}]}}")
        };
        let one = popped(message);
        let one = Popped::parse(one.as_bytes()).expect("valid");
        assert!(one.ack().starts_with(b"POST /api/v1/ack HTTP/1.1"));
        let two = popped(&format!("{message},{message}"));
        let two = Popped::parse(two.as_bytes()).expect("valid");
        assert_eq!(two.len(), 2);
        assert!(two.ack().starts_with(b"POST /api/v1/ack/batch HTTP/1.1"));
    }

    #[test]
    fn a_refused_ack_is_detected() {
        assert!(all_acked(b"[{\"success\":true},{\"success\":true}]"));
        assert!(!all_acked(b"[{\"success\":true},{\"success\":false}]"));
    }
}
