//! Authentication and permissions of callers: API keys, JSON web tokens, and the single key of the
//! settings.
//!
//! # Where it sits
//! Above the store's [`AccessStore`](wakeline_store::AccessStore), and below the HTTP API, which
//! calls [`Access`] to authenticate requests. The binary creates keys with it.
//!
//! # Invariants
//! * No secret is stored or logged. Secrets are compared in constant time.
//! * A token never chooses how it is verified: algorithms are pinned, and every key belongs to one
//!   family.
//! * The cached state of a key is at most [`KEY_CACHE_TTL`] old: a key that is revoked on another
//!   node becomes invalid within that time. Without requests the store is not read.
//! * Fetching a key set is the only HTTP call made here. It is limited in time and size.

mod caller;
mod jwt;
mod key;
mod service;

pub use caller::Caller;
pub use jwt::{JwtAlgorithm, JwtError, JwtKeys, JwtOptions};
pub use key::MintedKey;
pub use service::{Access, AccessOptions, Denied, KEY_CACHE_TTL, KeyRequest};
