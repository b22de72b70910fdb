//! Rendering of times and payloads, shared by several routes.

use serde_json::value::RawValue;
use wakeline_core::Timestamp;
use wakeline_store::StoreError;

/// Formats a timestamp as ISO 8601 in UTC with microseconds.
pub(crate) fn time(time: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(time.0) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => time.0.to_string(),
    }
}

/// Returns a stored payload as JSON. It was valid JSON when it was stored, so anything else means
/// that the row is corrupt.
pub(crate) fn payload<'a>(
    bytes: &'a [u8],
    id: &dyn std::fmt::Display,
) -> Result<&'a RawValue, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::Corrupt {
        what: "payload of message",
        id: id.to_string(),
        source: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_microseconds() {
        assert_eq!(time(Timestamp(1_700_000_000_000_001)), "2023-11-14T22:13:20.000001Z");
    }

    #[test]
    fn corrupt_payload_is_an_error_that_names_the_message() {
        let error = payload(b"{broken", &"m-1").expect_err("not JSON");
        assert_eq!(
            error.to_string(),
            "payload of message m-1 is corrupt in the store, and was left as it is: restore it \
             from a backup, or remove it (see \"Corrupt rows\" in the operation guide)"
        );
    }
}
