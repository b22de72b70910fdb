//! Jobs on the wire: background tasks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::EndpointId;
use wakeline_hook::PingReport;
use wakeline_store::hook::{DeliveryFilter, DeliveryState, Job, JobKind, JobState};

use super::attempt::{Standing, read_state};
use super::type_name;
use crate::error::ApiError;
use crate::{input, render};

/// From when to when.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RangeIn {
    /// Messages stored at or after this.
    since: String,
    /// Messages stored before this.
    until: Option<String>,
}

/// Messages of an endpoint to send once more.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkReplayIn {
    /// Messages stored at or after this.
    since: String,
    /// Messages stored before this.
    until: Option<String>,
    /// Only of these types.
    event_types: Option<Vec<String>>,
    /// Only those that stand so: 0 success, 1 pending, 2 fail, 4 canceled.
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

/// A change of many deliveries. Wakeline's own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JobIn {
    /// What to do: recover, replay_missing, resend or cancel.
    kind: JobWord,
    /// Only deliveries to this endpoint, by its id or your own.
    pub(crate) endpoint_id: Option<String>,
    /// Only of messages of these types.
    event_types: Option<Vec<String>>,
    /// Only of messages stored at or after this.
    since: Option<String>,
    /// Only of messages stored before this.
    until: Option<String>,
    /// Only in these states; all that the job can change if absent.
    states: Option<Vec<String>>,
}

/// What a job does.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum JobWord {
    Recover,
    ReplayMissing,
    Resend,
    Cancel,
}

/// A job that was begun.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskOut {
    /// Its id.
    id: String,
    /// running or finished.
    status: &'static str,
    /// What it does: endpoint.recover, endpoint.replay, endpoint.bulk-replay or endpoint.cancel.
    task: &'static str,
    /// When it last went on.
    updated_at: String,
    /// How far it is.
    data: TaskData,
}

/// How far a job is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskData {
    /// Whose.
    app_id: String,
    /// The endpoint that it is about, if it is one.
    endpoint_id: Option<String>,
    /// Messages or deliveries looked at so far.
    seen: u64,
    /// Deliveries changed or made so far.
    changed: u64,
    /// When it was begun.
    created_at: String,
}

impl RangeIn {
    /// The deliveries to an endpoint of messages of that time.
    pub(crate) fn filter(&self, endpoint: EndpointId) -> Result<DeliveryFilter, ApiError> {
        let filter = times(Some(&self.since), self.until.as_ref())?;
        Ok(DeliveryFilter { endpoint: Some(endpoint), ..filter })
    }
}

impl BulkReplayIn {
    /// The deliveries that are meant.
    pub(crate) fn filter(self, endpoint: EndpointId) -> Result<DeliveryFilter, ApiError> {
        for (field, given) in [
            ("channel", self.channel.is_some()),
            ("tag", self.tag.is_some()),
            ("statusCodeClass", self.status_code_class.is_some()),
        ] {
            if given {
                let message = format!("{field} is not supported here: leave it out");
                return Err(ApiError::invalid_field(field, message));
            }
        }
        let states = match self.status {
            None => Vec::new(),
            Some(number) => {
                let standing = Standing::read(&number.to_string());
                let message = format!("status must be from 0 to 4, not {number}");
                let wrong = || ApiError::invalid_field("status", message);
                standing.ok_or_else(wrong)?.states().to_vec()
            }
        };
        let filter = times(Some(&self.since), self.until.as_ref())?;
        let event_types = names(self.event_types)?;
        Ok(DeliveryFilter { endpoint: Some(endpoint), event_types, states, ..filter })
    }
}

impl JobIn {
    /// What to do.
    pub(crate) fn kind(&self) -> JobKind {
        match self.kind {
            JobWord::Recover => JobKind::Recover,
            JobWord::ReplayMissing => JobKind::ReplayMissing,
            JobWord::Resend => JobKind::Resend,
            JobWord::Cancel => JobKind::Cancel,
        }
    }

    /// To which deliveries.
    pub(crate) fn filter(self, endpoint: Option<EndpointId>) -> Result<DeliveryFilter, ApiError> {
        let filter = times(self.since.as_ref(), self.until.as_ref())?;
        let read = |word: String| -> Result<DeliveryState, ApiError> {
            read_state(&word).ok_or_else(|| {
                let message = format!(
                    "states must be pending, in_flight, retrying, throttled, delivered, failed or \
                     cancelled, not {word:?}"
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
    let read =
        |field, text: Option<&String>| text.map(|text| input::moment(field, text)).transpose();
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

impl From<Job> for TaskOut {
    fn from(job: Job) -> Self {
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

/// What a call to see whether an endpoint works came to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PingOut {
    /// Whether it answered with a status from 200 to 299.
    success: bool,
    /// The answer's status; null if none came.
    response_status_code: Option<u16>,
    /// What went wrong, if no answer came.
    error: Option<String>,
    /// How long it took.
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
    fn filters_say_what_they_cannot_do() {
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
    fn states_are_words_and_standings_are_several_states() {
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
