//! Reading requests: bodies, query parameters and path parts, with errors that name what is wrong.

mod explain;
pub(crate) mod strict;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::RequestPartsExt;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use wakeline_core::{IdempotencyKey, check_json_depth};

use crate::error::ApiError;
use crate::state::AppState;

/// A request body that says it is JSON, within the limits of size and time; and what its route
/// knows.
pub(crate) struct Body(pub(crate) Bytes, Option<&'static strict::Known>);

impl FromRequest<AppState> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let known = request.extensions().get::<MatchedPath>();
        let known = known.and_then(|route| strict::find(request.method(), route.as_str()));
        let typed = check_content_type(request.headers())?;
        check_content_encoding(request.headers())?;
        let limit = state.settings().body_bytes_max;
        let body = Limited::new(request.into_body(), limit).collect();
        let body = tokio::time::timeout(state.settings().body_timeout, body)
            .await
            .map_err(|_| ApiError::body_timeout())?;
        match body {
            Ok(body) => {
                let body = body.to_bytes();
                check_json_depth(&body)?;
                // A page may send a body without a type to any server, and need not ask.
                match typed || body.is_empty() {
                    true => Ok(Self(body, known)),
                    false => Err(ApiError::unsupported_media_type("")),
                }
            }
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                Err(ApiError::payload_too_large(limit))
            }
            Err(error) => Err(ApiError::invalid(format!("the request body ended early: {error}"))),
        }
    }
}

impl Body {
    /// Parses the body. The error names the field and the position.
    pub(crate) fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        if self.0.is_empty() {
            return Err(ApiError::invalid("the request has no body: send a JSON object"));
        }
        self.1.map_or(Ok(()), |known| known.check_body(&self.0))?;
        // The plain parser is faster; the one that knows the path runs only to explain a failure.
        serde_json::from_slice(&self.0).map_err(|plain| {
            let mut parser = serde_json::Deserializer::from_slice(&self.0);
            match serde_path_to_error::deserialize::<_, T>(&mut parser) {
                Err(error) if is_a_way(error.path()) => {
                    explain::explain(&error.path().to_string(), error.inner())
                }
                _ => explain::explain("", &plain),
            }
        })
    }

    /// Parses the body, or takes the default if there is none. PHP writes an empty object as `[]`.
    pub(crate) fn parse_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        match self.0.trim_ascii() {
            b"" | b"[]" => Ok(T::default()),
            _ => self.parse(),
        }
    }
}

/// Whether a path leads somewhere: in malformed JSON it may not.
fn is_a_way(path: &serde_path_to_error::Path) -> bool {
    let unknown = |part: &Segment| matches!(part, Segment::Unknown);
    path.iter().next().is_some_and(|first| !unknown(first))
}

/// Whether the body says that it is JSON; an error if it says that it is something else.
fn check_content_type(headers: &HeaderMap) -> Result<bool, ApiError> {
    let Some(found) = headers.get(header::CONTENT_TYPE) else {
        return Ok(false);
    };
    let found = String::from_utf8_lossy(found.as_bytes());
    let essence = found.split(';').next().unwrap_or_default().trim();
    let json = essence.eq_ignore_ascii_case("application/json")
        || essence.to_ascii_lowercase().ends_with("+json");
    if json { Ok(true) } else { Err(ApiError::unsupported_media_type(&found)) }
}

/// Bodies come as they are: unpacking one would make of a few bytes any number of them.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut found = headers.get_all(header::CONTENT_ENCODING).iter();
    let packed = |value: &&HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    match found.find(packed) {
        Some(value) => {
            Err(ApiError::unsupported_encoding(&String::from_utf8_lossy(value.as_bytes())))
        }
        None => Ok(()),
    }
}

/// The query string.
pub(crate) struct Params(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let Query(pairs) =
            parts.extract::<Query<HashMap<String, String>>>().await.map_err(|error| {
                ApiError::invalid(format!("the query string is not valid: {error}"))
            })?;
        Ok(Self(pairs))
    }
}

