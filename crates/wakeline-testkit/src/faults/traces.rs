//! Calls of traces, with planned faults.

use async_trait::async_trait;
use wakeline_core::TraceName;
use wakeline_store::{
    AddTraceOutcome, Backend, MessageKey, NamedTraces, NewTrace, Page, QueueTraces, StoreError,
    Trace, TraceNames,
};

use super::FaultingStore;

passes! { QueueTraces:
    fn add_trace(trace: NewTrace) -> AddTraceOutcome;
    fn traces(message: MessageKey) -> Vec<Trace>;
    fn traces_named(name: &TraceName, page: Page) -> NamedTraces;
    fn trace_names(page: Page) -> TraceNames;
}
