//! Settings of authentication, TLS, CORS and the retention of audit events: `[access]` in the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use wakeline_access::{AccessOptions, JwtAlgorithm, JwtKeys, JwtOptions};
use wakeline_http::TlsFiles;

use super::{UsageError, file};

/// Access settings from flags, environment variables or the configuration file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AccessArgs {
    /// Accepted JWT algorithms: HS256, RS256, ES256, EdDSA; can be repeated
    #[arg(long, env = "WAKELINE_JWT_ALGORITHMS", value_name = "ALGORITHM", value_delimiter = ',')]
    jwt_algorithms: Option<Vec<String>>,
    /// Secret of JWTs signed with HS256. It is not a flag, because flags show in process lists
    #[arg(skip)]
    #[serde(deserialize_with = "file::secret")]
    pub(super) jwt_secret: Option<String>,
    /// PEM file with the public key that verifies JWTs
    #[arg(long, env = "WAKELINE_JWT_PUBLIC_KEY_FILE", value_name = "PATH")]
    jwt_public_key_file: Option<PathBuf>,
    /// URL of the key set (JWKS) that verifies JWTs
    #[arg(long, env = "WAKELINE_JWKS_URL", value_name = "URL")]
    jwks_url: Option<String>,
    /// File with the key set (JWKS) that verifies JWTs
    #[arg(long, env = "WAKELINE_JWKS_FILE", value_name = "PATH")]
    jwks_file: Option<PathBuf>,
    /// Accepted JWT issuer
    #[arg(long, env = "WAKELINE_JWT_ISSUER", value_name = "TEXT")]
    jwt_issuer: Option<String>,
    /// Accepted JWT audience; can be repeated
    #[arg(long, env = "WAKELINE_JWT_AUDIENCE", value_name = "TEXT", value_delimiter = ',')]
    jwt_audience: Option<Vec<String>>,
    /// Maximum difference between the clocks of the JWT issuer and of this server [default: 60]
    #[arg(long, env = "WAKELINE_JWT_LEEWAY_SECS", value_name = "SECONDS")]
    jwt_leeway_secs: Option<u64>,
    /// Number of days for which audit events are kept; 0: indefinitely [default: 400]
    #[arg(long, env = "WAKELINE_AUDIT_RETENTION_DAYS", value_name = "DAYS")]
    audit_retention_days: Option<u64>,
    /// Origins that may call the server from browsers; can be repeated
    #[arg(long, env = "WAKELINE_CORS_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    cors_origin: Option<Vec<String>>,
    /// Host names that clients may use to call a server without authentication, in addition to its
    /// addresses; can be repeated
    #[arg(long, env = "WAKELINE_ALLOWED_HOST", value_name = "HOST", value_delimiter = ',')]
    #[serde(rename = "allowed_hosts")]
    allowed_host: Option<Vec<String>>,
    /// File with the server's certificate chain, as PEM
    #[arg(long, env = "WAKELINE_TLS_CERT_FILE", value_name = "PATH")]
    tls_cert_file: Option<PathBuf>,
    /// File with the certificate's private key, as PEM
    #[arg(long, env = "WAKELINE_TLS_KEY_FILE", value_name = "PATH")]
    tls_key_file: Option<PathBuf>,
}

/// The access settings that the server uses: those that were given, and defaults for the others.
#[derive(Debug, Clone)]
pub(crate) struct AccessSettings {
    pub(crate) options: AccessOptions,
    pub(crate) cors_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) tls: Option<TlsFiles>,
}

