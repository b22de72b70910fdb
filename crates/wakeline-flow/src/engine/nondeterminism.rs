//! Code that cannot be replayed, and how that is explained to its author.

/// The code panicked, or it waits for something that is not durable, so that its history cannot
/// reproduce it. The instance is suspended: only other code helps, not a retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Nondeterminism {
    /// Something other than the engine woke the code.
    #[error(
        "the orchestration was woken by something that is not durable (a tokio timer, a spawned \
         task, a channel or another thread); {ADVICE}"
    )]
    Wake,
    /// The code waits, but not for an operation of its context.
    #[error(
        "the orchestration waits for something that is not durable (a tokio timer, a spawned \
         task, a channel or a lock); {ADVICE}"
    )]
    Wait,
    /// The context was used outside of its orchestration.
    #[error(
        "the context of the orchestration was used at {at} by a spawned task or another thread; \
         {ADVICE}"
    )]
    Outside {
        /// The location in the code.
        at: String,
    },
    /// A function passed to `ctx.call` does not identify one activity.
    #[error(
        "at {at}, the code calls the function {function}; the instance continues when a runtime \
         starts whose registry identifies it, or when the instance is resumed"
    )]
    Function {
        /// The function, and why it does not identify an activity.
        function: String,
        /// The location in the code.
        at: String,
    },
    /// The code keeps waking itself and never waits.
    #[error("the orchestration keeps waking itself and never waits; {ADVICE}")]
    Busy,
    /// The code continues as new with a version that no code can have.
    #[error(
        "the orchestration continues as new at {at} with version {version:?}, which is not a \
         valid version: {reason}; fix the code and resume the instance"
    )]
    Version {
        /// The location in the code.
        at: String,
        /// The version that was requested.
        version: String,
        /// The reason why it is invalid.
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
