//! The keys that tokens are verified with, and how a set of them is kept fresh.
//!
//! # Invariants
//! * A set is fetched when a token needs it: the first time, when it is old, or when a token names
//!   a key that it lacks; the last no more often than every [`AGAIN`], whatever tokens claim.
//! * A fetch that fails leaves the set as it was.
//! * Symmetric keys in a set are passed over: a set is public.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::error_chain;
use wakeline_store::BoxError;

use super::{JwtKeys, JwtMistake, fetch};

/// A set is fetched again when it is needed and this old.
const OLD: Duration = Duration::from_secs(600);
/// Shortest time between two fetches.
const AGAIN: Duration = Duration::from_secs(30);

/// The keys of tokens.
pub(super) struct KeySet {
    source: JwtKeys,
    state: Mutex<State>,
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    keys: Arc<Vec<NamedKey>>,
    /// When a fetch was tried last.
    tried: Option<Instant>,
    /// When the set was fetched.
    fetched: Option<Instant>,
    /// When the file that was read last had changed.
    changed: Option<SystemTime>,
}

struct NamedKey {
    id: Option<String>,
    /// The only algorithm, if the set names one.
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
        let state = Mutex::new(State { keys, ..State::default() });
        Self { source, state, fetching: tokio::sync::Mutex::default() }
    }

    /// The key for a token.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        match &self.source {
            // There is one key, whatever the token calls it.
            JwtKeys::Secret(_) | JwtKeys::Pem(_) => self.pick(None, algorithm),
            JwtKeys::File(path) => {
                self.read(path);
                self.pick(id, algorithm)
            }
            JwtKeys::Url(url) => {
                if self.is_old() {
                    self.fetch(url).await;
                }
                match self.pick(id, algorithm) {
                    None => {
                        self.fetch(url).await;
                        self.pick(id, algorithm)
                    }
                    found => found,
                }
            }
        }
    }

    /// The key of a name, or the only one that fits.
    fn pick(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
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
        self.state.lock().fetched.is_none_or(|at| at.elapsed() >= OLD)
    }

    async fn fetch(&self, url: &str) {
        let _one = self.fetching.lock().await;
        {
            let mut state = self.state.lock();
            if state.tried.is_some_and(|at| at.elapsed() < AGAIN) {
                return;
            }
            state.tried = Some(Instant::now());
        }
        match fetch::get(url).await.and_then(|body| parse(&body)) {
            Ok(keys) => {
                let mut state = self.state.lock();
                (state.keys, state.fetched) = (Arc::new(keys), Some(Instant::now()));
            }
            Err(error) => {
                let error = error_chain(&*error);
                tracing::warn!(
                    url,
                    error,
                    "jwks_url: the key set could not be fetched; the keys known so far are used"
                );
            }
        }
    }

    /// Reads the file, if it has changed.
    fn read(&self, path: &Path) {
        let changed = std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let mut state = self.state.lock();
        if changed.is_some() && changed == state.changed {
            return;
        }
        match std::fs::read(path).map_err(BoxError::from).and_then(|text| parse(&text)) {
            Ok(keys) => (state.keys, state.changed) = (Arc::new(keys), changed),
            Err(error) => {
                let error = error_chain(&*error);
                tracing::warn!(
                    path = %path.display(), error,
                    "jwks_file: the key set could not be read; the keys known so far are used"
                );
                // Not again before it changes again.
                state.changed = changed;
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

/// A key of a set that can verify tokens.
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

/// A public key as PEM, of whichever kind it is.
pub(super) fn from_pem(pem: &[u8]) -> Result<DecodingKey, JwtMistake> {
    DecodingKey::from_rsa_pem(pem)
        .or_else(|_| DecodingKey::from_ec_pem(pem))
        .or_else(|_| DecodingKey::from_ed_pem(pem))
        .map_err(|_| {
            JwtMistake(
                "jwt_public_key_file is not a PEM file with a public key of RSA, P-256 or Ed25519",
            )
        })
}
