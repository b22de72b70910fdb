//! The options for calling endpoints.
use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::lookup::{NameLookup, SystemLookup};
use crate::guard::Guard;

/// The default for [`SendOptions::response_len_max`].
const RESPONSE_LEN_MAX: usize = 20_000;

/// How endpoints are called.
#[derive(Clone)]
pub struct SendOptions {
    /// Which addresses and URLs may be called.
    pub guard: Guard,
    /// The maximum number of bytes of a response that are read and stored. The default is 20,000.
    pub response_len_max: usize,
    /// The value of the `User-Agent` header.
    pub user_agent: String,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub roots: Vec<CertificateDer<'static>>,
    /// Resolves host names to addresses.
    pub lookup: Arc<dyn NameLookup>,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            guard: Guard::default(),
            response_len_max: RESPONSE_LEN_MAX,
            user_agent: concat!("Wakeline-Webhooks/", env!("CARGO_PKG_VERSION")).to_owned(),
            roots: Vec::new(),
            lookup: Arc::new(SystemLookup),
        }
    }
}

impl fmt::Debug for SendOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendOptions")
            .field("guard", &self.guard)
            .field("response_len_max", &self.response_len_max)
            .field("user_agent", &self.user_agent)
            .field("roots", &self.roots.len())
            .finish_non_exhaustive()
    }
}
