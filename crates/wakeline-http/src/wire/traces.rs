//! Traces of messages, in the field names of the published Queen clients: camel case on the way in,
//! snake case on the way out.

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
use crate::input::word;
use crate::render;
use crate::wire::ack::partition_id;
use crate::wire::dead::Pagination;

/// Something to note on a message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TraceBody<'a> {
    /// Names the message within its partition.
    transaction_id: Option<String>,
    /// The partition's id.
    partition_id: Option<String>,
    /// Any JSON, up to 64 KiB.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    data: Option<&'a RawValue>,
    /// On whose behalf.
    consumer_group: Option<String>,
    /// Under what it can be found: a name, or up to 16.
    trace_names: Option<Names>,
    /// What kind of thing happened (`info`).
    event_type: Option<String>,
    /// Who notes it; the name of the key or token if it is omitted.
    worker_id: Option<String>,
}

/// A name, or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl TraceBody<'_> {
    /// The trace to store. `caller` is who notes it unless it says so itself.
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
            Some(Names::One(name)) => vec![name],
            Some(Names::Several(names)) => names,
        };
        let names: BTreeSet<TraceName> =
            names.into_iter().map(TraceName::new).collect::<Result<_, _>>()?;
        if names.len() > TRACE_NAMES_MAX {
            let message = format!("traceNames must not have more than {TRACE_NAMES_MAX} names");
            return Err(ApiError::invalid_field("traceNames", message));
        }
        let event_type = self.event_type.unwrap_or_else(|| "info".to_owned());
        let worker = self.worker_id.or(caller);
        word("eventType", &event_type)?;
        word("workerId", worker.as_deref().unwrap_or_default())?;
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

/// It is noted.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TracedAnswer {
    pub(crate) success: bool,
    pub(crate) trace_id: Uuid,
}

/// What was noted on a message.
#[derive(Serialize, ToSchema)]
pub(crate) struct TraceAnswer<'a> {
    id: Uuid,
    event_type: &'a str,
    #[schema(value_type = Object)]
    data: &'a RawValue,
    consumer_group: &'a str,
    worker_id: Option<&'a str>,
    created_at: String,
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

/// The traces of a message, the oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct TracesAnswer<'a> {
    pub(crate) traces: Vec<TraceAnswer<'a>>,
}

/// A trace, and what it is noted on.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamedTraceAnswer<'a> {
    #[serde(flatten)]
    trace: TraceAnswer<'a>,
    queue_name: &'a str,
    partition_name: &'a str,
    partition_id: String,
    transaction_id: &'a str,
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

/// A page of the traces of a name, the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamedTracesAnswer<'a> {
    pub(crate) traces: Vec<NamedTraceAnswer<'a>>,
    pub(crate) total: u64,
    pub(crate) pagination: Pagination,
}

/// A name, and what has it.
#[derive(Serialize, ToSchema)]
pub(crate) struct TraceNameAnswer {
    trace_name: String,
    trace_count: u64,
    message_count: u64,
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

/// A page of names, those used last first.
#[derive(Serialize, ToSchema)]
pub(crate) struct TraceNamesAnswer {
    pub(crate) trace_names: Vec<TraceNameAnswer>,
    pub(crate) total: u64,
    pub(crate) pagination: Pagination,
}
