//! Protects a server that requires no credentials from requests made by web pages.
//!
//! # Where it sits
//! In `guard`, before all other checks, and only while the server is open. If the server requires
//! keys or tokens, a web page has no credentials to send and these checks are not needed.
//!
//! # Invariants
//! * A request must address this server by one of its own host names. A page that uses DNS
//!   rebinding sends a host name of its own and is refused.
//! * A request caused by a page of another origin is refused unless the settings allow the origin.
//!   Browsers send `Origin` with all requests except plain loads, and `Sec-Fetch-Site` with plain
//!   loads.
//! * Clients other than browsers send neither header; for them only the host name is checked.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};

use crate::error::ApiError;
use crate::state::HttpSettings;

/// Probes that reveal nothing. Load balancers call them under arbitrary host names.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// Refuses a request that a web page caused or may have caused. The origin of a request to a
/// `public` route is not checked, because a link to such a route does no harm.
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
    // Browsers always send a host name, so old clients that omit it need not be refused.
    for host in given.chain(target) {
        if !is_own(settings, &host) {
            return Err(ApiError::unknown_host(&host));
        }
    }
    if public { Ok(()) } else { check_origin(settings, headers) }
}

/// Whether a host, with or without a port, names this server.
fn is_own(settings: &HttpSettings, host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let known = |known: &String| known.eq_ignore_ascii_case(name);
    if name.eq_ignore_ascii_case("localhost") || settings.allowed_hosts.iter().any(known) {
        return true;
    }
    let Ok(address) = name.trim_matches(['[', ']']).parse::<IpAddr>() else { return false };
    // A server that listens on all addresses accepts any address: unlike a name, an address cannot
    // be made to point here by someone else.
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
        return if own || allowed(&origin) { Ok(()) } else { Err(ApiError::other_origin(&origin)) };
    }
    match text(header::HeaderName::from_static("sec-fetch-site")).as_deref() {
        None | Some("same-origin" | "none") => Ok(()),
        // A plain load does not name its origin.
        Some(_) if allowed("*") => Ok(()),
        Some(site) => Err(ApiError::other_origin(site)),
    }
}

/// Whether an origin is that of this server itself.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}
