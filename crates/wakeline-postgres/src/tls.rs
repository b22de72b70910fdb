//! TLS to PostgreSQL, by `sslmode` and `sslrootcert` of the URL.
//!
//! # Invariants
//! * `require`, `verify-ca` and `verify-full` all check the certificate and the host name, against
//!   the file `sslrootcert` or else the public authorities. Without the check, anyone who can
//!   answer in the server's place could read the traffic.
//! * `prefer` (the default) also accepts an unencrypted connection, so it accepts any certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use wakeline_core::error_chain;
use wakeline_store::{BoxError, StoreError};

/// A parsed URL: the driver's configuration, and the TLS settings that the driver does not parse.
pub(crate) struct Target {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) tls: MakeRustlsConnect,
}

const FORM: &str =
    "is not a PostgreSQL URL: write it like postgres://USER:PASSWORD@HOST:PORT/DATABASE";

/// Parses a URL, or a list of `key=value`.
pub(crate) fn target(field: &'static str, url: &str) -> Result<Target, StoreError> {
    let invalid = |reason: String| StoreError::Invalid { field, reason };
    let (url, root_file) = take_parameter(url, "sslrootcert");
    let (url, mode) = take_parameter(&url, "sslmode");
    // The driver's message is not included because it may quote the URL with a password.
    let mut config: tokio_postgres::Config = url.parse().map_err(|_| invalid(FORM.to_owned()))?;
    let mode = mode.unwrap_or_else(|| "prefer".to_owned());
    config.ssl_mode(match mode.as_str() {
        "disable" => SslMode::Disable,
        "allow" | "prefer" => SslMode::Prefer,
        "require" | "verify-ca" | "verify-full" => SslMode::Require,
        other => {
            return Err(invalid(format!(
                "has the unknown sslmode {other:?}: use disable, allow, prefer, require, \
                 verify-ca or verify-full"
            )));
        }
    });
    let verify = config.get_ssl_mode() == SslMode::Require || root_file.is_some();
    let client = client_config(verify, root_file.as_deref()).map_err(|error| {
        let file = root_file.as_deref().unwrap_or_default();
        let why = error_chain(&*error);
        invalid(format!("names the sslrootcert {file:?}, which cannot be used: {why}"))
    })?;
    Ok(Target { config, tls: MakeRustlsConnect::new(client) })
}

/// Removes a parameter that the driver does not support from either form of a URL.
fn take_parameter(url: &str, key: &str) -> (String, Option<String>) {
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let (head, tail, separator) = match url.split_once('?') {
        Some((head, tail)) if is_url => (Some(head), tail, '&'),
        _ if is_url => return (url.to_owned(), None),
        _ => (None, url, ' '),
    };
    let mut value = None;
    let kept: Vec<&str> = tail
        .split(separator)
        .filter(|pair| match pair.split_once('=') {
            Some((name, text)) if name.trim() == key => {
                value = Some(decode_percent(text.trim().trim_matches('\'')));
                false
            }
            _ => true,
        })
        .collect();
    let tail = kept.join(&separator.to_string());
    let url = match head {
        Some(head) if tail.is_empty() => head.to_owned(),
        Some(head) => format!("{head}?{tail}"),
        None => tail,
    };
    (url, value)
}

fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn client_config(verify: bool, root_file: Option<&str>) -> Result<ClientConfig, BoxError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    if !verify {
        let verifier = Arc::new(AcceptAnyone(provider));
        return Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    match root_file {
        Some(path) => {
            for certificate in CertificateDer::pem_file_iter(path)? {
                roots.add(certificate?)?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    if roots.is_empty() {
        return Err("it contains no certificate".into());
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Accepts any certificate. Only for `sslmode=prefer`, which promises no more.
#[derive(Debug)]
struct AcceptAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssl_parameters_are_removed_from_both_forms() {
        let (url, mode) = take_parameter("postgres://u@h/d?a=1&sslmode=require&b=2", "sslmode");
        assert_eq!((url.as_str(), mode.as_deref()), ("postgres://u@h/d?a=1&b=2", Some("require")));
        let (url, file) =
            take_parameter("postgres://u@h/d?sslrootcert=%2Fa%2Fb.pem", "sslrootcert");
        assert_eq!((url.as_str(), file.as_deref()), ("postgres://u@h/d", Some("/a/b.pem")));
        let (url, mode) = take_parameter("host=h sslmode=disable user=u", "sslmode");
        assert_eq!((url.as_str(), mode.as_deref()), ("host=h user=u", Some("disable")));
    }

    #[test]
    fn errors_about_a_url_do_not_repeat_its_password() {
        let bad = ["postgres://u:s3cret@h:notaport/d", "postgres://u:s3cret@h/d?sslmode=maybe"];
        for url in bad {
            let error = target("url", url).err().expect("refused").to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_missing_root_certificate_is_refused_not_ignored() {
        assert!(target("url", "postgres://u@h/d?sslrootcert=/no/such/file.pem").is_err());
    }
}