impl Params {
    /// A parameter as it stands.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A whole number within bounds.
    pub(crate) fn number(
        &self,
        name: &str,
        default: u64,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        match text.parse::<u64>() {
            Ok(number) if bounds.contains(&number) => Ok(number),
            _ => {
                let (least, most) = (bounds.start(), bounds.end());
                let message =
                    format!("{name} must be a whole number from {least} to {most}, not {text:?}");
                Err(ApiError::invalid_param(name, message))
            }
        }
    }

    /// `true`, `1`, `false` or `0`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        self.flag_or(name, false)
    }

    /// The same, with what it is if it is not there.
    pub(crate) fn flag_or(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.text(name) {
            None => Ok(default),
            Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => {
                let message = format!("{name} must be true or false, not {other:?}");
                Err(ApiError::invalid_param(name, message))
            }
        }
    }

    /// A moment, by the rules of [`moment`].
    pub(crate) fn moment(&self, name: &str) -> Result<Option<wakeline_core::Timestamp>, ApiError> {
        let read = |text: &str| read_moment(text).ok_or_else(|| not_a_moment(name, text));
        let located = |error: String| ApiError::invalid_param(name, error);
        self.text(name).map(|text| read(text).map_err(located)).transpose()
    }

    /// Texts with commas between them.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let all = self.text(name).unwrap_or_default();
        all.split(',').filter(|text| !text.is_empty())
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(pairs.iter().map(own).collect())
    }

    /// A name, an id or a number that parses itself; absent if it is not there.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, ApiError>,
    ) -> Result<Option<T>, ApiError> {
        self.text(name).map(parse).transpose()
    }
}

/// The parts of the path, percent-decoded.
pub(crate) struct Parted<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequestParts<S> for Parted<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let Path(value) = parts.extract::<Path<T>>().await.map_err(|error| {
            let message = format!("the path is not valid: {}", error.body_text());
            ApiError::invalid_in("path", "", message)
        })?;
        Ok(Self(value))
    }
}

/// A moment as ISO 8601 with a zone.
pub(crate) fn timestamp(field: &str, text: &str) -> Result<wakeline_core::Timestamp, ApiError> {
    jiff::Timestamp::from_str(text)
        .map(|moment| wakeline_core::Timestamp(moment.as_microsecond()))
        .map_err(|_| {
            ApiError::invalid(format!(
                "{field} must be a time like 2026-01-31T12:00:00Z, not {text:?}"
            ))
        })
}

/// A moment as ISO 8601; without a zone it is UTC, as some clients leave it out.
pub(crate) fn moment(field: &str, text: &str) -> Result<wakeline_core::Timestamp, ApiError> {
    read_moment(text).ok_or_else(|| ApiError::invalid_field(field, not_a_moment(field, text)))
}

fn read_moment(text: &str) -> Option<wakeline_core::Timestamp> {
    let zoned = jiff::Timestamp::from_str(text).ok();
    let moment = zoned.or_else(|| {
        let plain = jiff::civil::DateTime::from_str(text).ok()?;
        jiff::tz::Offset::UTC.to_timestamp(plain).ok()
    });
    moment.map(|moment| wakeline_core::Timestamp(moment.as_microsecond()))
}

fn not_a_moment(field: &str, text: &str) -> String {
    format!("{field} must be a time like 2026-01-31T12:00:00Z, not {text:?}")
}

/// Longest word that a caller may choose freely, in bytes.
const WORD_BYTES_MAX: usize = 255;

/// Refuses what is not short, or has what databases or terminals choke on.
pub(crate) fn word(field: &str, text: &str) -> Result<(), ApiError> {
    if text.len() > WORD_BYTES_MAX || text.chars().any(char::is_control) {
        let message =
            format!("{field} must have at most {WORD_BYTES_MAX} bytes and no control characters");
        return Err(ApiError::invalid_field(field, message));
    }
    Ok(())
}

/// The key under which a request can be repeated without harm.
pub(crate) struct Repeatable(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for Repeatable {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let name = "idempotency-key";
        let wrong = |why: String| ApiError::invalid_in("header", name, why);
        let Some(value) = parts.headers.get(name).filter(|value| !value.is_empty()) else {
            return Ok(Self(None));
        };
        let text = value.to_str().map_err(|_| wrong(format!("{name} must be ASCII text")))?;
        let key = IdempotencyKey::new(text).map_err(|error| wrong(error.to_string()))?;
        Ok(Self(Some(key)))
    }
}
