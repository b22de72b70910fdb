//! Lock tokens of turns: the token of the store, and facts about the turn.
//!
//! duroxide passes only the token to an acknowledgement, so everything else that a commit needs
//! (such as the instance and its last event) is part of the token.

use std::fmt;

use duroxide::providers::ProviderError;
use serde::{Deserialize, Serialize};
use wakeline_core::{Capability, FlowToken, InstanceId};
use wakeline_store::flow::TurnItem;

use crate::error::lock_lost;

/// The lock token of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnToken {
    pub(crate) token: FlowToken,
    pub(crate) facts: TurnFacts,
}

/// The facts about a turn when it was fetched. The field names are part of lock tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnFacts {
    pub(crate) instance: InstanceId,
    /// The current execution; 0 if there is no instance yet.
    pub(crate) execution: u64,
    /// The last event of the current execution.
    pub(crate) last_event: u64,
    pub(crate) capability: Option<Capability>,
    /// The orchestration that a message starts, if there is no instance yet.
    pub(crate) started: Option<String>,
}

impl TurnToken {
    pub(crate) fn of(turn: &TurnItem, started: Option<String>) -> Self {
        let facts = TurnFacts {
            instance: turn.instance.clone(),
            execution: turn.execution,
            last_event: turn.last_event,
            capability: turn.capability.clone(),
            started,
        };
        Self { token: turn.token, facts }
    }

    pub(crate) fn parse(operation: &'static str, text: &str) -> Result<Self, ProviderError> {
        let (token, facts) = text.split_once(' ').ok_or_else(|| lock_lost(operation))?;
        let facts = serde_json::from_str(facts).map_err(|_| lock_lost(operation))?;
        Ok(Self { token: parse(operation, token)?, facts })
    }
}

impl fmt::Display for TurnToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = serde_json::to_string(&self.facts).map_err(|_| fmt::Error)?;
        write!(f, "{} {facts}", self.token)
    }
}

/// Parses the lock token of an activity.
pub(crate) fn parse(operation: &'static str, text: &str) -> Result<FlowToken, ProviderError> {
    text.parse().map_err(|_| lock_lost(operation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_round_trips_with_the_facts_of_its_turn() {
        let facts = TurnFacts {
            instance: InstanceId::new("an instance \"of\" mine").expect("valid"),
            execution: 3,
            last_event: 41,
            capability: Some(crate::versions::unpinned()),
            started: None,
        };
        let key = uuid::Uuid::now_v7();
        let token = TurnToken { token: FlowToken { lane: 7, work: None, key }, facts };
        assert_eq!(TurnToken::parse("ack", &token.to_string()), Ok(token));
    }

    #[test]
    fn other_texts_are_not_lock_tokens() {
        for text in ["", "invalid-token", "t1-x {}", "t1 "] {
            let error = TurnToken::parse("ack", text).expect_err("no token");
            assert!(error.message.contains("Invalid lock token") && !error.retryable);
        }
    }
}
