//! Keeps web pages from driving a server that asks for no credentials.
//!
//! # Where it sits
//! In the guard, before anything else, and only while the server is open. With keys or tokens a
//! page has nothing to send, and none of this is needed.
//!
//! # Invariants
//! * A request names this server by one of its own names. A page whose name was made to point here
//!   (DNS rebinding) names its own, and is refused.
//! * A request that a page of another origin caused is refused, unless the settings allow the
//!   origin: browsers send `Origin` with all but plain loads, and `Sec-Fetch-Site` with those.
//! * What is no browser sends neither header, and only the name matters.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};

use crate::error::ApiError;
use crate::state::HttpSettings;

/// Probes that say nothing but yes or no: load balancers call them by any name.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// Refuses a request that a web page caused, or may have caused. `public` are routes that everybody
/// may call in any case: there a page that links to them is no danger.
pub(crate) fn check(
    settings: &HttpSettings,
    request: &Request,
    public: bool,
) -> Result<(), ApiError> {
    if PROBES.contains(&request.uri().path()) {
        return Ok(());
    }
    let headers = request.headers();
    let given = headers.get_all(header::HOST).iter();
    let given = given.map(|host| String::from_utf8_lossy(host.as_bytes()));
    let target = request.uri().authority().map(|target| target.as_str().into());
    // No browser leaves the name out, so nothing is gained by refusing old clients that do.
    for host in given.chain(target) {
        if !is_own(settings, &host) {
            return Err(ApiError::unknown_host(&host));
        }
    }
    if public { Ok(()) } else { check_origin(settings, headers) }
}

/// Whether a host, with or without a port, is this server.
fn is_own(settings: &HttpSettings, host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let known = |known: &String| known.eq_ignore_ascii_case(name);
    if name.eq_ignore_ascii_case("localhost") || settings.allowed_hosts.iter().any(known) {
        return true;
    }
    let Ok(address) = name.trim_matches(['[', ']']).parse::<IpAddr>() else { return false };
    // One that listens on all addresses cannot list them. An address is no name that someone
    // else could have made to point here.
    let listen = settings.listen.is_some_and(|own| own == address || own.is_unspecified());
    address.is_loopback() || listen
}

fn check_origin(settings: &HttpSettings, headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let allowed = |origin: &str| {
        settings.cors_origins.iter().any(|known| known == "*" || known.as_str() == origin)
    };
    if let Some(origin) = text(header::ORIGIN) {
        let own = text(header::HOST).is_some_and(|host| is_origin_of(&origin, &host));
        return match own || allowed(&origin) {
            true => Ok(()),
            false => Err(ApiError::foreign_origin(&origin)),
        };
    }
    match text(header::HeaderName::from_static("sec-fetch-site")).as_deref() {
        None | Some("same-origin" | "none") => Ok(()),
        // Such a load does not say which page it is for.
        Some(_) if allowed("*") => Ok(()),
        Some(site) => Err(ApiError::foreign_origin(site)),
    }
}

/// Whether an origin is the page of this very server.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}
