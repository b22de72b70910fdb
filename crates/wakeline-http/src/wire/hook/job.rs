//! Wire types of jobs, which the Svix API calls background tasks, and of pings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::EndpointId;
use wakeline_hook::PingReport;
use wakeline_store::hook::{DeliveryFilter, DeliveryJob, DeliveryState, JobKind, JobState};

use super::attempt::{SvixStatus, parse_state};
use super::type_name;
use crate::error::ApiError;
use crate::{input, render};

/// A time range of messages.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RangeIn {
    /// Only messages stored at or after this time.
    since: String,
    /// Only messages stored before this time.
    until: Option<String>,
}

/// Which messages to send to an endpoint again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkReplayIn {
    /// Only messages stored at or after this time.
    since: String,
    /// Only messages stored before this time.
    until: Option<String>,
    /// Only messages of these event types.
    event_types: Option<Vec<String>>,
    /// Only deliveries with this status: 0 success, 1 pending, 2 fail, 4 canceled.
    status: Option<u8>,
    /// Not supported.
    #[schema(value_type = Option<String>)]
    channel: Option<serde::de::IgnoredAny>,
    /// Not supported.
    #[schema(value_type = Option<String>)]
    tag: Option<serde::de::IgnoredAny>,
    /// Not supported.
    #[schema(value_type = Option<u16>)]
    status_code_class: Option<serde::de::IgnoredAny>,
}

/// A job that changes many deliveries. An addition of Wakeline.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JobIn {
    /// What the job does: `recover`, `replay_missing`, `resend` or `cancel`.
    kind: JobKindIn,
    /// Only deliveries to the endpoint with this id or uid.
    pub(crate) endpoint_id: Option<String>,
    /// Only deliveries of messages of these event types.
    event_types: Option<Vec<String>>,
    /// Only deliveries of messages stored at or after this time.
    since: Option<String>,
    /// Only deliveries of messages stored before this time.
    until: Option<String>,
    /// Only deliveries in these states. If absent, all states that the job can change.
    states: Option<Vec<String>>,
}

/// What a job does.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = JobWord)]
enum JobKindIn {
    /// Retry failed deliveries with their full schedule.
    Recover,
    /// Deliver messages that an endpoint never received.
    ReplayMissing,
    /// Make one more attempt.
    Resend,
    /// Cancel pending deliveries.
    Cancel,
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskOut {
    /// The id of the job.
    id: String,
    /// `running` or `finished`.
    status: &'static str,
    /// What the job does: `endpoint.recover`, `endpoint.replay`, `endpoint.bulk-replay` or
    /// `endpoint.cancel`.
    task: &'static str,
    /// When the job last made progress.
    updated_at: String,
    /// The progress of the job.
    data: TaskData,
}

/// The progress of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskData {
    /// The id of the application.
    app_id: String,
    /// The id of the endpoint, if the job is limited to one.
    endpoint_id: Option<String>,
    /// The number of messages or deliveries examined so far.
    seen: u64,
    /// The number of deliveries changed or created so far.
    changed: u64,
    /// When the job was started.
    created_at: String,
}

impl RangeIn {
    /// Converts the range to a filter of the deliveries to an endpoint.
    pub(crate) fn filter(&self, endpoint: EndpointId) -> Result<DeliveryFilter, ApiError> {
        let filter = times(Some(&self.since), self.until.as_ref())?;
        Ok(DeliveryFilter { endpoint: Some(endpoint), ..filter })
    }
}

impl BulkReplayIn {
    /// Validates the body and converts it to a filter of the deliveries to an endpoint.
    pub(crate) fn filter(self, endpoint: EndpointId) -> Result<DeliveryFilter, ApiError> {
        for (field, given) in [
            ("channel", self.channel.is_some()),
            ("tag", self.tag.is_some()),
            ("statusCodeClass", self.status_code_class.is_some()),
        ] {
            if given {
                let message = format!("{field} is not supported here: omit it");
                return Err(ApiError::invalid_field(field, message));
            }
        }
        let states = match self.status {
            None => Vec::new(),
            Some(number) => {
                let status = SvixStatus::read(&number.to_string());
                let message = format!("status must be from 0 to 4, not {number}");
                let wrong = || ApiError::invalid_field("status", message);
                status.ok_or_else(wrong)?.states().to_vec()
            }
        };
        let filter = times(Some(&self.since), self.until.as_ref())?;
        let event_types = names(self.event_types)?;
        Ok(DeliveryFilter { endpoint: Some(endpoint), event_types, states, ..filter })
    }
}

impl JobIn {
    /// The kind of the job.
    pub(crate) fn kind(&self) -> JobKind {
        match self.kind {
            JobKindIn::Recover => JobKind::Recover,
            JobKindIn::ReplayMissing => JobKind::ReplayMissing,
            JobKindIn::Resend => JobKind::Resend,
            JobKindIn::Cancel => JobKind::Cancel,
        }
    }

