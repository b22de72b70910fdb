//! Who a request is from.

use std::sync::Arc;

use wakeline_core::{Scope, Scopes};

/// Who a request is from, and what they may do. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    inner: Arc<Inner>,
}

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    actor: String,
    producer: Option<String>,
    scopes: Scopes,
}

impl Caller {
    pub(crate) fn new(actor: String, producer: Option<String>, scopes: Scopes) -> Self {
        Self { inner: Arc::new(Inner { actor, producer, scopes }) }
    }

    /// Somebody of whom nothing is asked.
    pub fn anyone() -> Self {
        Self::new("anonymous".to_owned(), None, Scopes::new(vec![Scope::everything()]))
    }

    /// The bearer of the key in the settings.
    pub(crate) fn of_settings() -> Self {
        Self::new("api_key".to_owned(), None, Scopes::new(vec![Scope::everything()]))
    }

    /// How the audit names them: `key:NAME`, `jwt:SUBJECT`, `api_key` or `anonymous`.
    pub fn actor(&self) -> &str {
        &self.inner.actor
    }

    /// What messages that they push say of their producer: a token's subject, or `key:NAME`.
    pub fn producer(&self) -> Option<&str> {
        self.inner.producer.as_deref()
    }

    /// What they may do.
    pub fn scopes(&self) -> &Scopes {
        &self.inner.scopes
    }
}
