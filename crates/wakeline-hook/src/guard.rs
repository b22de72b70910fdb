//! Which addresses may be called: everything public, and what the operator allows.
//!
//! # Where it sits
//! The connector asks for every address that it is about to dial, so that a name which answers
//! differently each time gains nothing. Endpoints are also checked when they are made, as far as
//! their URL shows something.
//!
//! # Invariants
//! * What is not known to be public is refused: new special ranges are refused before we learn
//!   of them.
//! * An address is judged in its plainest form: one that stands for an IPv4 address, as that.

mod ranges;
mod subnet;
mod url;

use std::net::IpAddr;

pub use subnet::{Subnet, SubnetError};
pub(crate) use url::{Place, host, is_https, literal, port, shown_url};

/// Why an endpoint may not be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// The URL cannot be understood.
    #[error("cannot be called: {0}")]
    Url(&'static str),
    /// Only HTTPS is allowed here.
    #[error("must begin with https://: this server calls no endpoints over plain HTTP")]
    NotHttps,
    /// The address is not public, and not allowed by a setting.
    #[error("leads to the address {0}, which is not public: --hook-allow allows further addresses")]
    Address(IpAddr),
}

/// The rules for what may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// Addresses that are allowed although they are not public.
    pub allow: Vec<Subnet>,
    /// Whether plain HTTP is refused.
    pub https_only: bool,
}

impl Guard {
    /// Judges an address that is about to be dialled.
    pub fn check_address(&self, address: IpAddr) -> Result<(), GuardError> {
        let plain = address.to_canonical();
        if ranges::is_public(plain) || self.allow.iter().any(|subnet| subnet.contains(plain)) {
            return Ok(());
        }
        Err(GuardError::Address(plain))
    }

    /// Judges what can be seen of a URL without looking its name up.
    pub fn check_url(&self, url: &str) -> Result<(), GuardError> {
        self.place(url).map(|_| ())
    }

    /// As [`Guard::check_url`]; returns what is to be called.
    pub(crate) fn place(&self, url: &str) -> Result<Place, GuardError> {
        let place = Place::parse(url)?;
        if self.https_only && !place.is_https() {
            return Err(GuardError::NotHttps);
        }
        if let Some(address) = literal(place.host())? {
            self.check_address(address)?;
        }
        Ok(place)
    }
}
