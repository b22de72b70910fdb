//! Extractors for bodies, query parameters, path parameters and headers. Their errors name the
//! field or parameter that is wrong.

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

/// A JSON request body within the limits of size and time, with the schema of its route.
pub(crate) struct JsonBody(pub(crate) Bytes, Option<&'static strict::RouteSchema>);

impl FromRequest<AppState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let route = request.extensions().get::<MatchedPath>();
        let schema = route.and_then(|route| strict::find(request.method(), route.as_str()));
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
                // A web page may send a body without a content-type to any server without a
                // preflight request, so such a body is refused.
                if typed || body.is_empty() {
                    Ok(Self(body, schema))
                } else {
                    Err(ApiError::unsupported_media_type(""))
                }
            }
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                Err(ApiError::payload_too_large(limit))
            }
            Err(error) => Err(ApiError::invalid(format!("the request body ended early: {error}"))),
        }
    }
}

impl JsonBody {
    /// Parses the body. The error names the field or the position.
    pub(crate) fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        if self.0.is_empty() {
            return Err(ApiError::invalid("the request has no body: send a JSON object"));
        }
        self.1.map_or(Ok(()), |schema| schema.check_body(&self.0))?;
        // The plain parser is faster, so the parser that tracks the path only explains errors.
        serde_json::from_slice(&self.0).map_err(|plain| {
            let mut parser = serde_json::Deserializer::from_slice(&self.0);
            match serde_path_to_error::deserialize::<_, T>(&mut parser) {
                Err(error) if has_location(error.path()) => {
                    explain::explain(&error.path().to_string(), error.inner())
                }
                _ => explain::explain("", &plain),
            }
        })
    }

    /// Parses the body, or returns the default if there is none. `[]` counts as an empty body,
    /// because PHP encodes an empty object that way.
    pub(crate) fn parse_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        match self.0.trim_ascii() {
            b"" | b"[]" => Ok(T::default()),
            _ => self.parse(),
        }
    }
}

/// Whether the path of a parse error names a location, which it may not do for malformed JSON.
fn has_location(path: &serde_path_to_error::Path) -> bool {
    let unknown = |part: &Segment| matches!(part, Segment::Unknown);
    path.iter().next().is_some_and(|first| !unknown(first))
}

/// Returns whether the content-type is JSON, or an error if it is something else.
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

/// Refuses compressed bodies: a few bytes could decompress to any number of bytes.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut found = headers.get_all(header::CONTENT_ENCODING).iter();
    let compressed = |value: &&HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    match found.find(compressed) {
        Some(value) => {
            Err(ApiError::unsupported_encoding(&String::from_utf8_lossy(value.as_bytes())))
        }
        None => Ok(()),
    }
}

/// The query parameters of a request.
pub(crate) struct QueryParams(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let Query(pairs) =
            parts.extract::<Query<HashMap<String, String>>>().await.map_err(|error| {
                ApiError::invalid(format!("the query string is not valid: {error}"))
            })?;
        Ok(Self(pairs))
    }
}

impl QueryParams {
    /// The value of a parameter, unparsed.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Parses a whole number within bounds; `default` if the parameter is missing.
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

    /// Parses `true`, `1`, `false` or `0`; false if the parameter is missing.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        self.flag_or(name, false)
    }

    /// Like [`flag`](Self::flag), with a default of the caller's choice.
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

    /// Parses a timestamp by the rules of [`lenient_timestamp`].
    pub(crate) fn timestamp(
        &self,
        name: &str,
    ) -> Result<Option<wakeline_core::Timestamp>, ApiError> {
        let read = |text: &str| read_timestamp(text).ok_or_else(|| not_a_timestamp(name, text));
        let located = |error: String| ApiError::invalid_param(name, error);
        self.text(name).map(|text| read(text).map_err(located)).transpose()
    }

    /// Splits a comma-separated list and drops empty items.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let all = self.text(name).unwrap_or_default();
        all.split(',').filter(|text| !text.is_empty())
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(pairs.iter().map(own).collect())
    }

    /// Parses a parameter with `parse`; `None` if the parameter is missing.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, ApiError>,
    ) -> Result<Option<T>, ApiError> {
        self.text(name).map(parse).transpose()
    }
}

/// The path parameters of a request, percent-decoded.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let Path(value) = parts.extract::<Path<T>>().await.map_err(|error| {
            let message = format!("the path is not valid: {}", error.body_text());
            ApiError::invalid_in("path", "", message)
        })?;
        Ok(Self(value))
    }
}

/// Parses an ISO 8601 timestamp with a time zone.
pub(crate) fn timestamp(field: &str, text: &str) -> Result<wakeline_core::Timestamp, ApiError> {
    jiff::Timestamp::from_str(text)
        .map(|parsed| wakeline_core::Timestamp(parsed.as_microsecond()))
        .map_err(|_| {
            ApiError::invalid(format!(
                "{field} must be a time like 2026-01-31T12:00:00Z, not {text:?}"
            ))
        })
}

/// Parses an ISO 8601 timestamp. Some clients omit the time zone; it then defaults to UTC.
pub(crate) fn lenient_timestamp(
    field: &str,
    text: &str,
) -> Result<wakeline_core::Timestamp, ApiError> {
    read_timestamp(text).ok_or_else(|| ApiError::invalid_field(field, not_a_timestamp(field, text)))
}

fn read_timestamp(text: &str) -> Option<wakeline_core::Timestamp> {
    let zoned = jiff::Timestamp::from_str(text).ok();
    let parsed = zoned.or_else(|| {
        let local = jiff::civil::DateTime::from_str(text).ok()?;
        jiff::tz::Offset::UTC.to_timestamp(local).ok()
    });
    parsed.map(|parsed| wakeline_core::Timestamp(parsed.as_microsecond()))
}

fn not_a_timestamp(field: &str, text: &str) -> String {
    format!("{field} must be a time like 2026-01-31T12:00:00Z, not {text:?}")
}

/// Maximum length in bytes of a short text that the caller chooses freely.
const SHORT_TEXT_BYTES_MAX: usize = 255;

/// Refuses a text that is too long, or that contains control characters, which databases and
/// terminals may not accept.
pub(crate) fn check_short_text(field: &str, text: &str) -> Result<(), ApiError> {
    if text.len() > SHORT_TEXT_BYTES_MAX || text.chars().any(char::is_control) {
        let message = format!(
            "{field} must have at most {SHORT_TEXT_BYTES_MAX} bytes and no control characters"
        );
        return Err(ApiError::invalid_field(field, message));
    }
    Ok(())
}

/// The `idempotency-key` header, which makes a request safe to retry.
pub(crate) struct IdempotencyHeader(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyHeader {
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
