//! Address ranges as written by operators: `10.0.0.0/8`, `fd00::/8`, `127.0.0.1`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::ranges::{within_v4, within_v6};

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    first: IpAddr,
    prefix: u32,
}

/// A text that is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of addresses like 10.0.0.0/8 or fd00::/8")]
pub struct SubnetError(String);

impl Subnet {
    /// Whether the range contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => within_v4(address, first, self.prefix),
            (IpAddr::V6(first), IpAddr::V6(address)) => within_v6(address, first, self.prefix),
            _ => false,
        }
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let read = || {
            let (address, prefix) = match text.split_once('/') {
                Some((address, prefix)) => (address, Some(prefix)),
                None => (text, None),
            };
            let first: IpAddr = address.trim().parse().ok()?;
            let most = if first.is_ipv4() { 32 } else { 128 };
            let prefix = match prefix {
                Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= most)?,
                None => most,
            };
            Some(Self { first, prefix })
        };
        read().ok_or_else(|| SubnetError(text.to_owned()))
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_holds_exactly_its_addresses() {
        for (subnet, address, held) in [
            ("127.0.0.0/8", "127.255.0.1", true),
            ("127.0.0.0/8", "128.0.0.1", false),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("127.0.0.0/8", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "9.9.9.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fe80::1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fc12::1", false),
        ] {
            let parsed: Subnet = subnet.parse().expect(subnet);
            let ip: IpAddr = address.parse().expect(address);
            assert_eq!(parsed.contains(ip), held, "{address} in {subnet}");
        }
    }

    #[test]
    fn invalid_subnets_are_refused() {
        for wrong in ["", "localhost", "10.0.0.0/33", "::1/129", "10.0.0.0/", "10/8", "1.2.3.4/-1"]
        {
            assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
        }
    }
}
