//! Durable orchestrations: async Rust that survives crashes, deploys and months of sleep.
//!
//! # Where it sits
//! It sits on top of `wakeline-store`, which keeps histories, messages and activities, and of
//! `wakeline-wake`, which wakes dispatchers and clients when there is something for them. Users
//! reach it through the facade `wakeline`.
//!
//! # Invariants
//! * One turn is one commit of its history, activities, timers, messages, status and key-value
//!   state.
//! * Replaying a history makes the same decisions; otherwise the instance is suspended with a diff.
//! * Nothing here polls: dispatchers and clients wait in a hub.

mod activity;
mod capability;
mod client;
mod closing;
mod combinators;
mod context;
mod engine;
mod error;
mod event;
mod json;
mod message;
pub mod provider;
mod registry;
mod retry;
mod runtime;

pub use activity::{Activity, ActivityContext};
pub use capability::capability;
pub use client::{Client, ClientError, Instance, Started, Status, UNCLAIMED_AFTER};
pub use combinators::{
    Either, Either3, join, join_all, join3, race, select2, select3, try_join_all,
};
pub use context::{
    ActivityCall, ActivityHandle, Cancelled, ChildCall, ChildHandle, ContinueAsNew, EventWait,
    HookSend, Mailbox, Orchestration, OrchestrationContext, QueueSend, Sleep, Timeout,
};
pub use engine::{
    Execution, ExecutionSetup, ExecutionStart, History, HookEmit, KvWrite, Mismatch, MismatchRow,
    NewTimer, Nondeterminism, QueuePush, ReplayError, TurnEffects, TurnEnd, TurnResult, replay,
};
pub use error::{ErrorOrigin, FailureKind, FlowError, IntoFlowError};
pub use event::{ClosePolicy, Event, EventKind, Parent, Raised};
pub use json::Json;
pub use message::{ActivityTask, FlowMessage};
pub use registry::{
    ActivityCode, OrchestrationCode, Registry, RegistryBuilder, RegistryError, VERSION_DEFAULT,
};
pub use retry::{ActivityPolicy, Backoff};
pub use runtime::{Prefetch, Runtime, RuntimeOptions, RuntimeOptionsError};
pub use wakeline_store::flow::{
    DeleteInstances, DeleteReport, EarlyMailbox, ExecutionDetail, FlowDepths, InstanceFilter,
    InstanceState, InstanceStats, ListInstances, ListMailboxes, PruneOptions, PruneReport,
};
