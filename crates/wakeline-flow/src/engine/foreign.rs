//! What the code of an orchestration must not do, and how that is explained.

/// The code panicked, or waits for something that is not durable, so that its history cannot repeat
/// it. The instance is to be suspended: no retry helps, other code does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// Something else than the engine woke the code.
    #[error(
        "the orchestration was woken by something that is not durable (a tokio timer, a spawned \
         task, a channel or another thread); {ADVICE}"
    )]
    Wake,
    /// The code waits, but for nothing of its context.
    #[error(
        "the orchestration waits for something that is not durable (a tokio timer, a spawned \
         task, a channel or a lock); {ADVICE}"
    )]
    Wait,
    /// The context was used outside of the orchestration.
    #[error(
        "the context of the orchestration was used at {at} by a spawned task or another thread; \
         {ADVICE}"
    )]
    Outside {
        /// Where in the code.
        at: String,
    },
    /// It is not known which activity a function is.
    #[error(
        "the code calls at {at} the function {function}; the instance goes on when a runtime with \
         such a registry starts, or when it is resumed"
    )]
    Function {
        /// The function, and why it is not known.
        function: String,
        /// Where in the code.
        at: String,
    },
    /// The code wakes itself over and over and never waits for anything.
    #[error("the orchestration wakes itself all the time and never waits; {ADVICE}")]
    Busy,
    /// The code goes on as a version that no code can have.
    #[error(
        "the orchestration goes on at {at} as version {version:?}, which cannot be a version: \
         {reason}; fix the code and resume the instance"
    )]
    Version {
        /// Where in the code.
        at: String,
        /// The version.
        version: String,
        /// Why it cannot be one.
        reason: String,
    },
    /// The code panicked.
    #[error("the orchestration panicked: {message}; fix the code and resume the instance")]
    Panic {
        /// The message of the panic.
        message: String,
    },
}

const ADVICE: &str = "wait with the context's own sleep, event and activity, join with the \
                      combinators of this crate, and do everything else in an activity";
