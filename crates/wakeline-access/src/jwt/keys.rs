//! The keys with which tokens are verified, and how a set of them is refreshed.
//!
//! # Invariants
//! * A set is fetched when a token needs it: the first time, when it is old, or when a token names
//!   a key that is missing in it. In the last case it is fetched no more often than every
//!   [`REFETCH_INTERVAL_MIN`], whatever tokens claim.
//! * A fetch that fails leaves the set as it was.
//! * Symmetric keys in a set are ignored, because a set is public.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::error_chain;
use wakeline_store::BoxError;

use super::{JwtError, JwtKeys, fetch};

/// The age at which a set is fetched again when it is needed.
const MAX_AGE: Duration = Duration::from_secs(600);
/// The minimum time between two fetches.
const REFETCH_INTERVAL_MIN: Duration = Duration::from_secs(30);

/// The keys of tokens.
pub(super) struct KeySet {
    source: JwtKeys,
    state: Mutex<KeySetState>,
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KeySetState {
    keys: Arc<Vec<NamedKey>>,
    /// When a fetch was last attempted.
    tried_at: Option<Instant>,
    /// When the set was fetched.
    fetched_at: Option<Instant>,
    /// The modification time of the file when it was last read.
    file_changed_at: Option<SystemTime>,
}

struct NamedKey {
    id: Option<String>,
    /// The only algorithm of the key, if the set names one.
    algorithm: Option<String>,
    key: DecodingKey,
}

impl KeySet {
    pub(super) fn new(source: JwtKeys) -> Self {
        let keys = match &source {
            JwtKeys::Secret(secret) => vec![DecodingKey::from_secret(secret)],
            JwtKeys::Pem(pem) => from_pem(pem).into_iter().collect(),
            JwtKeys::File(_) | JwtKeys::Url(_) => Vec::new(),
        };
        let named = |key| NamedKey { id: None, algorithm: None, key };
        let keys = Arc::new(keys.into_iter().map(named).collect());
        let state = Mutex::new(KeySetState { keys, ..KeySetState::default() });
        Self { source, state, fetching: tokio::sync::Mutex::default() }
    }

    /// Returns the key for a token.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        match &self.source {
            // There is one key, whatever id the token names.
            JwtKeys::Secret(_) | JwtKeys::Pem(_) => self.find_in_set(None, algorithm),
            JwtKeys::File(path) => {
                self.read(path);
                self.find_in_set(id, algorithm)
            }
            JwtKeys::Url(url) => {
                if self.is_old() {
                    self.fetch(url).await;
                }
                match self.find_in_set(id, algorithm) {
                    None => {
                        self.fetch(url).await;
                        self.find_in_set(id, algorithm)
                    }
                    found => found,
                }
            }
        }
    }

    /// Returns the key with this id, or the only one that fits.
    fn find_in_set(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let keys = Arc::clone(&self.state.lock().keys);
        let name = format!("{algorithm:?}");
        let fits = |one: &&NamedKey| {
            one.key.family() == family(algorithm)
                && one.algorithm.as_ref().is_none_or(|own| *own == name)
                && id.is_none_or(|id| one.id.as_deref() == Some(id))
        };
        let mut fitting = keys.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Some(only.key.clone()),
            _ => None,
        }
    }

    fn is_old(&self) -> bool {
        self.state.lock().fetched_at.is_none_or(|at| at.elapsed() >= MAX_AGE)
    }

    async fn fetch(&self, url: &str) {
        let _one = self.fetching.lock().await;
        {
            let mut state = self.state.lock();
            if state.tried_at.is_some_and(|at| at.elapsed() < REFETCH_INTERVAL_MIN) {
                return;
            }
            state.tried_at = Some(Instant::now());
        }
        match fetch::get(url).await.and_then(|body| parse(&body)) {
            Ok(keys) => {
                let mut state = self.state.lock();
                (state.keys, state.fetched_at) = (Arc::new(keys), Some(Instant::now()));
            }
            Err(error) => {
                let error = error_chain(&*error);
                tracing::warn!(
                    url,
                    error,
                    "jwks_url: the key set could not be fetched; the server keeps the keys that \
                     it has"
                );
            }
        }
    }

    /// Reads the file if it has changed.
    fn read(&self, path: &Path) {
        let file_changed_at = std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let mut state = self.state.lock();
        if file_changed_at.is_some() && file_changed_at == state.file_changed_at {
            return;
        }
        match std::fs::read(path).map_err(BoxError::from).and_then(|text| parse(&text)) {
            Ok(keys) => (state.keys, state.file_changed_at) = (Arc::new(keys), file_changed_at),
            Err(error) => {
                let error = error_chain(&*error);
                tracing::warn!(
                    path = %path.display(), error,
                    "jwks_file: the key set could not be read; the server keeps the keys that it \
                     has"
                );
                // The file is not read again before it changes again.
                state.file_changed_at = file_changed_at;
            }
        }
    }
}

fn family(algorithm: Algorithm) -> AlgorithmFamily {
    match algorithm {
        Algorithm::RS256 => AlgorithmFamily::Rsa,
        Algorithm::ES256 => AlgorithmFamily::Ec,
        Algorithm::EdDSA => AlgorithmFamily::Ed,
        _ => AlgorithmFamily::Hmac,
    }
}

fn parse(text: &[u8]) -> Result<Vec<NamedKey>, BoxError> {
    let set: JwkSet =
        serde_json::from_slice(text).map_err(|error| format!("it is not a key set: {error}"))?;
    Ok(set.keys.iter().filter_map(named).collect())
}

/// Returns a key of a set if it can verify tokens.
fn named(jwk: &Jwk) -> Option<NamedKey> {
    let common = &jwk.common;
    let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    let usable = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => true,
        AlgorithmParameters::EllipticCurve(params) => params.curve == EllipticCurve::P256,
        AlgorithmParameters::OctetKeyPair(params) => params.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    Some(NamedKey {
        id: common.key_id.clone(),
        algorithm: common.key_algorithm.map(|algorithm| algorithm.to_string()),
        key: DecodingKey::from_jwk(jwk).ok().filter(|_| signs && usable)?,
    })
}

/// Parses a public key in PEM format, of any supported kind.
pub(super) fn from_pem(pem: &[u8]) -> Result<DecodingKey, JwtError> {
    DecodingKey::from_rsa_pem(pem)
        .or_else(|_| DecodingKey::from_ec_pem(pem))
        .or_else(|_| DecodingKey::from_ed_pem(pem))
        .map_err(|_| {
            JwtError(
                "jwt_public_key_file is not a PEM file with a public key of RSA, P-256 or Ed25519",
            )
        })
}
