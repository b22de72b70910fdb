//! The guard, which decides what addresses may be called: public ones, and those that the operator
//! allows.
//!
//! # Where it sits
//! The connector checks every address right before it connects, so that a name that resolves
//! differently each time cannot evade the check. Endpoints are also checked when they are created,
//! as far as their URL contains an address.
//!
//! # Invariants
//! * Addresses that are not known to be public are refused, so that special ranges that are
//!   introduced in the future are refused too.
//! * An address is checked in its canonical form: one that stands for an IPv4 address is checked as
//!   that IPv4 address.

mod ranges;
mod subnet;
mod url;

use std::net::IpAddr;

pub use subnet::{Subnet, SubnetError};
pub(crate) use url::{UrlTarget, host, is_https, literal, port, shown_url};

/// Why an endpoint may not be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// The URL is invalid.
    #[error("cannot be called: {0}")]
    Url(&'static str),
    /// Only HTTPS is allowed on this server.
    #[error("must begin with https://: this server calls no endpoints over plain HTTP")]
    NotHttps,
    /// The address is not public, and is not allowed by a setting.
    #[error("leads to the address {0}, which is not public: allow it with --hook-allow")]
    Address(IpAddr),
}

/// The rules for the addresses and URLs that may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// Addresses that are allowed although they are not public.
    pub allow: Vec<Subnet>,
    /// Whether plain HTTP is refused.
    pub https_only: bool,
}

impl Guard {
    /// Fails if the address must not be called.
    pub fn check_address(&self, address: IpAddr) -> Result<(), GuardError> {
        let plain = address.to_canonical();
        if ranges::is_public(plain) || self.allow.iter().any(|subnet| subnet.contains(plain)) {
            return Ok(());
        }
        Err(GuardError::Address(plain))
    }

    /// Fails if the URL must not be called, as far as this is known without resolving its host
    /// name.
    pub fn check_url(&self, url: &str) -> Result<(), GuardError> {
        self.url_target(url).map(|_| ())
    }

    /// Checks a URL like [`Guard::check_url`], and returns its parts.
    pub(crate) fn url_target(&self, url: &str) -> Result<UrlTarget, GuardError> {
        let target = UrlTarget::parse(url)?;
        if self.https_only && !target.is_https() {
            return Err(GuardError::NotHttps);
        }
        if let Some(address) = literal(target.host())? {
            self.check_address(address)?;
        }
        Ok(target)
    }
}
