//! Wire types of traces, with the field names of the published Queen clients: camel case in
//! requests, snake case in responses.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::{GroupName, TraceName, TransactionId};
use wakeline_store::{
    MessageKey, NamedTrace, NewTrace, TRACE_DATA_BYTES_MAX, TRACE_NAMES_MAX, Trace, TraceNameDetail,
};

use crate::error::ApiError;
use crate::input::check_short_text;
use crate::render;
use crate::wire::ack::partition_id;
use crate::wire::dead::Pagination;

/// A trace to add to a message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TraceBody<'a> {
    /// The transaction id of the message.
    transaction_id: Option<String>,
    /// The id of the message's partition.
    partition_id: Option<String>,
    /// The content of the trace: any JSON, up to 64 KiB.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    data: Option<&'a RawValue>,
    /// The consumer group. If omitted, the group of consumers that name none.
    consumer_group: Option<String>,
    /// The names by which the trace can be found: one name, or a list of up to 16.
    trace_names: Option<OneOrSeveralNames>,
    /// The kind of the event (default `info`).
    event_type: Option<String>,
    /// The consumer that adds the trace. If omitted, the name of its key or token.
    worker_id: Option<String>,
}

/// One name, or a list of names.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Names)]
enum OneOrSeveralNames {
    One(String),
    Several(Vec<String>),
}

impl TraceBody<'_> {
    /// Validates the trace. `caller` is recorded as the consumer if the body names none.
    pub(crate) fn trace(self, caller: Option<String>) -> Result<NewTrace, ApiError> {
        let (Some(transaction_id), Some(partition)) = (self.transaction_id, self.partition_id)
        else {
            return Err(ApiError::invalid("transactionId and partitionId are required"));
        };
        let missing = || ApiError::not_found("Message not found");
        let partition = partition_id(&partition)?.ok_or_else(missing)?;
        let transaction_id = TransactionId::new(transaction_id)?;
        let data = self.data.ok_or_else(|| ApiError::invalid("data is required"))?.get();
        if data.len() > TRACE_DATA_BYTES_MAX {
            let message = format!("data must not have more than {TRACE_DATA_BYTES_MAX} bytes");
            return Err(ApiError::invalid_field("data", message));
        }
        let names = match self.trace_names {
            None => Vec::new(),
            Some(OneOrSeveralNames::One(name)) => vec![name],
            Some(OneOrSeveralNames::Several(names)) => names,
        };
        let names: BTreeSet<TraceName> =
            names.into_iter().map(TraceName::new).collect::<Result<_, _>>()?;
        if names.len() > TRACE_NAMES_MAX {
            let message = format!("traceNames must not have more than {TRACE_NAMES_MAX} names");
            return Err(ApiError::invalid_field("traceNames", message));
        }
        let event_type = self.event_type.unwrap_or_else(|| "info".to_owned());
        let worker = self.worker_id.or(caller);
        check_short_text("eventType", &event_type)?;
        check_short_text("workerId", worker.as_deref().unwrap_or_default())?;
        Ok(NewTrace {
            id: Uuid::now_v7(),
            message: MessageKey { partition, transaction_id },
            event_type,
            group: self.consumer_group.map_or(Ok(GroupName::queue_mode()), GroupName::new)?,
            worker,
            names: names.into_iter().collect(),
            data: Bytes::copy_from_slice(data.as_bytes()),
        })
    }
}

/// The result of adding a trace.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TracedAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// The id of the trace.
    pub(crate) trace_id: Uuid,
}

/// A trace of a message.
#[derive(Serialize, ToSchema)]
pub(crate) struct TraceAnswer<'a> {
    /// The id of the trace.
    id: Uuid,
    /// The kind of the event.
    event_type: &'a str,
    /// The content of the trace.
    #[schema(value_type = Object)]
    data: &'a RawValue,
    /// The name of the consumer group.
    consumer_group: &'a str,
    /// The consumer that added the trace.
    worker_id: Option<&'a str>,
    /// When the trace was added.
    created_at: String,
    /// The names by which the trace can be found.
    trace_names: Vec<&'a str>,
}

impl<'a> TraceAnswer<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Result<Self, ApiError> {
        Ok(Self {
            id: trace.id,
            event_type: &trace.event_type,
            data: render::payload(&trace.data, &trace.id)?,
            consumer_group: trace.group.as_str(),
            worker_id: trace.worker.as_deref(),
            created_at: render::time(trace.created_at),
            trace_names: trace.names.iter().map(TraceName::as_str).collect(),
        })
    }
}

/// The traces of a message.
#[derive(Serialize, ToSchema)]
pub(crate) struct TracesAnswer<'a> {
    /// The traces, oldest first.
    pub(crate) traces: Vec<TraceAnswer<'a>>,
}

/// A trace and its message.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamedTraceAnswer<'a> {
    #[serde(flatten)]
    trace: TraceAnswer<'a>,
    /// The queue of the message.
    queue_name: &'a str,
    /// The partition of the message.
    partition_name: &'a str,
    /// The id of the message's partition.
    partition_id: String,
    /// The transaction id of the message.
    transaction_id: &'a str,
    /// The payload of the message.
    #[schema(value_type = Object)]
    message_payload: &'a RawValue,
}

impl<'a> NamedTraceAnswer<'a> {
    pub(crate) fn new(named: &'a NamedTrace) -> Result<Self, ApiError> {
        Ok(Self {
            trace: TraceAnswer::new(&named.trace)?,
            queue_name: named.queue.as_str(),
            partition_name: named.partition.as_str(),
            partition_id: named.partition_id.to_string(),
            transaction_id: named.transaction_id.as_str(),
            message_payload: render::payload(&named.payload, &named.transaction_id)?,
        })
    }
}

/// A page of the traces with a name.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamedTracesAnswer<'a> {
    /// The traces, newest first.
    pub(crate) traces: Vec<NamedTraceAnswer<'a>>,
    /// The number of items on all pages.
    pub(crate) total: u64,
    /// The window of the list that this page shows.
    pub(crate) pagination: Pagination,
}

/// The name of traces and how often it is used.
#[derive(Serialize, ToSchema)]
pub(crate) struct TraceNameAnswer {
    /// The name.
    trace_name: String,
    /// The number of traces with the name.
    trace_count: u64,
    /// The number of messages with such traces.
    message_count: u64,
    /// When the newest trace with the name was added.
    last_seen: String,
}

impl From<TraceNameDetail> for TraceNameAnswer {
    fn from(detail: TraceNameDetail) -> Self {
        Self {
            trace_name: detail.name.into(),
            trace_count: detail.traces,
            message_count: detail.messages,
            last_seen: render::time(detail.last_seen),
        }
    }
}

/// A page of the names of traces.
#[derive(Serialize, ToSchema)]
pub(crate) struct TraceNamesAnswer {
    /// The names, most recently used first.
    pub(crate) trace_names: Vec<TraceNameAnswer>,
    /// The number of items on all pages.
    pub(crate) total: u64,
    /// The window of the list that this page shows.
    pub(crate) pagination: Pagination,
}