impl AccessArgs {
    /// Combines these settings with those of the file and the defaults.
    pub(super) fn resolve(
        &self,
        file: &Self,
        api_key: Option<String>,
    ) -> Result<AccessSettings, UsageError> {
        let days = pick!(self, file, audit_retention_days).unwrap_or(400);
        let audit_retention = (days > 0).then(|| Duration::from_secs(days.saturating_mul(86_400)));
        let jwt = self.jwt(file)?;
        let cors_origins = pick!(self, file, cors_origin).unwrap_or_default();
        if let Some(origin) = cors_origins.iter().find(|origin| !is_origin(origin)) {
            let text =
                format!("cors_origin: {origin:?} is not an origin like https://app.example.org");
            return Err(UsageError(text));
        }
        let allowed_hosts = pick!(self, file, allowed_host).unwrap_or_default();
        if let Some(host) = allowed_hosts.iter().find(|host| !is_host(host)) {
            let text = format!(
                "allowed_hosts: {host:?} is not a host name like queue.internal, without a port"
            );
            return Err(UsageError(text));
        }
        Ok(AccessSettings {
            options: AccessOptions { api_key, jwt, audit_retention },
            cors_origins,
            allowed_hosts,
            tls: self.tls(file)?,
        })
    }

    fn tls(&self, file: &Self) -> Result<Option<TlsFiles>, UsageError> {
        let files = (pick!(self, file, tls_cert_file), pick!(self, file, tls_key_file));
        match files {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
            (Some(_), None) => Err(UsageError(
                "tls_cert_file is set, but tls_key_file is not: set both, or neither".to_owned(),
            )),
            (None, Some(_)) => Err(UsageError(
                "tls_key_file is set, but tls_cert_file is not: set both, or neither".to_owned(),
            )),
        }
    }

    fn jwt(&self, file: &Self) -> Result<Option<JwtOptions>, UsageError> {
        let names = pick!(self, file, jwt_algorithms).unwrap_or_default();
        let algorithms =
            names.iter().map(|name| parse_algorithm(name)).collect::<Result<Vec<_>, _>>()?;
        let Some(keys) = self.jwt_keys(file)? else {
            let text = "jwt_algorithms is set, but there is no key to verify tokens with: set \
                        WAKELINE_JWT_SECRET, jwt_public_key_file, jwks_url or jwks_file";
            return if names.is_empty() { Ok(None) } else { Err(UsageError(text.to_owned())) };
        };
        let options = JwtOptions {
            algorithms,
            keys,
            issuer: pick!(self, file, jwt_issuer),
            audience: pick!(self, file, jwt_audience).unwrap_or_default(),
            leeway: Duration::from_secs(pick!(self, file, jwt_leeway_secs).unwrap_or(60)),
        };
        options.check().map_err(|error| UsageError(format!("jwt: {error}")))?;
        Ok(Some(options))
    }

    /// Returns the source of the keys that verify tokens. Flags and environment variables take
    /// precedence over the file.
    fn jwt_keys(&self, file: &Self) -> Result<Option<JwtKeys>, UsageError> {
        for args in [self, file] {
            let mut found = Vec::new();
            found.extend(args.jwt_secret.clone().map(|text| JwtKeys::Secret(text.into_bytes())));
            if let Some(path) = &args.jwt_public_key_file {
                found.push(JwtKeys::Pem(read("jwt_public_key_file", path)?));
            }
            if let Some(path) = &args.jwks_file {
                // The server reads the file itself, later and repeatedly. This only refuses a file
                // that cannot be read.
                read("jwks_file", path)?;
                found.push(JwtKeys::File(path.clone()));
            }
            found.extend(args.jwks_url.clone().map(JwtKeys::Url));
            match found.len() {
                0 => {}
                1 => return Ok(found.pop()),
                _ => {
                    let text = "jwt: set only one of jwt_secret, jwt_public_key_file, jwks_file \
                                and jwks_url";
                    return Err(UsageError(text.to_owned()));
                }
            }
        }
        Ok(None)
    }
}

/// The supported algorithms, as error messages list them.
const ALGORITHMS: &str = "HS256, RS256, ES256, EdDSA";

fn parse_algorithm(name: &str) -> Result<JwtAlgorithm, UsageError> {
    JwtAlgorithm::named(name).ok_or_else(|| {
        UsageError(format!("jwt_algorithms: {name:?} is not supported: use one of {ALGORITHMS}"))
    })
}

/// Reads the file that a setting names.
fn read(setting: &str, path: &Path) -> Result<Vec<u8>, UsageError> {
    std::fs::read(path)
        .map_err(|error| UsageError(format!("{setting}: cannot read {}: {error}", path.display())))
}

