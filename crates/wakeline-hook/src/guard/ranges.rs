//! The ranges of addresses that are not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 ranges that lead to this machine, to its network, or nowhere, as first address and prefix
/// length.
pub(super) const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carriers' NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, and clouds' metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // relays to IPv6
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// The parts of the global unicast range of IPv6 (2000::/3) that are not public.
pub(super) const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo among them
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// The global unicast range of IPv6; addresses outside of it are not public.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// The NAT64 range, whose addresses are translated to the IPv4 address in their last 32 bits.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address in canonical form is public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) if within_v6(address, NAT64.0, NAT64.1) => {
            let [.., a, b, c, d] = address.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => {
            within_v6(address, GLOBAL_V6.0, GLOBAL_V6.1)
                && !SPECIAL_V6.iter().any(|(first, prefix)| within_v6(address, *first, *prefix))
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(first, prefix)| within_v4(address, *first, *prefix))
}

pub(super) fn within_v4(address: Ipv4Addr, first: Ipv4Addr, prefix: u32) -> bool {
    let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
    address.to_bits() & mask == first.to_bits() & mask
}

pub(super) fn within_v6(address: Ipv6Addr, first: Ipv6Addr, prefix: u32) -> bool {
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    address.to_bits() & mask == first.to_bits() & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse::<IpAddr>().expect(text).to_canonical())
    }

    #[test]
    fn the_first_and_last_address_of_every_special_range_are_refused() {
        for (first, prefix) in SPECIAL_V4 {
            let last = Ipv4Addr::from_bits(first.to_bits() | (u32::MAX >> prefix));
            let mapped = last.to_ipv6_mapped().to_string();
            for address in [first.to_string(), last.to_string(), mapped] {
                assert!(!public(&address), "{address}");
            }
            let [a, b, c, d] = last.octets();
            let translated = format!("64:ff9b::{a:x}{b:02x}:{c:x}{d:02x}");
            assert!(!public(&translated), "{translated}");
        }
        for (first, prefix) in SPECIAL_V6 {
            let last = Ipv6Addr::from_bits(first.to_bits() | (u128::MAX >> prefix));
            assert!(!public(&first.to_string()) && !public(&last.to_string()), "{first}");
        }
    }

    #[test]
    fn internal_addresses_are_refused_in_every_form() {
        for inside in [
            "::",
            "::1",
            "::7f00:1",
            "::a9fe:a9fe",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "1::1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "8000::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "255.255.255.255",
            "100.100.100.200",
        ] {
            assert!(!public(inside), "{inside}");
        }
    }

    #[test]
    fn neighbours_of_special_ranges_are_public() {
        for outside in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.88.98.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2606:4700::1111",
            "3fff:1000::",
            "64:ff9b::101:101",
            "::ffff:8.8.8.8",
        ] {
            assert!(public(outside), "{outside}");
        }
    }

    proptest::proptest! {
        #[test]
        fn an_address_that_stands_for_an_ipv4_address_is_checked_as_that(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            let judged = is_public(plain.into());
            let mapped = IpAddr::V6(plain.to_ipv6_mapped()).to_canonical();
            proptest::prop_assert_eq!(is_public(mapped), judged);
            let translated = Ipv6Addr::from_bits(NAT64.0.to_bits() | u128::from(bits));
            proptest::prop_assert_eq!(is_public(translated.into()), judged);
            let compatible = Ipv6Addr::from_bits(u128::from(bits));
            proptest::prop_assert!(!is_public(compatible.into()));
        }
    }
}
