//! Values of users, stored as the JSON text in which they arrived.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value that is passed on without being parsed. Two values are equal if they have the same
/// meaning, whatever the order of their keys.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Encodes a value as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Wraps a JSON text. Fails if it is not valid JSON.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// Returns the JSON value `null`.
    pub fn null() -> Self {
        Self::of(&()).expect("null is JSON")
    }

    /// Decodes the value into a type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        let value = |json: &Self| serde_json::from_str::<serde_json::Value>(json.as_str()).ok();
        self.as_str() == other.as_str() || (value(self).is_some() && value(self) == value(other))
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_meaning() {
        let json = |text: &str| Json::parse(text.to_owned()).expect("JSON");
        assert_eq!(json(r#"{"a":1,"b":[2]}"#), json(r#"{ "b": [2], "a": 1 }"#));
        assert_ne!(json("1"), json("2"));
        assert_eq!(Json::null().as_str(), "null");
    }
}
