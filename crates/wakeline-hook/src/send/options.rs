//! How endpoints are called.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::lookup::{NameLookup, SystemLookup};
use crate::guard::Guard;

/// Most bytes of an answer that are kept, unless set otherwise.
const RESPONSE_LEN_MAX: usize = 20_000;

/// How endpoints are called.
#[derive(Clone)]
pub struct SendOptions {
    /// What may be called.
    pub guard: Guard,
    /// Most bytes of an answer that are read and kept. 20,000.
    pub response_len_max: usize,
    /// What the sender calls itself.
    pub user_agent: String,
    /// Authorities that are trusted beside the public ones.
    pub roots: Vec<CertificateDer<'static>>,
    /// Turns names into addresses.
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
