//! Traces of messages.

use async_trait::async_trait;
use wakeline_core::TraceName;
use wakeline_store::{
    MessageKey, NamedTraces, NewTrace, Page, QueueTraces, StoreError, Trace, TraceNames, Traced,
    WholeStore,
};

use super::FaultingStore;

passes! { QueueTraces:
    fn add_trace(trace: NewTrace) -> Traced;
    fn traces(message: MessageKey) -> Vec<Trace>;
    fn traces_named(name: &TraceName, page: Page) -> NamedTraces;
    fn trace_names(page: Page) -> TraceNames;
}
