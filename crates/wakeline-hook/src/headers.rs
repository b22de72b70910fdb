//! Additional request headers of endpoints: which may be set, and which are shown.

use std::collections::BTreeMap;

use hyper::header::{HeaderName, HeaderValue};
use serde::Serialize;
use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_store::hook::{EndpointUpdate, UpdateOutcome};

use crate::catalog::UpdateTries;
use crate::error::HookError;
use crate::guard::UrlTarget;
use crate::service::HookService;

/// Header names in lower case, with their values.
pub(crate) type Headers = BTreeMap<String, String>;

/// The maximum number of headers of one endpoint.
const HEADERS_MAX: usize = 50;
/// The maximum length of a header's value in bytes.
const VALUE_BYTES_MAX: usize = 4096;
/// The maximum total size of an endpoint's headers in bytes: receivers refuse requests with more.
const BYTES_MAX: usize = 16 * 1024;
/// The header that is set from the credentials of a URL.
pub(crate) const AUTHORIZATION: &str = "authorization";
/// Names of headers whose values are credentials, which are never shown.
const SENSITIVE: [&str; 9] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-access-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-secret",
    "x-token",
];

/// An endpoint's headers, as they may be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EndpointHeaders {
    /// The headers that may be shown.
    pub headers: BTreeMap<String, String>,
    /// The names of the headers whose values are never shown.
    pub sensitive: Vec<String>,
}

/// Whether a header is set by this server, or belongs to HTTP itself.
pub(crate) fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let framing = ["content-type", "content-length", "host", "transfer-encoding", "connection"];
    let hop = ["keep-alive", "te", "trailer", "upgrade", "expect"];
    name.starts_with("webhook-")
        || name.starts_with("svix-")
        || framing.contains(&name.as_str())
        || hop.contains(&name.as_str())
}

/// Validates headers, and converts their names to lower case.
pub(crate) fn checked(headers: BTreeMap<String, String>) -> Result<Headers, HookError> {
    let invalid = |reason: String| HookError::invalid("headers", reason);
    if headers.len() > HEADERS_MAX {
        return Err(invalid(format!(
            "has {} entries, more than the limit of {HEADERS_MAX}",
            headers.len()
        )));
    }
    let check = |(name, value): (String, String)| {
        let known: HeaderName = name
            .parse()
            .map_err(|_| invalid(format!("has {name:?}, which is not a valid header name")))?;
        if is_ours(known.as_str()) {
            return Err(invalid(format!("must not set {known}, which the server sets")));
        }
        if HeaderValue::from_str(&value).is_err() {
            return Err(invalid(format!("has a value for {known} that is not valid in a header")));
        }
        if value.len() > VALUE_BYTES_MAX {
            let reason = format!("has a value for {known} of more than {VALUE_BYTES_MAX} bytes");
            return Err(invalid(reason));
        }
        Ok((known.as_str().to_owned(), value))
    };
    let headers: Headers = headers.into_iter().map(check).collect::<Result<_, _>>()?;
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > BYTES_MAX {
        return Err(invalid(format!(
            "has {bytes} bytes in all, more than the limit of {BYTES_MAX}"
        )));
    }
    Ok(headers)
}

/// Separates a URL into the URL to store and the authorization header for its credentials.
pub(crate) fn out_of_url(url: String) -> (String, Option<String>) {
    match UrlTarget::parse(&url) {
        Ok(UrlTarget { uri, authorization: Some(value) }) => {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (uri.to_string(), Some(text))
        }
        _ => (url, None),
    }
}

/// Validates headers, and adds the credentials of a URL.
pub(crate) fn with_credentials(
    headers: BTreeMap<String, String>,
    credentials: Option<String>,
) -> Result<Headers, HookError> {
    let mut headers = checked(headers)?;
    let Some(credentials) = credentials else { return Ok(headers) };
    if headers.contains_key(AUTHORIZATION) {
        let reason =
            "has credentials, and the header authorization is set too: use only one of them";
        return Err(HookError::invalid("url", reason));
    }
    headers.insert(AUTHORIZATION.to_owned(), credentials);
    checked(headers)
}

