//! Who calls, and what they may do: API keys, JSON web tokens, and the single key of the settings.
//!
//! # Where it sits
//! Above the store's [`AccessStore`](wakeline_store::AccessStore), below the HTTP face, which asks
//! [`Access`] who a request is from. The binary makes keys with it.
//!
//! # Invariants
//! * No secret is stored or logged; what is compared is compared in constant time.
//! * A token never chooses how it is verified: algorithms are pinned, keys belong to one family.
//! * What a node remembers of a key is at most [`REMEMBERED`] old: a key that is revoked elsewhere
//!   ends within that. Nothing is asked while nobody calls.
//! * Fetching a key set is the only call over HTTP made from here, bounded in time and size.

mod caller;
mod jwt;
mod key;
mod service;

pub use caller::Caller;
pub use jwt::{JwtAlgorithm, JwtKeys, JwtMistake, JwtOptions};
pub use key::MintedKey;
pub use service::{Access, AccessOptions, Denied, KeyRequest, REMEMBERED};
