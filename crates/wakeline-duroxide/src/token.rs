//! Lock tokens of turns: the store's token, and what the turn was about.
//!
//! duroxide passes an acknowledgement only its token. What else a commit needs (whose turn, which
//! event came last) goes along in it.

use std::fmt;

use duroxide::providers::ProviderError;
use serde::{Deserialize, Serialize};
use wakeline_core::{Capability, FlowToken, InstanceId};
use wakeline_store::flow::TurnItem;

use crate::error::lock_lost;

/// A turn's lock token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnToken {
    pub(crate) token: FlowToken,
    pub(crate) about: About,
}

/// What a turn was about when it was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) instance: InstanceId,
    /// The current execution; 0 if there is no instance.
    pub(crate) execution: u64,
    /// The last event of the current execution.
    pub(crate) last_event: u64,
    pub(crate) capability: Option<Capability>,
    /// The orchestration by the message that starts it, if there is no instance.
    pub(crate) started: Option<String>,
}

impl TurnToken {
    pub(crate) fn of(turn: &TurnItem, started: Option<String>) -> Self {
        let about = About {
            instance: turn.instance.clone(),
            execution: turn.execution,
            last_event: turn.last_event,
            capability: turn.capability.clone(),
            started,
        };
        Self { token: turn.token, about }
    }

    pub(crate) fn parse(operation: &'static str, text: &str) -> Result<Self, ProviderError> {
        let (token, about) = text.split_once(' ').ok_or_else(|| lock_lost(operation))?;
        let about = serde_json::from_str(about).map_err(|_| lock_lost(operation))?;
        Ok(Self { token: parse(operation, token)?, about })
    }
}

impl fmt::Display for TurnToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = serde_json::to_string(&self.about).map_err(|_| fmt::Error)?;
        write!(f, "{} {about}", self.token)
    }
}

/// An activity's lock token.
pub(crate) fn parse(operation: &'static str, text: &str) -> Result<FlowToken, ProviderError> {
    text.parse().map_err(|_| lock_lost(operation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_what_its_turn_was_about() {
        let about = About {
            instance: InstanceId::new("an instance \"of\" mine").expect("valid"),
            execution: 3,
            last_event: 41,
            capability: Some(crate::versions::unpinned()),
            started: None,
        };
        let key = uuid::Uuid::now_v7();
        let token = TurnToken { token: FlowToken { lane: 7, work: None, key }, about };
        assert_eq!(TurnToken::parse("ack", &token.to_string()), Ok(token));
    }

    #[test]
    fn other_texts_are_no_locks() {
        for text in ["", "invalid-token", "t1-x {}", "t1 "] {
            let error = TurnToken::parse("ack", text).expect_err("no token");
            assert!(error.message.contains("Invalid lock token") && !error.retryable);
        }
    }
}