    /// Validates the body and converts it to a filter of deliveries.
    pub(crate) fn filter(self, endpoint: Option<EndpointId>) -> Result<DeliveryFilter, ApiError> {
        let filter = times(self.since.as_ref(), self.until.as_ref())?;
        let read = |name: String| -> Result<DeliveryState, ApiError> {
            parse_state(&name).ok_or_else(|| {
                let message = format!(
                    "states must be pending, in_flight, retrying, throttled, delivered, failed or \
                     cancelled, not {name:?}"
                );
                ApiError::invalid_field("states", message)
            })
        };
        let states = self.states.unwrap_or_default().into_iter().map(read);
        let (states, event_types) = (states.collect::<Result<_, _>>()?, names(self.event_types)?);
        Ok(DeliveryFilter { endpoint, event_types, states, ..filter })
    }
}

fn times(since: Option<&String>, until: Option<&String>) -> Result<DeliveryFilter, ApiError> {
    let read = |field, text: Option<&String>| {
        text.map(|text| input::lenient_timestamp(field, text)).transpose()
    };
    let (since, until) = (read("since", since)?, read("until", until)?);
    if let (Some(since), Some(until)) = (since, until)
        && until <= since
    {
        return Err(ApiError::invalid_field("until", "until must be later than since"));
    }
    Ok(DeliveryFilter { since, until, ..DeliveryFilter::default() })
}

fn names(given: Option<Vec<String>>) -> Result<Vec<wakeline_core::EventTypeName>, ApiError> {
    given.unwrap_or_default().iter().map(|text| type_name("eventTypes", text)).collect()
}

impl From<DeliveryJob> for TaskOut {
    fn from(job: DeliveryJob) -> Self {
        Self {
            id: job.spec.id.to_string(),
            status: match job.state {
                JobState::Running => "running",
                JobState::Finished => "finished",
            },
            task: match job.spec.kind {
                JobKind::Recover => "endpoint.recover",
                JobKind::ReplayMissing => "endpoint.replay",
                JobKind::Resend => "endpoint.bulk-replay",
                JobKind::Cancel => "endpoint.cancel",
            },
            updated_at: render::time(job.updated_at),
            data: TaskData {
                app_id: job.application.to_string(),
                endpoint_id: job.spec.filter.endpoint.map(|id| id.to_string()),
                seen: job.seen,
                changed: job.changed,
                created_at: render::time(job.created_at),
            },
        }
    }
}

/// The result of a ping.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PingOut {
    /// Whether the status code of the response was from 200 to 299.
    success: bool,
    /// The status code of the response; null if there was no response.
    response_status_code: Option<u16>,
    /// Why there was no response.
    error: Option<String>,
    /// The duration of the request in milliseconds.
    response_duration_ms: u64,
}

impl From<PingReport> for PingOut {
    fn from(report: PingReport) -> Self {
        Self {
            success: report.status.is_some_and(|status| (200..300).contains(&status)),
            response_status_code: report.status,
            error: report.error,
            response_duration_ms: u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_unsupported_or_invalid_field() {
        let endpoint = EndpointId::generate();
        for (more, field) in [
            (r#""channel":"x""#, "channel"),
            (r#""tag":"x""#, "tag"),
            (r#""statusCodeClass":500"#, "statusCodeClass"),
            (r#""status":9"#, "status"),
            (r#""until":"2020-01-01T00:00:00Z""#, "until"),
            (r#""eventTypes":["a b"]"#, "eventTypes"),
        ] {
            let json = format!(r#"{{"since":"2026-01-01T00:00:00Z",{more}}}"#);
            let given: BulkReplayIn = serde_json::from_str(&json).expect("a body");
            let error = format!("{:?}", given.filter(endpoint).expect_err(field));
            assert!(error.contains(field), "{error}");
        }
    }

    #[test]
    fn states_are_names_and_a_status_can_be_several_states() {
        let json = r#"{"kind":"cancel","states":["pending","retrying"],"eventTypes":["a"]}"#;
        let given: JobIn = serde_json::from_str(json).expect("a body");
        assert_eq!(given.kind(), JobKind::Cancel);
        let filter = given.filter(None).expect("valid");
        assert_eq!(filter.states, [DeliveryState::Pending, DeliveryState::Retrying]);
        let json = r#"{"since":"2026-01-01T00:00:00","status":1}"#;
        let given: BulkReplayIn = serde_json::from_str(json).expect("a body");
        assert_eq!(given.filter(EndpointId::generate()).expect("valid").states.len(), 3);
        assert!(serde_json::from_str::<JobIn>(r#"{"kind":"destroy"}"#).is_err());
    }
}