fn shown(headers: Headers) -> EndpointHeaders {
    let (hidden, shown): (Headers, Headers) =
        headers.into_iter().partition(|(name, _)| SENSITIVE.contains(&name.as_str()));
    EndpointHeaders { headers: shown, sensitive: hidden.into_keys().collect() }
}

impl HookService {
    /// An endpoint's headers; `None` if the endpoint does not exist.
    pub async fn headers(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<EndpointHeaders>, HookError> {
        let found = self.store().endpoint(application, endpoint).await?;
        let decrypt = |found: wakeline_store::hook::Endpoint| {
            self.encryption().decrypt_headers(found.id, &found.headers).map(shown)
        };
        found.map(decrypt).transpose()
    }

    /// Replaces an endpoint's headers. Returns false if the endpoint does not exist.
    pub async fn set_headers(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        headers: BTreeMap<String, String>,
    ) -> Result<bool, HookError> {
        let headers = checked(headers)?;
        let Some(found) = self.store().endpoint(application, endpoint).await? else {
            return Ok(false);
        };
        // The replaced headers are not decrypted, because their encryption key may be gone.
        let encrypted = self.encryption().encrypt_headers(found.id, &headers)?;
        let update = EndpointUpdate { headers: Some(encrypted), ..EndpointUpdate::default() };
        let updated = self.store_update(application, &found, update).await?;
        Ok(matches!(updated, UpdateOutcome::Updated(_)))
    }

    /// Sets some of an endpoint's headers, and removes those without a value. Returns false if the
    /// endpoint does not exist.
    pub async fn patch_headers(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        patch: BTreeMap<String, Option<String>>,
    ) -> Result<bool, HookError> {
        let (set, gone): (Vec<_>, Vec<_>) =
            patch.into_iter().partition(|(_, value)| value.is_some());
        let set = set.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let set = checked(set)?;
        let mut tries = UpdateTries::default();
        loop {
            let Some(found) = self.store().endpoint(application, endpoint).await? else {
                return Ok(false);
            };
            let mut headers = self.encryption().decrypt_headers(found.id, &found.headers)?;
            for (name, _) in &gone {
                headers.remove(&name.to_ascii_lowercase());
            }
            headers.extend(set.clone());
            let encrypted = self.encryption().encrypt_headers(found.id, &checked(headers)?)?;
            let update = EndpointUpdate {
                expected_version: Some(found.version),
                headers: Some(encrypted),
                ..EndpointUpdate::default()
            };
            match self.store_update(application, &found, update).await? {
                UpdateOutcome::Stale => tries.again().await?,
                outcome => return Ok(matches!(outcome, UpdateOutcome::Updated(_))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn headers_that_cannot_be_sent_or_frame_a_request_cannot_be_set() {
        for name in ["Webhook-Id", "svix-signature", "Content-Type", "HOST", "content-length", "TE"]
        {
            assert!(checked(one(name, "x")).is_err(), "{name}");
        }
        for (name, value) in [("a b", "x"), ("", "x"), ("x-y", "a\nb"), ("x-y", "a\0")] {
            assert!(checked(one(name, value)).is_err(), "{name}: {value}");
        }
        let long = "x".repeat(VALUE_BYTES_MAX);
        assert!(checked(one("x-y", &long)).is_ok());
        assert!(checked(one("x-y", &format!("{long}x"))).is_err());
        let many = (0..4).map(|n| (format!("x-{n}"), long.clone())).collect();
        assert!(checked(many).is_err(), "all together have a limit too");
        let fine = checked(one("X-Team", "blue")).expect("allowed");
        assert_eq!(fine, one("x-team", "blue"));
    }

    #[test]
    fn credentials_are_named_but_not_shown() {
        let mut headers = one("x-team", "blue");
        headers.insert("authorization".to_owned(), "Bearer secret".to_owned());
        let shown = shown(headers);
        assert_eq!(shown.headers, one("x-team", "blue"));
        assert_eq!(shown.sensitive, ["authorization"]);
    }
}
