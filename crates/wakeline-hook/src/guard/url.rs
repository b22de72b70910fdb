//! URLs of endpoints: separating credentials, and recognizing addresses in all notations.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;

use super::GuardError;

/// A parsed URL, with its credentials separated.
#[derive(Debug, Clone)]
pub(crate) struct UrlTarget {
    /// The URL without credentials.
    pub(crate) uri: Uri,
    /// The `user:password` part of the URL as the value of an authorization header.
    pub(crate) authorization: Option<HeaderValue>,
}

impl UrlTarget {
    pub(crate) fn parse(url: &str) -> Result<Self, GuardError> {
        if url.is_empty() {
            return Err(GuardError::Url("it is missing, and must begin with http:// or https://"));
        }
        let uri: Uri = url.parse().map_err(|_| GuardError::Url("it is not a valid URL"))?;
        let known = |scheme: &Scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS;
        if !uri.scheme().is_some_and(known) {
            return Err(GuardError::Url("it must begin with http:// or https://"));
        }
        let authority = uri.authority().ok_or(GuardError::Url("it has no host"))?;
        if authority.host().is_empty() {
            return Err(GuardError::Url("it has no host"));
        }
        let Some((credentials, host)) = authority.as_str().rsplit_once('@') else {
            return Ok(Self { uri, authorization: None });
        };
        let authorization = basic(credentials);
        let host = host.parse().map_err(|_| GuardError::Url("it has no host"))?;
        let mut parts = uri.into_parts();
        parts.authority = Some(host);
        let uri = Uri::from_parts(parts).map_err(|_| GuardError::Url("it is not a valid URL"))?;
        Ok(Self { uri, authorization: Some(authorization) })
    }

    pub(crate) fn is_https(&self) -> bool {
        is_https(&self.uri)
    }

    pub(crate) fn host(&self) -> &str {
        host(&self.uri)
    }
}

/// A URL without credentials, as it may be shown and logged.
pub(crate) fn shown_url(url: &str) -> String {
    match UrlTarget::parse(url) {
        Ok(target) if target.authorization.is_some() => target.uri.to_string(),
        _ => url.to_owned(),
    }
}

/// Whether a URL uses TLS.
pub(crate) fn is_https(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

/// The host of a URL, without brackets and zone.
pub(crate) fn host(uri: &Uri) -> &str {
    let host = uri.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.split('%').next().unwrap_or(bare)
}

/// The port of a URL, explicit or the default of its scheme.
pub(crate) fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if is_https(uri) { 443 } else { 80 })
}

/// The address in a host, if it is one: in the usual notation, or in a notation that resolvers
/// accept for an IPv4 address (`2130706433`, `0x7f.1`, `0177.0.0.1`).
pub(crate) fn literal(host: &str) -> Result<Option<IpAddr>, GuardError> {
    if let Ok(address) = host.parse() {
        return Ok(Some(address));
    }
    if host.contains(':') {
        return Err(GuardError::Url("its host is not a valid address"));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or(host);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let numeric = match hex {
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|digit| digit.is_ascii_digit()),
    };
    if !numeric {
        return Ok(None);
    }
    let address = loose_v4(host).ok_or(GuardError::Url("its host is not a valid address"))?;
    Ok(Some(address.into()))
}

/// Parses one to four decimal, octal or hexadecimal numbers. The last one fills the remaining bits.
fn loose_v4(host: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, leading) = numbers.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) {
        return None;
    }
    let left = 32 - 8 * u32::try_from(leading.len()).ok()?;
    if left < 32 && *last >> left != 0 {
        return None;
    }
    let high =
        leading.iter().enumerate().map(|(index, part)| part << (24 - 8 * index)).sum::<u32>();
    Some(Ipv4Addr::from_bits(high | last))
}

fn number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hex, text.strip_prefix('0')) {
        (Some(""), _) | (None, Some("")) => Some(0),
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) => u32::from_str_radix(digits, 8).ok(),
        (None, None) => text.parse().ok().filter(|_| !text.starts_with('+')),
    }
}

/// The value of a basic authorization header with these credentials.
fn basic(credentials: &str) -> HeaderValue {
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let plain = [decode_percent(user), vec![b':'], decode_percent(password)].concat();
    let text = format!("Basic {}", STANDARD.encode(plain));
    let mut value = HeaderValue::from_str(&text).expect("base64 fits into a header");
    value.set_sensitive(true);
    value
}

fn decode_percent(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| byte == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::Guard;
    use super::*;

    #[test]
    fn loopback_is_refused_in_every_notation() {
        let guard = Guard::default();
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0X7F.1",
            "0x7f.0.0.0x1",
            "0177.0.0.1",
            "017700000001",
            "00000177.0.0.01",
            "0",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::127.0.0.1]",
            "169.254.169.254",
            "0xa9fea9fe",
            "user:pass@127.0.0.1",
            "127.0.0.1:8080",
        ] {
            let url = format!("http://{host}/hook");
            let refused = guard.check_url(&url).expect_err(&url);
            assert!(matches!(refused, GuardError::Address(_)), "{url}: {refused}");
        }
    }

    #[test]
    fn numeric_hosts_that_are_no_address_are_refused() {
        for url in [
            "http://1.2.3.4.5/",
            "http://256.256.256.256/",
            "http://4294967296/",
            "http://0x/",
            "http://1.2.3.0x1ff/",
            "http://09.1.1.1/",
            "http://foo.1/",
        ] {
            assert!(Guard::default().check_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for url in ["", "/hook", "example.com", "ftp://example.com/", "http:///x", "file:///etc"] {
            assert!(matches!(Guard::default().check_url(url), Err(GuardError::Url(_))), "{url}");
        }
        let strict = Guard { https_only: true, ..Guard::default() };
        assert_eq!(strict.check_url("http://example.com/"), Err(GuardError::NotHttps));
        assert_eq!(strict.check_url("https://example.com/"), Ok(()));
    }

    #[test]
    fn a_zone_does_not_hide_an_address() {
        let uri = "http://[fe80::1]/".parse::<Uri>().expect("a URL");
        assert_eq!(host(&uri), "fe80::1");
        assert!(Guard::default().check_url("http://[fe80::1%25eth0]/").is_err());
        assert!(Guard::default().check_url("http://[fe80::1%eth0]/").is_err());
    }

    #[test]
    fn names_and_public_and_allowed_addresses_are_accepted() {
        let guard = Guard { allow: vec!["127.0.0.0/8".parse().expect("valid")], https_only: false };
        for url in
            ["http://example.com/", "https://1.1.1.1/", "http://127.0.0.1:9/", "http://0x7f.1"]
        {
            assert_eq!(guard.check_url(url), Ok(()), "{url}");
        }
        assert!(guard.check_url("http://10.0.0.1/").is_err());
    }

    #[test]
    fn credentials_move_from_the_url_into_a_header() {
        let target =
            UrlTarget::parse("https://us%40er:p%3Ass@example.com:8443/a?b=c").expect("valid");
        assert_eq!(target.uri.to_string(), "https://example.com:8443/a?b=c");
        let expected = format!("Basic {}", STANDARD.encode("us@er:p:ss"));
        assert_eq!(target.authorization.expect("credentials"), expected);
        assert_eq!(port(&target.uri), 8443);
        assert_eq!(shown_url("https://a:b@example.com/x"), "https://example.com/x");
        assert_eq!(shown_url("https://example.com"), "https://example.com");
    }
}
