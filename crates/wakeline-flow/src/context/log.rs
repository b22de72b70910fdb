//! Logging that does not repeat on replay.

use std::fmt;

use tracing::Level;

use super::OrchestrationContext;

impl OrchestrationContext {
    /// Logs a message with the instance id once: nothing is logged on replay. The macros of
    /// `tracing` are silent on replay as well.
    pub fn trace(&self, level: Level, message: impl fmt::Display) {
        if self.is_replaying() {
            return;
        }
        let facts = &self.shared.facts;
        let (instance, execution) = (&facts.instance, facts.execution);
        macro_rules! log {
            ($level:expr) => {
                tracing::event!($level, %instance, execution, "{message}")
            };
        }
        match level {
            Level::ERROR => log!(Level::ERROR),
            Level::WARN => log!(Level::WARN),
            Level::INFO => log!(Level::INFO),
            Level::DEBUG => log!(Level::DEBUG),
            Level::TRACE => log!(Level::TRACE),
        }
    }

    /// Logs an informational message once.
    pub fn info(&self, message: impl fmt::Display) {
        self.trace(Level::INFO, message);
    }

    /// Logs a warning once.
    pub fn warn(&self, message: impl fmt::Display) {
        self.trace(Level::WARN, message);
    }

    /// Logs an error once.
    pub fn error(&self, message: impl fmt::Display) {
        self.trace(Level::ERROR, message);
    }
}
