//! JSON web tokens: verifies their signature, and reads their subject and permissions.
//!
//! # Invariants
//! * The operator chooses the algorithms. A token's header only selects one of them, and a key
//!   verifies only signatures of its own family: a public key never serves as an HMAC secret.
//! * A token without an expiry time (`exp`) is refused.

mod fetch;
mod keys;
mod provider;

use std::path::PathBuf;
use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::Deserialize;
use wakeline_core::{Scope, Scopes, Verb, error_chain};

use crate::caller::Caller;
use keys::KeySet;

/// The algorithms with which tokens may be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl JwtAlgorithm {
    /// Returns the algorithm with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }

    fn wire(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// The source of the keys with which tokens are verified.
#[derive(Clone)]
pub enum JwtKeys {
    /// A shared secret, for HS256.
    Secret(Vec<u8>),
    /// A public key in PEM format.
    Pem(Vec<u8>),
    /// A key set in a file, read again when the file has changed.
    File(PathBuf),
    /// A key set at a URL, fetched when it is needed.
    Url(String),
}

impl std::fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("Secret(..)"),
            Self::Pem(_) => f.write_str("Pem(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Url(url) => f.debug_tuple("Url").field(url).finish(),
        }
    }
}

/// The settings that determine which tokens are accepted.
#[derive(Debug, Clone)]
pub struct JwtOptions {
    /// The algorithms with which they may be signed.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The keys with which they are verified.
    pub keys: JwtKeys,
    /// The required issuer, if any.
    pub issuer: Option<String>,
    /// The audiences, one of which is required if there are any.
    pub audience: Vec<String>,
    /// The maximum difference between clocks.
    pub leeway: Duration,
}

/// The reason why settings are invalid, or a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JwtError(pub &'static str);

impl JwtOptions {
    /// Checks whether the algorithms fit the keys.
    pub fn check(&self) -> Result<(), JwtError> {
        let symmetric = self.algorithms.contains(&JwtAlgorithm::Hs256);
        match &self.keys {
            _ if self.algorithms.is_empty() => Err(JwtError(
                "jwt_algorithms must name at least one of HS256, RS256, ES256 and EdDSA",
            )),
            JwtKeys::Secret(_) if self.algorithms != [JwtAlgorithm::Hs256] => Err(JwtError(
                "a secret verifies HS256 only: set jwt_algorithms to HS256, or use a public key",
            )),
            JwtKeys::Secret(secret) if secret.len() < 32 => Err(JwtError(
                "the secret of tokens must have at least 32 bytes: set a longer \
                 WAKELINE_JWT_SECRET",
            )),
            JwtKeys::Secret(_) => Ok(()),
            _ if symmetric => Err(JwtError(
                "HS256 needs a secret, not a public key: set WAKELINE_JWT_SECRET, or other \
                 algorithms",
            )),
            JwtKeys::Pem(pem) => keys::from_pem(pem).map(|_| ()),
            JwtKeys::Url(url) => fetch::check(url),
            JwtKeys::File(_) => Ok(()),
        }
    }
}

/// Verifies tokens.
pub(crate) struct Jwt {
    algorithms: Vec<Algorithm>,
    keys: KeySet,
    /// The validation rules, except for the algorithm.
    validation: Validation,
}

impl Jwt {
    pub(crate) fn new(options: JwtOptions) -> Self {
        provider::install();
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = options.leeway.as_secs();
        validation.validate_nbf = true;
        validation.validate_aud = !options.audience.is_empty();
        let mut required = vec!["exp"];
        if validation.validate_aud {
            validation.set_audience(&options.audience);
            required.push("aud");
        }
        if let Some(issuer) = &options.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        let algorithms = options.algorithms.iter().map(|one| one.wire()).collect();
        Self { algorithms, keys: KeySet::new(options.keys), validation }
    }

    /// Verifies a token, and returns its caller.
    pub(crate) async fn verify(&self, token: &str) -> Result<Caller, JwtError> {
        let header =
            decode_header(token).map_err(|_| JwtError("the credentials are not a token"))?;
        if !self.algorithms.contains(&header.alg) {
            return Err(JwtError("the algorithm of the token is not in jwt_algorithms"));
        }
        if header.crit.is_some() {
            return Err(JwtError("the token has critical headers, which are not supported"));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await;
        let key = key.ok_or(JwtError("the token is signed with a key that is not known here"))?;
        let validation = Validation { algorithms: vec![header.alg], ..self.validation.clone() };
        let claims = decode::<JwtClaims>(token, &key, &validation).map_err(|error| {
            tracing::debug!(error = error_chain(&error), "a token was refused");
            // The signature is verified first: a caller that receives one of the other reasons has
            // a token that was signed with a known key.
            JwtError(match error.kind() {
                ErrorKind::ExpiredSignature => "the token has expired",
                ErrorKind::ImmatureSignature => "the token is not valid yet",
                ErrorKind::InvalidIssuer => "the issuer of the token is not jwt_issuer",
                ErrorKind::InvalidAudience => "the audience of the token is not in jwt_audience",
                ErrorKind::MissingRequiredClaim(_) => "the token lacks a claim (exp, iss or aud)",
                ErrorKind::InvalidSignature => "the signature of the token is not valid",
                _ => "the token is not valid",
            })
        })?;
        claims.claims.caller()
    }
}

/// The claims of a token that are read.
#[derive(Deserialize)]
struct JwtClaims {
    sub: Option<String>,
    role: Option<String>,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    scopes: StringOrList,
}

/// A list, or one text separated by spaces.
#[derive(Deserialize)]
#[serde(untagged)]
enum StringOrList {
    Many(Vec<String>),
    One(String),
}

impl Default for StringOrList {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl JwtClaims {
    fn caller(self) -> Result<Caller, JwtError> {
        let fits = |sub: &String| sub.len() <= 255 && !sub.chars().any(char::is_control);
        if !self.sub.as_ref().is_none_or(fits) {
            return Err(JwtError(
                "the token has a subject that is too long or has control characters",
            ));
        }
        let roles = self.role.iter().chain(&self.roles);
        let mut scopes: Vec<Scope> = roles.flat_map(|role| role_scopes(role)).collect();
        let own = match self.scopes {
            StringOrList::Many(texts) => texts,
            StringOrList::One(text) => text.split_whitespace().map(str::to_owned).collect(),
        };
        // Unknown scopes are ignored and allow nothing.
        scopes.extend(own.iter().filter_map(|text| text.parse::<Scope>().ok()));
        let actor = format!("jwt:{}", self.sub.as_deref().unwrap_or_default());
        Ok(Caller::new(actor, self.sub, Scopes::new(scopes)))
    }
}

/// Returns the scopes of a role.
fn role_scopes(role: &str) -> Vec<Scope> {
    match role {
        "admin" => vec![Scope::everything()],
        "read-write" => {
            [Verb::Read, Verb::Push, Verb::Pop, Verb::Configure].map(Scope::of_verb).to_vec()
        }
        "read-only" => vec![Scope::of_verb(Verb::Read)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