/// Whether the text is a scheme and a host, or `*` for all origins.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return text == "*" };
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    ["http", "https"].contains(&scheme) && !host.is_empty() && host.chars().all(allowed)
}

/// Whether the text is a host name or an address, without a port.
fn is_host(text: &str) -> bool {
    let in_brackets = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match in_brackets {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !text.is_empty() && text.chars().all(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(args: AccessArgs) -> Result<AccessSettings, String> {
        args.resolve(&AccessArgs::default(), None).map_err(|error| error.to_string())
    }

    fn texts(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn defaults_are_no_tokens_no_other_origins_and_no_tls() {
        let settings = resolve(AccessArgs::default()).expect("valid");
        assert!(settings.options.jwt.is_none() && settings.cors_origins.is_empty());
        assert!(settings.tls.is_none());
        let retention = settings.options.audit_retention;
        assert_eq!(retention, Some(Duration::from_secs(400 * 86_400)));
    }

    #[test]
    fn tokens_need_keys_that_match_their_algorithms() {
        let secret = Some("s".repeat(32));
        let hs256 = AccessArgs {
            jwt_algorithms: texts(&["HS256"]),
            jwt_secret: secret.clone(),
            ..AccessArgs::default()
        };
        assert!(resolve(hs256.clone()).expect("valid").options.jwt.is_some());
        let url = Some("https://id.example.org/jwks.json".to_owned());
        let key_set = AccessArgs {
            jwt_algorithms: texts(&["RS256", "ES256", "EdDSA"]),
            jwks_url: url.clone(),
            ..AccessArgs::default()
        };
        assert!(resolve(key_set.clone()).is_ok());
        for (args, named) in [
            (AccessArgs { jwt_algorithms: None, ..hs256.clone() }, "algorithms"),
            (AccessArgs { jwt_algorithms: texts(&["none"]), ..hs256.clone() }, "none"),
            (AccessArgs { jwt_algorithms: texts(&["HS256", "RS256"]), ..hs256.clone() }, "HS256"),
            (AccessArgs { jwt_secret: Some("short".into()), ..hs256.clone() }, "32"),
            (AccessArgs { jwt_algorithms: texts(&["HS256"]), ..key_set.clone() }, "HS256"),
            (
                AccessArgs { jwks_url: Some("http://x.example/k".into()), ..key_set.clone() },
                "https",
            ),
            (AccessArgs { jwt_secret: secret, ..key_set }, "only one of"),
            (AccessArgs { jwt_secret: None, ..hs256.clone() }, "WAKELINE_JWT_SECRET"),
            (
                AccessArgs { jwt_secret: None, jwt_algorithms: texts(&["HS512"]), ..hs256 },
                "\"HS512\" is not supported",
            ),
        ] {
            let error = resolve(args).expect_err(named);
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn origins_and_tls_files_are_checked() {
        for valid in ["https://app.example.org", "http://localhost:3000", "*"] {
            let args = AccessArgs { cors_origin: texts(&[valid]), ..AccessArgs::default() };
            assert!(resolve(args).is_ok(), "{valid}");
        }
        for wrong in ["app.example.org", "https://x/path", "ftp://x", "https://", "null"] {
            let args = AccessArgs { cors_origin: texts(&[wrong]), ..AccessArgs::default() };
            assert!(resolve(args).is_err(), "{wrong}");
        }
        for (host, valid) in [
            ("queue.internal", true),
            ("10.0.0.5", true),
            ("[fe80::1]", true),
            ("queue.internal:7632", false),
            ("http://queue.internal", false),
            ("*", false),
            ("", false),
        ] {
            let args = AccessArgs { allowed_host: texts(&[host]), ..AccessArgs::default() };
            assert_eq!(resolve(args).is_ok(), valid, "{host}");
        }
        let without_key = AccessArgs { tls_cert_file: Some("/c".into()), ..AccessArgs::default() };
        assert!(resolve(without_key).is_err());
    }
}
